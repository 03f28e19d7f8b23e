//! Detects from a pod's log whether its script has started.
//!
//! The first process of a pod writes that a script starts before it lets it start. So a log that is
//! complete and does not say it is the proof that the script never ran, and nothing else is: a log
//! that cannot be read, or has lost its beginning, or is of a pod that may still start its script,
//! proves nothing.

use std::fmt;
use std::time::Duration;

use futures_util::AsyncReadExt as _;
use kube::api::LogParams;
use tokio::time::{Instant, sleep, timeout_at};
use toolbus_scripts::runner::Error;
use toolbus_scripts::supervisor::protocol::{Report, ReportReader};

use crate::errors;
use crate::pod_watch::{ContainerEnd, PodFollower};
use crate::requests::REQUEST_TIMEOUT;
use crate::script_session::ScriptSession;

/// How long reading the log may take, with all attempts: longer than an API server is away that is
/// started again.
const LOG_TIMEOUT: Duration = Duration::from_secs(45);
/// The log is tried for so long even at the deadline: the outcome of a script that may run is worth
/// it.
const LOG_TIMEOUT_MIN: Duration = Duration::from_millis(300);
const LOG_INTERVAL: Duration = Duration::from_millis(300);
/// The start is reported within this many bytes or not at all: a greeting takes up fifty bytes, and
/// is repeated a few hundred times at the most.
const LOG_BYTES_MAX: i64 = 64 << 10;

/// Whether a script has started.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StartState {
    /// It runs or has run.
    Started,
    /// It has not started, and its pod may still start it.
    NotYet,
    /// It never started and never will; the text says what became of its pod.
    NeverStarted(String),
}

impl fmt::Display for StartState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => f.write_str("started"),
            Self::NotYet => f.write_str("not yet"),
            Self::NeverStarted(reason) => write!(f, "never: {reason}"),
        }
    }
}

/// Evidence that a log gives of the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogEvidence {
    /// The script started.
    Started,
    /// From the first line to the last, which is where it ends: no script started.
    Whole,
    /// It does not say.
    Unclear,
}

/// Reads the log of a pod for the start of its script, until `by` at the latest.
///
/// # Errors
/// [`Error::OutcomeUnknown`] when it cannot be read.
pub(crate) async fn detect_start(
    session: &ScriptSession<'_>,
    follower: &PodFollower,
    by: Instant,
) -> Result<StartState, Error> {
    let unknown = |text: String| Err(Error::OutcomeUnknown(text));
    let start = Instant::now();
    let deadline = by.clamp(start + LOG_TIMEOUT_MIN, start + LOG_TIMEOUT);

    loop {
        // Asked first: once a container has ended, its log has all that there ever will be.
        let observed = follower.observed.borrow().clone();
        let attempt_end = deadline.min(Instant::now() + REQUEST_TIMEOUT);
        let error = match timeout_at(attempt_end, read_log(session)).await {
            Ok(Ok(log)) => return conclude_start(log, observed.container_end.as_ref()),
            // Its container is not there yet.
            Ok(Err(kube::Error::Api(status))) if status.code == 400 => {
                return Ok(StartState::NotYet);
            }
            Ok(Err(error)) => errors::error_chain(&error),
            Err(_) => format!("no answer within {:.1?}", start.elapsed()),
        };

        if observed.deleted {
            return unknown(format!("its pod was deleted: {error}"));
        }

        if Instant::now() + LOG_INTERVAL >= deadline {
            return unknown(format!("its log cannot be read: {error}"));
        }

        sleep(LOG_INTERVAL).await;
    }
}

fn conclude_start(log: LogEvidence, ended: Option<&ContainerEnd>) -> Result<StartState, Error> {
    match (log, ended) {
        (LogEvidence::Started, _) => Ok(StartState::Started),
        (_, None) => Ok(StartState::NotYet),
        (LogEvidence::Whole, Some(ended)) if is_orderly(ended) => Ok(StartState::NeverStarted(
            format!("{} {}", ended.reason, ended.message).trim_end().to_owned(),
        )),
        (_, Some(ended)) => Err(Error::OutcomeUnknown(format!(
            "its pod ended, and its log does not tell whether it started: {} {}",
            ended.reason, ended.message
        ))),
    }
}

/// Whether a container was seen to end, so that all it wrote is in its log. What a node says of
/// containers that it lost sight of, as by its own sudden end, is another reason.
fn is_orderly(ended: &ContainerEnd) -> bool {
    ended.exit_code.is_some()
        && matches!(ended.reason.as_str(), "Completed" | "Error" | "OOMKilled")
}

async fn read_log(session: &ScriptSession<'_>) -> Result<LogEvidence, kube::Error> {
    let parameters = LogParams { limit_bytes: Some(LOG_BYTES_MAX), ..LogParams::default() };
    let mut log = Box::pin(session.pods.log_stream(session.name, &parameters).await?);
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    loop {
        match log.read(&mut buffer).await.map_err(|error| kube::Error::Service(error.into()))? {
            0 => return Ok(classify_log(session.nonce, &bytes)),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn classify_log(nonce: &str, bytes: &[u8]) -> LogEvidence {
    let mut reports = ReportReader::new(nonce);
    let mut was_ready = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A gap, such as where the log has lost its beginning.
        let Ok(reports_read) = reports.accept(line) else { return LogEvidence::Unclear };
        if reports_read.contains(&Report::Started) {
            return LogEvidence::Started;
        }
        was_ready |= reports_read.contains(&Report::Ready);
    }

    let is_whole = was_ready && bytes.ends_with(b"\n") && (bytes.len() as i64) < LOG_BYTES_MAX;
    if is_whole { LogEvidence::Whole } else { LogEvidence::Unclear }
}

#[cfg(test)]
mod tests;
