//! A script in its pod, from the moment it is handed over to its end.
//!
//! The outcome is what the pod says, heard through the attached streams. Where these break, the
//! container's log, which has every line, takes their place. Invariants: the pod's own clock ends
//! the script, and the manager's clock, a little behind it, ends the waiting; no outcome is told
//! twice or guessed; output is live, each piece once, wherever it is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::{AsyncRead, AsyncReadExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::Texts;
use toolbus_scripts::files::Produced;
use toolbus_scripts::runner::{Ending, Error, LiveOutput, Outcome, Usage};

use crate::attach::{Frame, Input, Output};
use crate::output_files::Receiving;
use crate::pod_startup::Born;
use crate::pod_watch::Follower;
use crate::protocol::{self, End, Report, Reports};

/// How much later than the pod's own clock the manager's fires.
const BEHIND: Duration = Duration::from_millis(300);
/// How long a pod that was told to end its script may take to say so.
const KILLED: Duration = Duration::from_millis(200);
/// How long a script may take to start after it was handed over. It takes a millisecond.
const HANDOVER: Duration = Duration::from_secs(5);
/// How long all that a script left may take to arrive.
const FILES: Duration = Duration::from_secs(10);
/// The pause before the log is read again: it doubles, up to the longest.
const LOG_PAUSE: Duration = Duration::from_millis(300);
const LOG_PAUSE_MAX: Duration = Duration::from_secs(2);
/// More than all that a pod writes in base64, and what the log may repeat: a bound for the reader.
const LOG_BYTES: i64 = 16 << 20;
/// How long the watch may take to say how a container ended.
const VERDICT: Duration = Duration::from_secs(3);

/// A script that was handed over.
pub(crate) struct Life<'a> {
    pub(crate) pods: &'a Api<Pod>,
    pub(crate) name: &'a str,
    pub(crate) nonce: &'a str,
    pub(crate) timeout: Duration,
    pub(crate) cancelled: &'a CancellationToken,
    pub(crate) live: Option<LiveOutput>,
    /// How many pieces of output have been told.
    pub(crate) told: Arc<AtomicU64>,
}

/// Why the waiting ended without the pod's own word.
enum Stop {
    TimedOut,
    Cancelled,
}

/// What was heard so far.
struct Heard {
    texts: Texts,
    started: Option<Instant>,
    over: Option<Instant>,
    files: Receiving,
    end: Option<End>,
}

impl Heard {
    fn new(live: Option<LiveOutput>) -> Self {
        let files = Receiving::default();
        Self { texts: Texts::new(live), started: None, over: None, files, end: None }
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Ready | Report::Taken => {}
            Report::Started => _ = self.started.get_or_insert_with(Instant::now),
            Report::Output(stream, bytes) => self.texts.accept(stream, &bytes),
            Report::Over => _ = self.over.get_or_insert_with(Instant::now),
            Report::File(name, bytes) => self.files.begin(&name, bytes),
            Report::Part(piece) => self.files.append(&piece),
            Report::Omitted(name, reason) => self.files.omit(&name, &reason),
            Report::Ended(end) => self.end = Some(end),
        }
    }

    fn outcome(self, ending: Ending, elapsed: Duration, usage: Option<Usage>) -> Outcome {
        let (output, stdout, stderr) = self.texts.finish();
        let produced = match ending {
            Ending::Exited(_) | Ending::Killed { .. } => self.files.finish(),
            // It was stopped, perhaps while it told what it left.
            _ => Produced::default(),
        };
        Outcome { output, stdout, stderr, ending, elapsed, usage, produced }
    }
}

