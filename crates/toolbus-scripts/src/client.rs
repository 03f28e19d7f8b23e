//! Sends scripts over the bus to whoever runs them, for every executor alike.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use toolbus_bus::requester::{self, Requester, Seal};
use toolbus_bus::{CallContext, Envelope, Progress};
use toolbus_tools::bus::{error_of, output_of};
use toolbus_tools::call::CallError;
use toolbus_tools::id::ToolId;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::script::{
    ScriptChannel, ScriptFile, ScriptInvokeRequest, ScriptInvokeResponse,
};
use toolbus_wire::message::tool::ToolError;
use toolbus_wire::{ErrorCode, json, message, queue, topic};

use crate::tool;

/// Name of the tool whose permit is leave to run a script with a channel. Its source is that of
/// [`tool::NAME`].
pub const CHANNEL_TOOL: &str = "tool_chain";

/// Sends scripts to the workers that run them. Clones send through the same requester.
#[derive(Clone)]
pub struct ScriptClient {
    requester: Requester,
}

/// A script with a channel to its caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChannelScript {
    /// The source text, which the prelude runs.
    pub source: String,
    /// Python source that runs the script, as [`Script::prelude`](crate::Script::prelude) has it.
    pub prelude: String,
    /// What the script reads as `ROCKBOT_INPUT`.
    pub input: Option<String>,
    /// What it may take, in whole seconds. Workers clamp it to what is allowed.
    pub timeout: Duration,
    /// Packages to have installed.
    pub packages: Vec<String>,
    /// Files that it finds in its input folder.
    pub files: Vec<ScriptFile>,
}

/// Why a script has no response.
pub(crate) enum ScriptError {
    /// Its request has no reply.
    Request(requester::Error),
    /// Its reply is no response: the error of a tool, or nothing that can be read.
    Reply(CallError),
}

impl ScriptClient {
    /// A client that sends through this requester.
    #[must_use]
    pub fn new(requester: Requester) -> Self {
        Self { requester }
    }

    /// Runs a script whose requests the context's asker answers, as questions of the kind
    /// [`AskKind::Script`](toolbus_wire::message::toolbus::AskKind::Script): it must name that
    /// [kind](toolbus_bus::Asker::with_kinds). Each is asked once, unless a worker takes the script
    /// over: a request that was open then comes again with its number.
    ///
    /// The permit must be one for the tool [`CHANNEL_TOOL`].
    ///
    /// # Errors
    /// When the script has no response, or is known to have none yet. Of a script that ran and
    /// failed the response tells.
    pub async fn run(
        &self,
        script: ChannelScript,
        context: CallContext,
        permit: &dyn Seal,
    ) -> Result<ScriptInvokeResponse, CallError> {
        let ChannelScript { source, prelude, input, timeout, packages, files } = script;
        let request = ScriptInvokeRequest {
            tool_call_id: new_id(),
            script: source,
            input_data: input,
            timeout_seconds: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
            pip_packages: (!packages.is_empty()).then_some(packages),
            files: (!files.is_empty()).then_some(files),
            channel: Some(ScriptChannel { prelude }),
        };

        self.send(&request, context, permit).await.map_err(|error| match error {
            ScriptError::Request(error) => request_error(CHANNEL_TOOL, error),
            ScriptError::Reply(error) => error,
        })
    }

    /// Sends a request and waits for its response. Output is progress of the context, each piece
    /// once.
    pub(crate) async fn send(
        &self,
        request: &ScriptInvokeRequest,
        context: CallContext,
        permit: &dyn Seal,
    ) -> Result<ScriptInvokeResponse, ScriptError> {
        let requester = &self.requester;
        let progress = skip_repeated_progress(context.progress.clone());

        let sent = requester::Request {
            may_repeat: false,
            topic: &topic::SCRIPT_INVOKE,
            workers: Some(queue::SCRIPTS_MANAGER_INVOKE),
            envelope: Envelope::of(request, requester.agent().as_str()),
            call_id: &request.tool_call_id,
            context: context.with_progress(progress),
        };
        let reply = requester.request_sealed(sent, permit).await.map_err(ScriptError::Request)?;

        if message::is::<ToolError>(&reply)
            && let Err(error) = output_of(&reply)
        {
            return Err(ScriptError::Reply(error));
        }

        json::read::<ScriptInvokeResponse>(&reply.body).map_err(|error| {
            ScriptError::Reply(CallError::new(
                ErrorCode::OutcomeUnknown,
                format!("the reply of {} cannot be read: {error}", reply.source),
            ))
        })
    }
}

/// What a call is about that sends this request.
pub(crate) fn subject_of(request: &ScriptInvokeRequest) -> ToolId {
    let name = if request.channel.is_some() { CHANNEL_TOOL } else { tool::NAME };
    ToolId::of(tool::SOURCE, name)
}

/// The error of a request without a reply.
pub(crate) fn request_error(tool: &str, error: requester::Error) -> CallError {
    if error.is_unroutable() {
        let text = "no scripts manager is running: nobody takes scripts";
        return CallError::new(ErrorCode::Unroutable, text);
    }
    error_of(tool, error)
}

/// Drops progress that was forwarded before. A worker that adopts the script of a lost worker
/// replays its output from the beginning, in the same pieces and so with the same sequence numbers.
fn skip_repeated_progress(progress: Progress) -> Progress {
    if !progress.is_wanted() {
        return progress;
    }
    let next = AtomicU64::new(0);
    Progress::to(move |update| {
        if next.fetch_max(update.seq.saturating_add(1), Ordering::Relaxed) <= update.seq {
            progress.send(update);
        }
    })
}

#[cfg(test)]
mod tests;
