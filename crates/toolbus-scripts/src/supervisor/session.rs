//! The session of a script with its supervisor, from the hand-over to its end.
//!
//! Invariants: the supervisor's own clock ends the script, and the one here, a little behind it,
//! ends the waiting; what was written before the end is kept; the requests of a script are answered
//! meanwhile, and hold up neither its output nor a clock.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::FusedFuture;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::output_files::FileReceiver;
use super::protocol::{self, Report, ReportReader, ScriptEnd};
use super::requests::Requests;
use super::texts::Texts;
use crate::files::Produced;
use crate::runner::{CHANNEL_OPEN_MAX, Ending, Error, LiveOutput, Outcome, Usage};

/// How much later than the supervisor's own clock the one here times a script out.
pub const CLOCK_GRACE: Duration = Duration::from_millis(300);
/// How long a script may take to start after it was handed over. It takes a millisecond.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the supervisor may take to report the end of a script that it was ordered to kill.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);
/// How long the output files of a script may take to arrive.
const OUTPUT_FILES_TIMEOUT: Duration = Duration::from_secs(10);

/// Most messages that wait to be sent: a response to every request, a kill and an acknowledgement.
const MESSAGES_MAX: usize = CHANNEL_OPEN_MAX + 2;

/// The stream to a supervisor.
pub trait SupervisorInput: Send {
    /// Sends a message. Not cancel-safe: the stream is of no use after it was dropped half way.
    fn send(&mut self, message: &Bytes) -> impl Future<Output = io::Result<()>> + Send;
}

/// The stream from a supervisor.
pub trait SupervisorOutput: Send {
    /// Waits for the next bytes that it writes. Cancel-safe. The error says why no more will come.
    fn receive(&mut self) -> impl Future<Output = Result<Bytes, String>> + Send;
}

/// The streams to and from a supervisor, and what has been read of the latter.
pub struct SupervisorLink<'a, I, O> {
    /// Messages to it.
    pub input: &'a mut I,
    /// Its reports.
    pub output: &'a mut O,
    /// Where they are put together.
    pub reports: &'a mut ReportReader,
}

/// What a supervisor has reported of a script so far.
pub struct Transcript {
    texts: Texts,
    /// When the start was reported.
    pub started: Option<Instant>,
    over: Option<Instant>,
    files: FileReceiver,
    /// How it ended, which is reported last.
    pub end: Option<ScriptEnd>,
}

/// One script, to be handed to a supervisor.
pub struct Session<'a> {
    /// How long it may run.
    pub timeout: Duration,
    /// Fires when its outcome is no longer wanted.
    pub cancelled: &'a CancellationToken,
}

/// How a session ended.
pub enum SessionEnd {
    /// The supervisor reported the end, and waits for [`protocol::acknowledge_message`].
    Reported(Outcome),
    /// The script was stopped; its usage is known only where the supervisor reported its end.
    Stopped(Outcome),
    /// The streams broke, and why.
    Broken(Transcript, String),
}

/// Why reading reports ended.
enum ReadEnd {
    Ended(ScriptEnd),
    Stop(StopReason),
}

/// Why a script is to be stopped.
enum StopReason {
    TimedOut,
    Cancelled,
}

impl Transcript {
    /// An empty one; `live` receives the output that is recorded.
    #[must_use]
    pub fn new(live: Option<LiveOutput>) -> Self {
        let files = FileReceiver::default();
        Self { texts: Texts::new(live), started: None, over: None, files, end: None }
    }

    /// Records a report.
    pub fn record(&mut self, report: Report) {
        match report {
            Report::Ready | Report::Taken => {}
            // Of requests, which are no part of the outcome.
            Report::Request { .. } | Report::Answered(_) | Report::Closed | Report::Mark(_) => {}
            Report::Started => _ = self.started.get_or_insert_with(Instant::now),
            Report::Output(stream, bytes) => self.texts.accept(stream, &bytes),
            Report::Over => _ = self.over.get_or_insert_with(Instant::now),
            Report::File(name, bytes) => self.files.begin_file(&name, bytes),
            Report::Part(piece) => self.files.append_piece(&piece),
            Report::Omitted(name, reason) => self.files.omit_file(&name, &reason),
            Report::Ended(end) => self.end = Some(end),
        }
    }

