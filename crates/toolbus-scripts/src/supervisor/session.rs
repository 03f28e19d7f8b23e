//! The session of a script with its supervisor, from the hand-over to its end.
//!
//! Invariants: the supervisor's own clock ends the script, and the one here, a little behind it,
//! ends the waiting; what was written before the end is kept.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::output_files::FileReceiver;
use super::protocol::{self, Report, ReportReader, ScriptEnd};
use super::texts::Texts;
use crate::files::Produced;
use crate::runner::{Ending, Error, LiveOutput, Outcome, Usage};

/// How much later than the supervisor's own clock the one here times a script out.
pub const CLOCK_GRACE: Duration = Duration::from_millis(300);
/// How long a script may take to start after it was handed over. It takes a millisecond.
pub const HANDOVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the supervisor may take to report the end of a script that it was ordered to kill.
const KILL_TIMEOUT: Duration = Duration::from_millis(200);
/// How long the output files of a script may take to arrive.
const OUTPUT_FILES_TIMEOUT: Duration = Duration::from_secs(10);

/// The streams to and from a supervisor.
pub trait SupervisorStreams: Send {
    /// Sends a message. Not cancel-safe: the streams are of no use after it was dropped half way.
    fn send(&mut self, message: &Bytes) -> impl Future<Output = io::Result<()>> + Send;

    /// Waits for the next bytes that it writes. Cancel-safe. The error says why no more will come.
    fn receive(&mut self) -> impl Future<Output = Result<Bytes, String>> + Send;
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
    /// Hands the script over and waits for its end. `request` is what makes it start.
    ///
    /// # Errors
    /// [`Error::Cancelled`] when that came before all of it was sent.
    pub async fn run(
        &self,
        request: Bytes,
        streams: &mut impl SupervisorStreams,
        reports: &mut ReportReader,
        live: Option<LiveOutput>,
    ) -> Result<SessionEnd, Error> {
        let mut transcript = Transcript::new(live);
        let handed_over = Instant::now();
        let sent = tokio::select! {
            sent = timeout(HANDOVER_TIMEOUT, streams.send(&request)) => matches!(sent, Ok(Ok(()))),
            () = self.cancelled.cancelled() => return Err(Error::Cancelled),
        };
        drop(request);

        if !sent {
            let reason = "the connection broke while the script was handed over".to_owned();
            return Ok(SessionEnd::Broken(transcript, reason));
        }

        match self.read_reports(streams, reports, &mut transcript, handed_over).await {
            Ok(ReadEnd::Ended(end)) => {
                let outcome = transcript.into_outcome(end.ending, end.elapsed, Some(end.usage));
                Ok(SessionEnd::Reported(outcome))
            }
            Ok(ReadEnd::Stop(stop)) => {
                let outcome = stop_script(stop, streams, reports, transcript).await;
                Ok(SessionEnd::Stopped(outcome))
            }
            Err(reason) => Ok(SessionEnd::Broken(transcript, reason)),
        }
    }

    /// Reads reports until the end of the script. The error says why the streams broke.
    async fn read_reports(
        &self,
        streams: &mut impl SupervisorStreams,
        reports: &mut ReportReader,
        transcript: &mut Transcript,
        handed_over: Instant,
    ) -> Result<ReadEnd, String> {
        loop {
            if let Some(end) = transcript.end.take() {
                return Ok(ReadEnd::Ended(end));
            }

            let deadline = match (transcript.over, transcript.started) {
                (Some(over), _) => over + OUTPUT_FILES_TIMEOUT,
                (None, Some(started)) => started + self.timeout + CLOCK_GRACE,
                (None, None) => handed_over + HANDOVER_TIMEOUT,
            };

            let bytes = tokio::select! {
                bytes = streams.receive() => bytes?,
                () = self.cancelled.cancelled() => {
                    return Ok(ReadEnd::Stop(StopReason::Cancelled));
                }
                () = sleep_until(deadline) => match transcript.started {
                    _ if transcript.over.is_some() => {
                        return Err("what the script left does not arrive".to_owned());
                    }
                    Some(_) => return Ok(ReadEnd::Stop(StopReason::TimedOut)),
                    None => return Err("the script was handed over and nothing came back".to_owned()),
                },
            };

            for report in reports.accept(&bytes).map_err(|error| error.to_string())? {
                transcript.record(report);
            }
        }
    }
}

/// Tells the supervisor to end the script, and waits a moment for its reports.
async fn stop_script(
    stop: StopReason,
    streams: &mut impl SupervisorStreams,
    reports: &mut ReportReader,
    mut transcript: Transcript,
) -> Outcome {
    let reported = async {
        streams.send(&protocol::kill_message()).await.ok()?;
        while transcript.end.is_none() {
            let bytes = streams.receive().await.ok()?;
            reports.accept(&bytes).ok()?.into_iter().for_each(|report| transcript.record(report));
        }

        streams.send(&protocol::acknowledge_message()).await.ok()
    };
    let _ = timeout(KILL_TIMEOUT, reported).await;

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