impl Life<'_> {
    /// Hands the script over and waits for its end. `None` when the streams broke before it was heard
    /// to start: whether it did has to be found out. Where the pod waits to hear that its end was heard,
    /// what it hears is left in `ear`.
    pub(crate) async fn run(
        &self,
        born: Born,
        request: bytes::Bytes,
        (follower, ear): (&mut Follower, &mut Option<Input>),
    ) -> Result<Option<Outcome>, Error> {
        let Born { mut input, mut output, mut reports } = born;
        let mut heard = Heard::new(self.untold());
        let handed = Instant::now();
        let sent = tokio::select! {
            sent = timeout(HANDOVER, input.send(&request)) => matches!(sent, Ok(Ok(()))),
            () = self.cancelled.cancelled() => return Err(Error::Cancelled),
        };
        drop(request);
        let stop = if sent {
            self.listen(&mut output, &mut reports, &mut heard, handed).await
        } else {
            Err("the connection broke while the script was handed over".to_owned())
        };
        match stop {
            Ok(None) => *ear = Some(input),
            Ok(Some(stop)) => {
                return Ok(Some(self.stopped(stop, (input, output, reports), heard).await));
            }
            Err(broken) => {
                tracing::warn!(
                    pod = self.name,
                    reason = broken,
                    "the attached streams broke: reading the log"
                );
                let live_started = heard.started;
                if live_started.is_none() {
                    return Ok(None);
                }
                heard = self.read_log(live_started, handed, follower).await?;
            }
        }
        self.tell(heard, handed, follower).await.map(Some)
    }

    /// Waits for the end of a script that somebody else handed over. All of its output is told, for
    /// what of it was told before is not known here: pieces have the same numbers again, and callers
    /// leave out those that they have.
    pub(crate) async fn resume(&self, follower: &mut Follower) -> Result<Outcome, Error> {
        let now = Instant::now();
        let heard = self.read_log(None, now, follower).await?;
        if heard.started.is_none() && !self.cancelled.is_cancelled() {
            return Err(Error::OutcomeUnknown("it is not known to have started".to_owned()));
        }
        self.tell(heard, now, follower).await
    }

    async fn tell(
        &self,
        mut heard: Heard,
        handed: Instant,
        follower: &mut Follower,
    ) -> Result<Outcome, Error> {
        match heard.end.take() {
            Some(end) => Ok(heard.outcome(end.ending, end.elapsed, Some(end.usage))),
            None => self.without_word(heard, handed, follower).await,
        }
    }

    /// Takes what the pod says until its end. `Ok(None)` is the end, `Err` a broken stream.
    async fn listen(
        &self,
        output: &mut Output,
        reports: &mut Reports,
        heard: &mut Heard,
        handed: Instant,
    ) -> Result<Option<Stop>, String> {
        while heard.end.is_none() {
            let deadline = match (heard.over, heard.started) {
                (Some(over), _) => over + FILES,
                (None, Some(started)) => started + self.timeout + BEHIND,
                (None, None) => handed + HANDOVER,
            };
            let frame = tokio::select! {
                frame = output.next() => frame,
                () = self.cancelled.cancelled() => return Ok(Some(Stop::Cancelled)),
                () = sleep_until(deadline) => match heard.started {
                    _ if heard.over.is_some() => {
                        return Err("what the script left does not arrive".to_owned());
                    }
                    Some(_) => return Ok(Some(Stop::TimedOut)),
                    None => return Err("the script was handed over and nothing came back".to_owned()),
                },
            };
            match frame {
                Frame::Stdout(bytes) => {
                    for report in reports.accept(&bytes).map_err(|error| error.to_string())? {
                        heard.take(report);
                    }
                }
                Frame::Stderr(bytes) => {
                    tracing::warn!(pod = self.name, said = %String::from_utf8_lossy(&bytes), "the first process of a pod complains");
                }
                Frame::Closed(reason) => return Err(reason),
            }
        }
        Ok(None)
    }

    /// Ends the script, and waits a moment for what the pod says of it.
    async fn stopped(
        &self,
        stop: Stop,
        (mut input, mut output, mut reports): (Input, Output, Reports),
        mut heard: Heard,
    ) -> Outcome {
        let said = async {
            input.send(&protocol::kill()).await.ok()?;
            while heard.end.is_none() {
                match output.next().await {
                    Frame::Stdout(bytes) => {
                        reports
                            .accept(&bytes)
                            .ok()?
                            .into_iter()
                            .for_each(|report| heard.take(report));
                    }
                    Frame::Stderr(_) => {}
                    Frame::Closed(_) => return None,
                }
            }
            input.send(&protocol::acknowledge()).await.ok()
        };
        let _ = timeout(KILLED, said).await;
        let elapsed = heard.started.map_or(Duration::ZERO, |started| started.elapsed());
        let end = heard.end.take();
        let usage = end.as_ref().map(|end| end.usage);
        let elapsed = end.as_ref().map_or(elapsed, |end| end.elapsed);
        let ending = match (end, stop) {
            // It ended by itself just before.
            (Some(end), _) if end.ending != Ending::Cancelled => end.ending,
            (_, Stop::Cancelled) => Ending::Cancelled,
            (_, Stop::TimedOut) => Ending::TimedOut,
        };
        heard.outcome(ending, elapsed, usage)
    }

    /// Takes output from its beginning, and tells what was not told yet: what is read once more comes
    /// in the same pieces, because the pod has written them so.
    fn untold(&self) -> Option<LiveOutput> {
        let live = self.live.clone()?;
        let (told, read) = (Arc::clone(&self.told), AtomicU64::new(0));
        Some(Arc::new(move |stream, text: &str| {
            let piece = read.fetch_add(1, Relaxed) + 1;
            if told.fetch_max(piece, Relaxed) < piece {
                live(stream, text);
            }
        }))
    }

    /// All that the pod ever said, from its log, and what it says from now on.
    ///
    /// The log can be read as long as the pod is there, so it is tried until the script must have
    /// ended: neither a cluster that is away for a while nor a stream that is cut loses an outcome.
    async fn read_log(
        &self,
        started: Option<Instant>,
        handed: Instant,
        follower: &Follower,
    ) -> Result<Heard, Error> {
        let deadline = started.unwrap_or(handed) + self.timeout + BEHIND + HANDOVER;
        let mut pause = LOG_PAUSE;
        loop {
            let mut heard = Heard::new(self.untold());
            heard.started = started;
            let (mut is_open, mut is_late) = (false, false);
            let parameters =
                LogParams { follow: true, limit_bytes: Some(LOG_BYTES), ..LogParams::default() };
            let read = async {
                let log = self.pods.log_stream(self.name, &parameters).await;
                let log = log.map_err(|error| crate::errors::chain(&error))?;
                is_open = true;
                self.follow_log(Box::pin(log), &mut heard).await
            };
            // What the watch knows is asked for first: the log has all of it then.
            let known = follower.known.borrow().clone();
            let over = tokio::select! {
                read = read => match read {
                    Ok(()) if heard.end.is_some() => true,
                    Ok(()) => known.ended.is_some() || known.deleted,
                    Err(reason) if known.deleted => {
                        let text = format!("neither its streams nor its log can be read: {reason}");
                        return Err(Error::OutcomeUnknown(text));
                    }
                    Err(_) => false,
                },
                // Whether it ended or not: its time is over, and it is deleted next.
                () = self.cancelled.cancelled() => true,
                () = sleep_until(deadline) => {
                    is_late = true;
                    true
                }
            };
            if is_late && !is_open {
                let text = "neither its streams nor its log could be read before its time was over";
                return Err(Error::OutcomeUnknown(text.to_owned()));
            }
            if over {
                return Ok(heard);
            }
            tokio::select! {
                () = sleep(pause) => {}
                () = self.cancelled.cancelled() => {}
            }
            pause = (pause * 2).min(LOG_PAUSE_MAX);
        }
    }

    async fn follow_log(
        &self,
        mut log: impl AsyncRead + Unpin,
        heard: &mut Heard,
    ) -> Result<(), String> {
        let mut reports = Reports::new(self.nonce);
        let mut buffer = vec![0; 32 << 10];
        while heard.end.is_none() {
            let count = log.read(&mut buffer).await.map_err(|error| error.to_string())?;
            if count == 0 {
                break;
            }
            for report in reports.accept(&buffer[..count]).map_err(|error| error.to_string())? {
                heard.take(report);
            }
        }
        Ok(())
    }

    /// The pod never said how the script ended: what the cluster knows has to do.
    async fn without_word(
        &self,
        heard: Heard,
        handed: Instant,
        follower: &mut Follower,
    ) -> Result<Outcome, Error> {
        let elapsed = heard.started.unwrap_or(handed).elapsed();
        if self.cancelled.is_cancelled() {
            return Ok(heard.outcome(Ending::Cancelled, elapsed, None));
        }
        if elapsed >= self.timeout {
            return Ok(heard.outcome(Ending::TimedOut, elapsed, None));
        }
        let ended = follower.known.wait_for(|known| known.ended.is_some() || known.deleted);
        // Either way, what is known then is all that can be known.
        let _ = timeout(VERDICT, ended).await.is_ok();
        let known = follower.known.borrow().clone();
        match known.ended {
            Some(ended) if ended.reason == "OOMKilled" => {
                Ok(heard.outcome(Ending::OutOfMemory, elapsed, None))
            }
            // Also `DeadlineExceeded`, which comes long after the script's own time. Here it has come
            // before it: the node's clock has jumped.
            Some(ended) => Err(Error::OutcomeUnknown(
                format!("its pod ended: {} {}", ended.reason, ended.message).trim_end().to_owned(),
            )),
            None if known.deleted => Err(Error::OutcomeUnknown("its pod was deleted".to_owned())),
            None => Err(Error::OutcomeUnknown("its pod says nothing any more".to_owned())),
        }
    }
}