    /// What was recorded, as the outcome of a script that ended so.
    #[must_use]
    pub fn into_outcome(self, ending: Ending, elapsed: Duration, usage: Option<Usage>) -> Outcome {
        let (output, stdout, stderr) = self.texts.finish();
        let produced = match ending {
            Ending::Exited(_) | Ending::Killed { .. } => self.files.finish(),
            // It was stopped, perhaps while its files were reported.
            _ => Produced::default(),
        };
        Outcome { output, stdout, stderr, ending, elapsed, usage, produced }
    }
}

impl Session<'_> {
    /// Hands the script over and waits for its end, while its requests are answered. `request` is
    /// what makes it start.
    ///
    /// # Errors
    /// [`Error::Cancelled`] when that came before all of it was sent.
    pub async fn run(
        &self,
        request: Bytes,
        link: SupervisorLink<'_, impl SupervisorInput, impl SupervisorOutput>,
        requests: &mut Requests,
        live: Option<LiveOutput>,
    ) -> Result<SessionEnd, Error> {
        let SupervisorLink { input, output, reports } = link;
        let transcript = Transcript::new(live);
        let handed_over = Instant::now();
        let sent = tokio::select! {
            sent = timeout(HANDOVER_TIMEOUT, input.send(&request)) => matches!(sent, Ok(Ok(()))),
            () = self.cancelled.cancelled() => return Err(Error::Cancelled),
        };
        drop(request);

        if !sent {
            let reason = "the connection broke while the script was handed over".to_owned();
            return Ok(SessionEnd::Broken(transcript, reason));
        }

        let (messages, queued) = mpsc::channel(MESSAGES_MAX);
        let sending = pin!(send_messages(input, queued).fuse());
        let mut dialog = Dialog { output, reports, requests, transcript, messages, sending };

        match self.read_reports(&mut dialog, handed_over).await {
            Ok(ReadEnd::Ended(end)) => {
                dialog.requests.close();
                let transcript = dialog.finish_sending().await;
                let outcome = transcript.into_outcome(end.ending, end.elapsed, Some(end.usage));
                Ok(SessionEnd::Reported(outcome))
            }
            Ok(ReadEnd::Stop(stop)) => Ok(SessionEnd::Stopped(stop_script(stop, dialog).await)),
            Err(reason) => Ok(SessionEnd::Broken(dialog.transcript, reason)),
        }
    }

    /// Reads reports until the end of the script. The error says why the streams broke.
    async fn read_reports(
        &self,
        dialog: &mut Dialog<'_, impl SupervisorOutput, impl Sending>,
        handed_over: Instant,
    ) -> Result<ReadEnd, String> {
        loop {
            if let Some(end) = dialog.transcript.end.take() {
                return Ok(ReadEnd::Ended(end));
            }

            let (over, started) = (dialog.transcript.over, dialog.transcript.started);
            let deadline = match (over, started) {
                (Some(over), _) => over + OUTPUT_FILES_TIMEOUT,
                (None, Some(started)) => started + self.timeout + CLOCK_GRACE,
                (None, None) => handed_over + HANDOVER_TIMEOUT,
            };

            let bytes = tokio::select! {
                bytes = dialog.receive() => bytes?,
                () = self.cancelled.cancelled() => {
                    return Ok(ReadEnd::Stop(StopReason::Cancelled));
                }
                () = sleep_until(deadline) => match started {
                    _ if over.is_some() => {
                        return Err("what the script left does not arrive".to_owned());
                    }
                    Some(_) => return Ok(ReadEnd::Stop(StopReason::TimedOut)),
                    None => return Err("the script was handed over and nothing came back".to_owned()),
                },
            };

            dialog.record(&bytes)?;
        }
    }
}

