//! The handler of `script.invoke`: answers requests with a runner.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_bus::responder::{
    Call, Context, Failure, Listen, Malformed, NO_ROOM, Received, Repeat, Reply, Responder, Service,
};
use toolbus_bus::{Asker, Bus, Envelope, Progress, Question, SubscribeError, Topic};
use toolbus_json::Limits;
use toolbus_tools::GrantCheck;
use toolbus_tools::bus::{reply_to, tool_failure};
use toolbus_tools::id::CallId;
use toolbus_wire::message::script::{
    ScriptInvokeRequest, ScriptInvokeResponse, ScriptQuestion, ScriptReason,
};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::message::toolbus::{AskKind, OutputStream, ToolProgress};
use toolbus_wire::name::{InstanceId, SCRIPTS_MANAGER};
use toolbus_wire::{ErrorCode, json, queue, topic};
use tracing::Instrument as _;

use crate::allowance::ScriptAllowance;
use crate::files::message;
use crate::metrics::ScriptMetrics;
use crate::response;
use crate::runner::{
    CHANNEL_BODY_BYTES_MAX, Channel, Error, INPUT_BYTES_MAX, LiveOutput, Outcome, PACKAGES_MAX,
    PRELUDE_BYTES_MAX, Run, Runner, SCRIPT_BYTES_MAX, Script, Stream, error_response,
};
use crate::tool::{PACKAGES_TIMEOUT, WAIT_BESIDE_TIMEOUT};

/// How many bytes the large requests of a worker may have together: four of the largest. Each is
/// held as the message and as what was read from it.
pub const LARGE_REQUESTS_BYTES: usize = 64 << 20;
/// A request of a script to its caller.
const REQUEST_LIMITS: Limits = Limits::of_bytes(CHANNEL_BODY_BYTES_MAX);

/// How a worker takes script requests.
pub struct WorkerOptions {
    /// How many it takes at a time.
    pub concurrency: NonZeroU16,
    /// What each script may take.
    pub allowance: ScriptAllowance,
    /// Which requests it takes at all.
    pub grants: GrantCheck,
}

/// Answers script requests with a runner.
///
/// # Errors
/// When a queue cannot be had.
pub async fn serve(
    bus: Arc<dyn Bus>,
    instance: &InstanceId,
    runner: Arc<dyn Runner>,
    options: WorkerOptions,
) -> Result<Responder, SubscribeError> {
    let WorkerOptions { concurrency, allowance, grants } = options;
    let listen = Listen {
        topic: topic::SCRIPT_INVOKE,
        subscription: queue::SCRIPTS_MANAGER_INVOKE.to_owned(),
        instance: instance.clone(),
        concurrency,
        large_requests_bytes: LARGE_REQUESTS_BYTES,
    };
    let metrics = ScriptMetrics::new(runner.name());
    Responder::start(bus, listen, ScriptService { runner, metrics, allowance, grants }).await
}

/// A runner that refuses every script and says why none is available.
pub struct Unavailable(pub String);

impl Runner for Unavailable {
    fn name(&self) -> &'static str {
        "unavailable"
    }

    fn run(&self, _script: Script, _run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(std::future::ready(Err(Error::Unavailable(self.0.clone()))))
    }
}

struct ScriptService {
    runner: Arc<dyn Runner>,
    metrics: ScriptMetrics,
    allowance: ScriptAllowance,
    grants: GrantCheck,
}

impl Service for ScriptService {
    type Request = ScriptInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ScriptInvokeRequest>, Malformed> {
        // The type is not looked at: the C# code does not, and only requests come here.
        let malformed = |reason| Malformed { ids: CallIds::of_malformed(&envelope.body), reason };
        let request: ScriptInvokeRequest =
            json::read(&envelope.body).map_err(|error| malformed(error.to_string()))?;
        // What is repeated in spans, logs and replies is bounded before anything repeats it.
        CallId::parse(&request.tool_call_id).map_err(|error| malformed(error.to_string()))?;
        check_request_size(&request).map_err(malformed)?;

        let packages = request.pip_packages.as_ref().is_some_and(|list| !list.is_empty());
        let beside = if packages { PACKAGES_TIMEOUT } else { Duration::ZERO };

        Ok(Call {
            ids: CallIds {
                tool_call_id: request.tool_call_id.clone(),
                tool_name: crate::tool::NAME.to_owned(),
            },
            default_budget: Duration::from_secs(self.timeout_seconds(&request))
                + WAIT_BESIDE_TIMEOUT
                + beside,
            repeat: if self.runner.adopts() { Repeat::FoundOut } else { Repeat::Never },
            request,
        })
    }

    fn authorize(
        &self,
        call: &Call<ScriptInvokeRequest>,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        let subject = || crate::client::subject_of(&call.request);
        let checked = self.grants.check(received, subject);
        // No reason of a script's end: it is no script's, and every caller of tools reads this one.
        checked.map_err(|error| reply_to(&call.ids, Err(error)))
    }

