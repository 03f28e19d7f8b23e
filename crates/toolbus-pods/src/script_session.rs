//! The session of a script in its pod, from the hand-over to its end.
//!
//! The outcome is what the pod reports over the attached streams. Where these break, the
//! container's log, which has every line, takes their place. Invariants: the pod's own clock ends
//! the script, and the manager's clock, a little behind it, ends the waiting; no outcome is
//! reported twice or guessed; output is forwarded live, each piece once, wherever it is read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::attach::{ContainerFrame, ContainerInput, ContainerOutput};
use crate::pod_startup::ReadyPod;
use crate::pod_watch::PodFollower;
use crate::response_sender::ResponseSender;
use bytes::Bytes;
use futures_util::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Channel, Ending, Error, LiveOutput, Outcome};
use toolbus_scripts::supervisor::protocol::ReportReader;
use toolbus_scripts::supervisor::{
    CLOCK_GRACE, HANDOVER_TIMEOUT, Requests, Session, SessionEnd, SupervisorInput, SupervisorLink,
    SupervisorOutput, Transcript,
};

/// The pause before the log is read again: it doubles, up to the longest.
const LOG_BACKOFF: Duration = Duration::from_millis(300);
const LOG_BACKOFF_MAX: Duration = Duration::from_secs(2);
/// More than all that a pod writes in base64, and what the log may repeat: a bound for the reader.
const LOG_BYTES_MAX: i64 = 16 << 20;
/// How long the watch may take to say how a container ended.
const CONTAINER_END_TIMEOUT: Duration = Duration::from_secs(3);

/// A script in its pod, with all that its session needs.
pub(crate) struct ScriptSession<'a> {
    pub(crate) client: &'a Client,
    pub(crate) pods: &'a Api<Pod>,
    pub(crate) name: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) timeout: Duration,
    pub(crate) cancelled: &'a CancellationToken,
    /// Answers the requests of the script. `None` where another manager does.
    pub(crate) channel: Option<Channel>,
    pub(crate) live: Option<LiveOutput>,
    /// How many pieces of output have been forwarded.
    pub(crate) pieces_forwarded: Arc<AtomicU64>,
}

/// Why a log was not read to the script's end.
enum LogError {
    /// It cannot be read now.
    Unreadable(String),
    /// Some of it is gone: the node keeps no more of a log than its newest part.
    Incomplete(String),
}

/// The stream from a pod's supervisor.
struct AttachedOutput<'a> {
    pod: &'a str,
    output: ContainerOutput,
}

impl SupervisorInput for ContainerInput {
    async fn send(&mut self, message: &Bytes) -> io::Result<()> {
        Self::send(self, message).await.map_err(io::Error::other)
    }
}

impl SupervisorOutput for AttachedOutput<'_> {
    async fn receive(&mut self) -> Result<Bytes, String> {
        loop {
            match self.output.next().await {
                ContainerFrame::Stdout(bytes) => return Ok(bytes),
                ContainerFrame::Stderr(bytes) => {
                    let said = String::from_utf8_lossy(&bytes);
                    tracing::warn!(pod = self.pod, %said, "supervisor of a pod wrote to standard error");
                }
                ContainerFrame::Closed(reason) => return Err(reason),
            }
        }
    }
}

