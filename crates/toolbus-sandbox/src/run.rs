//! One script in a sandbox of its own.

use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Channel, Ending, Error, LiveOutput, Outcome};
use toolbus_scripts::supervisor::protocol::ScriptLimits;
use toolbus_scripts::supervisor::{Requests, Session, SessionEnd};

use crate::bubblewrap::RunningSandbox;
use crate::cgroup::ControlGroup;
use crate::config::Limits;

/// A script to run, and how.
pub(crate) struct ScriptRun<'a> {
    /// What makes the supervisor start it.
    pub(crate) request: Bytes,
    pub(crate) timeout: Duration,
    pub(crate) live: Option<LiveOutput>,
    /// Answers what the script asks.
    pub(crate) channel: Option<Channel>,
    pub(crate) cancelled: &'a CancellationToken,
    /// The control group of its sandbox.
    pub(crate) group: Option<&'a ControlGroup>,
}

/// Runs a script to its end. None of its processes is left then, but where the supervisor itself
/// reported the end, it and bubblewrap are still to be ended.
pub(crate) async fn run_script(
    run: ScriptRun<'_>,
    sandbox: &mut RunningSandbox,
) -> Result<Outcome, Error> {
    let ScriptRun { request, timeout, live, channel, cancelled, group } = run;
    let session = Session { timeout, cancelled };
    let mut requests = Requests::new(channel);
    let end = session.run(request, sandbox.link(), &mut requests, live).await;
    if let Ok(SessionEnd::Reported(outcome)) = end {
        return Ok(outcome);
    }

    sandbox.end().await.map_err(|error| Error::OutcomeUnknown(error.to_string()))?;

    match end? {
        SessionEnd::Reported(outcome) | SessionEnd::Stopped(outcome) => Ok(outcome),
        SessionEnd::Broken(transcript, reason) => {
            let reason = sandbox.explain(&reason).await;
            let started = transcript.started.ok_or(Error::Failed(reason.clone()))?;
            // The kernel takes the supervisor last, and may have come to it.
            if !group.is_some_and(ControlGroup::has_oom_killed) {
                return Err(Error::OutcomeUnknown(reason));
            }

            Ok(transcript.into_outcome(Ending::OutOfMemory, started.elapsed(), None))
        }
    }
}

/// The limits of a script, as its supervisor is told them. `memory_bytes` is 0 where a control
/// group bounds it.
pub(crate) fn script_limits(limits: &Limits, timeout: Duration, memory_bytes: u64) -> ScriptLimits {
    ScriptLimits {
        memory_bytes,
        processes: limits.processes,
        open_files: limits.open_files,
        file_bytes: limits.file_bytes,
        address_space_bytes: limits.address_space_bytes,
        inodes: limits.files,
        file_locks: limits.file_locks,
        ..ScriptLimits::new(timeout)
    }
}