/// A dialog with a supervisor that has a script: its reports in, messages out.
struct Dialog<'a, O, S> {
    output: &'a mut O,
    reports: &'a mut ReportReader,
    requests: &'a mut Requests,
    transcript: Transcript,
    /// Messages, in the order in which they are sent.
    messages: mpsc::Sender<Bytes>,
    /// Sends them, beside all that is read.
    sending: S,
}

/// The future that sends messages.
trait Sending: FusedFuture<Output = ()> + Unpin + Send {}

impl<F: FusedFuture<Output = ()> + Unpin + Send> Sending for F {}

impl<O: SupervisorOutput, S: Sending> Dialog<'_, O, S> {
    /// Waits for the next bytes of reports, while responses go out. Cancel-safe.
    async fn receive(&mut self) -> Result<Bytes, String> {
        loop {
            // Every arm only waits: a message that was taken is queued, and what is half sent stays
            // with the future that sends it.
            tokio::select! {
                bytes = self.output.receive() => return bytes,
                () = &mut self.sending, if !self.sending.is_terminated() => {}
                // There is room for a response to every open request. Where nothing can be sent any
                // more, the output ends as well.
                message = self.requests.next_message() => {
                    let _ = self.messages.try_send(message);
                }
            }
        }
    }

    /// Records reports. The error says why they are of no use.
    fn record(&mut self, bytes: &[u8]) -> Result<(), String> {
        for report in self.reports.accept(bytes).map_err(|error| error.to_string())? {
            if let Some(report) = self.requests.accept(report)? {
                self.transcript.record(report);
            }
        }

        Ok(())
    }

    /// Sends what is queued, so that no message is left half sent; not for long.
    async fn finish_sending(self) -> Transcript {
        drop(self.messages);
        if !self.sending.is_terminated() {
            let _ = timeout(KILL_TIMEOUT, self.sending).await;
        }
        self.transcript
    }
}

/// Sends messages in their order, until there are no more or the stream breaks.
async fn send_messages(input: &mut impl SupervisorInput, mut messages: mpsc::Receiver<Bytes>) {
    while let Some(message) = messages.recv().await {
        if input.send(&message).await.is_err() {
            return;
        }
    }
}

/// Tells the supervisor to end the script, and waits a moment for its reports.
async fn stop_script(
    stop: StopReason,
    mut dialog: Dialog<'_, impl SupervisorOutput, impl Sending>,
) -> Outcome {
    dialog.requests.close();
    let reported = async {
        dialog.messages.try_send(protocol::kill_message()).ok()?;
        while dialog.transcript.end.is_none() {
            let bytes = dialog.receive().await.ok()?;
            dialog.record(&bytes).ok()?;
        }

        dialog.messages.try_send(protocol::acknowledge_message()).ok()
    };
    // What is half sent is finished before.
    let is_reported = matches!(timeout(KILL_TIMEOUT, reported).await, Ok(Some(())));
    let mut transcript =
        if is_reported { dialog.finish_sending().await } else { dialog.transcript };

    let elapsed = transcript.started.map_or(Duration::ZERO, |started| started.elapsed());
    let end = transcript.end.take();
    let usage = end.as_ref().map(|end| end.usage);
    let elapsed = end.as_ref().map_or(elapsed, |end| end.elapsed);
    let ending = match (end, stop) {
        // It ended by itself just before.
        (Some(end), _) if end.ending != Ending::Cancelled => end.ending,
        (_, StopReason::Cancelled) => Ending::Cancelled,
        (_, StopReason::TimedOut) => Ending::TimedOut,
    };

    transcript.into_outcome(ending, elapsed, usage)
}

#[cfg(test)]
mod tests;