    fn serve(&self, request: ScriptInvokeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let asked = Duration::from_secs(self.timeout_seconds(&request));
            let left = context.call.deadline.for_next_hop().left();
            let call_id = &request.tool_call_id;

            let channel = match caller_channel(&request, &context.call.asker) {
                Ok(channel) => channel,
                Err(error) => return to_reply(&response::error_response(call_id, &error)),
            };

            let files = match message::decode_files(request.files.unwrap_or_default()) {
                Ok(files) => files,
                Err(text) => {
                    return to_reply(&response::error_response(call_id, &Error::Invalid(text)));
                }
            };

            let script = Script {
                source: request.script,
                input: request.input_data.unwrap_or_default(),
                timeout: asked.min(left),
                packages: request.pip_packages.unwrap_or_default(),
                files,
                prelude: request.channel.map(|channel| channel.prelude),
            };

            let run = Run {
                call_id: request.tool_call_id.clone(),
                source: context.source().to_owned(),
                key: context.key,
                redelivered: context.redelivered,
                deadline: context.call.deadline,
                cancelled: context.call.cancelled,
                channel,
                live: live_output(context.call.progress),
            };

            // Whichever is shorter is what ends a script: its own timeout, or the call's deadline.
            let asked = if left < asked { context.call.deadline.asked() } else { asked };
            let record = self.metrics.record_run();
            let ran = self.runner.run(script, run).instrument(record.span().clone()).await;

            let response = match ran {
                Ok(outcome) => response::outcome_response(call_id, outcome, asked),
                Err(error) => {
                    tracing::warn!(%error, runner = self.runner.name(), "script run failed");
                    response::error_response(call_id, &error)
                }
            };

            record.finish(&response);
            message::within_limit(response, to_reply)
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let (reason, text) = match failure {
            // A caller that cannot write a request may not be a script caller at all, so it gets
            // the error that every caller of tools understands.
            Failure::Malformed(_) => return tool_failure(ids, failure),
            Failure::Timeout { asked, .. } => {
                (ScriptReason::TimedOut, response::timeout_text(asked))
            }
            Failure::Cancelled { .. } => (ScriptReason::Cancelled, "Script cancelled".to_owned()),
            Failure::Busy => (ScriptReason::Busy, NO_ROOM.to_owned()),
            Failure::OutcomeUnknown => (
                ScriptReason::OutcomeUnknown,
                "the worker that had started the script was lost: it may have run or not"
                    .to_owned(),
            ),
            Failure::Crashed => {
                (ScriptReason::Failed, "the script runner failed: it panicked".to_owned())
            }
            Failure::TooLarge { bytes } => (
                ScriptReason::Failed,
                format!("the result has {bytes} bytes, too many for one message"),
            ),
        };

        to_reply(&response::failed_response(&ids.tool_call_id, reason, text))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        Some(topic::SCRIPT_RESULT)
    }

    fn source(&self) -> &str {
        SCRIPTS_MANAGER
    }
}

/// The reply that carries a response. A script that ends with an exit code has failed by itself, as
/// a tool does that tells of an error.
fn to_reply(response: &ScriptInvokeResponse) -> Reply {
    let error = match &response.reason {
        Some(ScriptReason::OutputTruncated) | None if response.exit_code == 0 => None,
        Some(ScriptReason::OutputTruncated) | None => Some(ErrorCode::ToolError.label()),
        Some(reason) => Some(reason.label()),
    };
    Reply { error, ..Reply::of(response) }
}

impl ScriptService {
    /// Seconds that the script may take.
    fn timeout_seconds(&self, request: &ScriptInvokeRequest) -> u64 {
        self.allowance.clamp_seconds(u64::try_from(request.timeout_seconds).unwrap_or(0))
    }
}

fn check_request_size(request: &ScriptInvokeRequest) -> Result<(), String> {
    let over = |what: &str, size: usize, limit: usize| {
        (size > limit).then(|| format!("{what} of {size} bytes is over the limit of {limit}"))
    };
    let input = request.input_data.as_deref().unwrap_or_default();
    let packages = request.pip_packages.as_deref().unwrap_or_default();
    let too_many = (packages.len() > PACKAGES_MAX)
        .then(|| format!("{} packages are over the limit of {PACKAGES_MAX}", packages.len()));

    let prelude = request.channel.as_ref().map_or(0, |channel| channel.prelude.len());

    over("a script", request.script.len(), SCRIPT_BYTES_MAX)
        .or_else(|| over("an input", input.len(), INPUT_BYTES_MAX))
        .or_else(|| over("a prelude", prelude, PRELUDE_BYTES_MAX))
        .or(too_many)
        .map_or(Ok(()), Err)
}

/// The channel of a script that has one: its requests are questions of the call.
fn caller_channel(request: &ScriptInvokeRequest, asker: &Asker) -> Result<Option<Channel>, Error> {
    if request.channel.is_none() {
        return Ok(None);
    }

    if !asker.kinds().contains(&AskKind::Script) {
        let text = "the script has a channel, and its caller answers no requests of scripts";
        return Err(Error::Invalid(text.to_owned()));
    }

    let asker = asker.clone();
    Ok(Some(Channel::to(move |number, body| {
        let asker = asker.clone();
        async move { ask_caller(&asker, number, &body).await }
    })))
}

/// Asks the caller what a script asks, and gives the answer, or an error as one.
async fn ask_caller(asker: &Asker, number: u32, body: &[u8]) -> Bytes {
    let request = match toolbus_json::from_slice::<Value>(body, &REQUEST_LIMITS) {
        Ok(request) => request,
        Err(error) => return error_response("invalid", &error.to_string()),
    };

    let params = ScriptQuestion { number, request };
    let question = Question {
        kind: AskKind::Script,
        from: None,
        params: serde_json::to_value(params).expect("a request can be written as JSON"),
        round: None,
    };

    match asker.ask(question).await {
        Ok(answer) => answer.to_string().into(),
        Err(error) => error_response(error.code.as_str(), &error.message),
    }
}

/// Output as progress, when the caller wants any.
fn live_output(progress: Progress) -> Option<LiveOutput> {
    progress.is_wanted().then(|| {
        Arc::new(move |stream, text: &str| {
            progress.send(ToolProgress {
                stream: Some(match stream {
                    Stream::Stdout => OutputStream::Stdout,
                    Stream::Stderr => OutputStream::Stderr,
                }),
                text: Some(text.to_owned()),
                ..ToolProgress::default()
            });
        }) as LiveOutput
    })
}

#[cfg(test)]
mod tests;
