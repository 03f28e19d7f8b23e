//! Whether a script began, as its pod's log tells.
//!
//! The first process of a pod writes that a script starts before it lets it start. So a log that is
//! whole and does not say it is the proof that the script never ran, and nothing else is: a log that
//! cannot be read, or has lost its beginning, or is of a pod that may still begin, proves nothing.

use std::time::Duration;

use futures_util::AsyncReadExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use tokio::time::{Instant, sleep, timeout_at};
use toolbus_scripts::runner::Error;

use crate::errors;
use crate::pod_watch::{Ended, Follower};
use crate::protocol::{Report, Reports};

/// How long the cluster may be asked for the log.
const LIMIT: Duration = Duration::from_secs(10);
/// It is asked for so long in any case: of a script that may run the outcome is worth a look.
const LEAST: Duration = Duration::from_millis(300);
const PAUSE: Duration = Duration::from_millis(300);
/// The start is told within this, or it was not told: a greeting takes up fifty bytes, and is repeated
/// a few hundred times at the most.
const LOG_BYTES: i64 = 64 << 10;

/// Whether a script began.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It runs or has run.
    Yes,
    /// Its pod may still begin.
    NotYet,
    /// It never did and never will; the text says what became of its pod.
    Never(String),
}

/// What was read of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Log {
    /// The script started.
    Started,
    /// From the first line to the last, which is where it ends: no script started.
    Whole,
    /// It does not say.
    Unclear,
}

/// Looks into the log of a pod, until `by` at the latest.
///
/// # Errors
/// [`Error::OutcomeUnknown`] when it cannot be read.
pub(crate) async fn look(
    pods: &Api<Pod>,
    (name, nonce): (&str, &str),
    follower: &Follower,
    by: Instant,
) -> Result<Begun, Error> {
    let unknown = |text: String| Err(Error::OutcomeUnknown(text));
    let start = Instant::now();
    let deadline = by.clamp(start + LEAST, start + LIMIT);
    loop {
        // Asked first: once a container has ended, its log has all that there ever will be.
        let known = follower.known.borrow().clone();
        let error = match timeout_at(deadline, read(pods, name, nonce)).await {
            Ok(Ok(log)) => return conclude(log, known.ended.as_ref()),
            // Its container is not there yet.
            Ok(Err(kube::Error::Api(status))) if status.code == 400 => return Ok(Begun::NotYet),
            Ok(Err(error)) => errors::chain(&error),
            Err(_) => format!("no answer within {:.1?}", start.elapsed()),
        };
        if known.deleted {
            return unknown(format!("its pod was deleted: {error}"));
        }
        if Instant::now() + PAUSE >= deadline {
            return unknown(format!("its log cannot be read: {error}"));
        }
        sleep(PAUSE).await;
    }
}

fn conclude(log: Log, ended: Option<&Ended>) -> Result<Begun, Error> {
    match (log, ended) {
        (Log::Started, _) => Ok(Begun::Yes),
        (_, None) => Ok(Begun::NotYet),
        (Log::Whole, Some(ended)) if is_regular(ended) => {
            Ok(Begun::Never(format!("{} {}", ended.reason, ended.message).trim_end().to_owned()))
        }
        (_, Some(ended)) => Err(Error::OutcomeUnknown(format!(
            "its pod ended, and its log does not tell whether it started: {} {}",
            ended.reason, ended.message
        ))),
    }
}

/// Whether a container was seen to end, so that all it wrote is in its log. What a node says of
/// containers that it lost sight of, as by its own sudden end, is another reason.
fn is_regular(ended: &Ended) -> bool {
    ended.exit_code.is_some()
        && matches!(ended.reason.as_str(), "Completed" | "Error" | "OOMKilled")
}

async fn read(pods: &Api<Pod>, name: &str, nonce: &str) -> Result<Log, kube::Error> {
    let parameters = LogParams { limit_bytes: Some(LOG_BYTES), ..LogParams::default() };
    let mut log = Box::pin(pods.log_stream(name, &parameters).await?);
    let mut bytes = Vec::new();
    let mut buffer = vec![0; 8 << 10];
    loop {
        match log.read(&mut buffer).await.map_err(|error| kube::Error::Service(error.into()))? {
            0 => return Ok(of_text(nonce, &bytes)),
            count => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

fn of_text(nonce: &str, bytes: &[u8]) -> Log {
    let mut reports = Reports::new(nonce);
    let mut listened = false;
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // A gap, such as where the log has lost its beginning.
        let Ok(said) = reports.accept(line) else { return Log::Unclear };
        if said.contains(&Report::Started) {
            return Log::Started;
        }
        listened |= said.contains(&Report::Ready);
    }
    let is_whole = listened && bytes.ends_with(b"\n") && (bytes.len() as i64) < LOG_BYTES;
    if is_whole { Log::Whole } else { Log::Unclear }
}

#[cfg(test)]
mod tests;