impl ScriptSession<'_> {
    /// Hands the script over and waits for its end. `None` when the streams broke before its start
    /// was reported: whether it started has to be found out. Where the pod waits for the
    /// acknowledgement of its end, the stream for it is left in `end_listener`.
    pub(crate) async fn run_script(
        &self,
        ready: ReadyPod,
        request: Bytes,
        follower: &mut PodFollower,
        end_listener: &mut Option<ContainerInput>,
    ) -> Result<Option<Outcome>, Error> {
        let ReadyPod { mut input, output, mut reports } = ready;
        let mut output = AttachedOutput { pod: self.name, output };
        let handed_over = Instant::now();
        let session = Session { timeout: self.timeout, cancelled: self.cancelled };
        let mut requests = Requests::new(self.channel.clone());

        let live = self.unforwarded_output();
        let link = SupervisorLink { input: &mut input, output: &mut output, reports: &mut reports };
        match session.run(request, link, &mut requests, live).await? {
            SessionEnd::Reported(outcome) => {
                *end_listener = Some(input);
                Ok(Some(outcome))
            }
            SessionEnd::Stopped(outcome) => Ok(Some(outcome)),
            SessionEnd::Broken(transcript, reason) => {
                tracing::warn!(pod = self.name, reason, "attached streams broke, reading the log");
                let started = transcript.started;
                if started.is_none() {
                    return Ok(None);
                }
                // The others are given up: what is sent goes over streams of its own.
                drop((input, output));
                let transcript =
                    self.read_log(started, handed_over, follower, &mut requests).await?;
                self.conclude_run(transcript, handed_over, follower).await.map(Some)
            }
        }
    }

    /// Waits for the end of a script that was handed over in another session. All of its output is
    /// forwarded, for what of it was forwarded before is not known here: pieces have the same
    /// numbers again, and callers skip those that they have. Of its requests, those without a
    /// response are sent again.
    pub(crate) async fn resume(&self, follower: &mut PodFollower) -> Result<Outcome, Error> {
        let now = Instant::now();
        let mut requests = Requests::of_adopted(self.channel.clone());
        let transcript = self.read_log(None, now, follower, &mut requests).await?;
        if transcript.started.is_none() && !self.cancelled.is_cancelled() {
            return Err(Error::OutcomeUnknown("it is not known to have started".to_owned()));
        }
        self.conclude_run(transcript, now, follower).await
    }

    /// Turns what was reported into the outcome.
    async fn conclude_run(
        &self,
        mut transcript: Transcript,
        handed_over: Instant,
        follower: &mut PodFollower,
    ) -> Result<Outcome, Error> {
        match transcript.end.take() {
            Some(end) => Ok(transcript.into_outcome(end.ending, end.elapsed, Some(end.usage))),
            None => self.infer_outcome(transcript, handed_over, follower).await,
        }
    }

    /// A live output that starts at the first piece and forwards those that were not forwarded yet:
    /// what is read again comes in the same pieces, because the pod has written them so.
    fn unforwarded_output(&self) -> Option<LiveOutput> {
        let live = self.live.clone()?;
        let pieces_forwarded = Arc::clone(&self.pieces_forwarded);
        let pieces_read = AtomicU64::new(0);
        Some(Arc::new(move |stream, text: &str| {
            let piece = pieces_read.fetch_add(1, Relaxed) + 1;
            if pieces_forwarded.fetch_max(piece, Relaxed) < piece {
                live(stream, text);
            }
        }))
    }

    /// Reads all reports of the pod from its log, and follows it for those to come.
    ///
    /// The log can be read as long as the pod is there, so it is tried until the script must have
    /// ended: neither a cluster that is away for a while nor a stream that is cut loses an outcome.
    async fn read_log(
        &self,
        started: Option<Instant>,
        handed_over: Instant,
        follower: &PodFollower,
        requests: &mut Requests,
    ) -> Result<Transcript, Error> {
        let deadline =
            started.unwrap_or(handed_over) + self.timeout + CLOCK_GRACE + HANDOVER_TIMEOUT;
        let mut pause = LOG_BACKOFF;
        let mut is_incomplete = false;

        loop {
            let mut transcript = Transcript::new(self.unforwarded_output());
            transcript.started = started;
            requests.rewind();
            let mut is_open = false;
            let mut is_late = false;
            let parameters = LogParams {
                follow: true,
                limit_bytes: Some(LOG_BYTES_MAX),
                ..LogParams::default()
            };
            let read = async {
                let log = self.pods.log_stream(self.name, &parameters).await;
                let log =
                    log.map_err(|error| LogError::Unreadable(crate::errors::error_chain(&error)))?;
                is_open = true;
                self.follow_log(Box::pin(log), &mut transcript, requests).await
            };

            // What the watch knows is asked for first: the log has all of it then.
            let observed = follower.observed.borrow().clone();
            let over = tokio::select! {
                read = read => match read {
                    Ok(()) if transcript.end.is_some() => true,
                    Ok(()) => observed.container_end.is_some() || observed.deleted,
                    Err(LogError::Unreadable(reason)) if observed.deleted => {
                        let text = format!("neither its streams nor its log can be read: {reason}");
                        return Err(Error::OutcomeUnknown(text));
                    }
                    Err(LogError::Unreadable(_)) => false,
                    // What is gone does not come back, and the end may be within it.
                    Err(LogError::Incomplete(reason)) if observed.container_end.is_some() => {
                        return Err(incomplete_log(&reason));
                    }
                    Err(LogError::Incomplete(_)) => {
                        is_incomplete = true;
                        false
                    }
                },
                // Whether it ended or not: its time is over, and it is deleted next.
                () = self.cancelled.cancelled() => true,
                () = sleep_until(deadline) => {
                    is_late = true;
                    true
                }
            };

            if is_late && is_incomplete {
                return Err(incomplete_log("its time is over"));
            }
            if is_late && !is_open {
                let text = "neither its streams nor its log could be read before its time was over";
                return Err(Error::OutcomeUnknown(text.to_owned()));
            }

            if over {
                return Ok(transcript);
            }

            tokio::select! {
                () = sleep(pause) => {}
                () = self.cancelled.cancelled() => {}
            }

            pause = (pause * 2).min(LOG_BACKOFF_MAX);
        }
    }

    async fn follow_log(
        &self,
        mut log: impl AsyncRead + Unpin,
        transcript: &mut Transcript,
        requests: &mut Requests,
    ) -> Result<(), LogError> {
        let mut reports = ReportReader::new(self.nonce);
        let mut responses = ResponseSender::new(self);
        let mut buffer = vec![0; 32 << 10];
        while transcript.end.is_none() {
            let count = tokio::select! {
                count = log.read(&mut buffer) => count,
                never = responses.forward(requests) => match never {},
            };
            let count = count.map_err(|error| LogError::Unreadable(error.to_string()))?;
            if count == 0 {
                break;
            }
            let accepted = reports.accept(&buffer[..count]);
            for report in accepted.map_err(|error| LogError::Incomplete(error.to_string()))? {
                let report = requests.accept(report).map_err(LogError::Unreadable)?;
                report.into_iter().for_each(|report| transcript.record(report));
            }
        }

        Ok(())
    }

    /// Infers the outcome from what the cluster knows, where the pod never reported the end.
    async fn infer_outcome(
        &self,
        transcript: Transcript,
        handed_over: Instant,
        follower: &mut PodFollower,
    ) -> Result<Outcome, Error> {
        let elapsed = transcript.started.unwrap_or(handed_over).elapsed();
        if self.cancelled.is_cancelled() {
            return Ok(transcript.into_outcome(Ending::Cancelled, elapsed, None));
        }

        if elapsed >= self.timeout {
            return Ok(transcript.into_outcome(Ending::TimedOut, elapsed, None));
        }

        let ended = follower
            .observed
            .wait_for(|observed| observed.container_end.is_some() || observed.deleted);
        // Either way, what is known then is all that can be known.
        let _ = timeout(CONTAINER_END_TIMEOUT, ended).await.is_ok();
        let observed = follower.observed.borrow().clone();

        match observed.container_end {
            Some(ended) if ended.reason == "OOMKilled" => {
                Ok(transcript.into_outcome(Ending::OutOfMemory, elapsed, None))
            }
            // Also `DeadlineExceeded`, which comes long after the script's own time. Here it has
            // come before it: the node's clock has jumped.
            Some(ended) => Err(Error::OutcomeUnknown(
                format!("its pod ended: {} {}", ended.reason, ended.message).trim_end().to_owned(),
            )),
            None if observed.deleted => {
                Err(Error::OutcomeUnknown("its pod was deleted".to_owned()))
            }
            None => Err(Error::OutcomeUnknown("its pod says nothing any more".to_owned())),
        }
    }
}

fn incomplete_log(reason: &str) -> Error {
    let text = format!("its streams broke, and its log does not have all that it said: {reason}");
    Error::OutcomeUnknown(text)
}

#[cfg(test)]
mod tests;
