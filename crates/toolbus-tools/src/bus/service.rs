//! The handler of `tool.invoke`.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{
    Call as Request, Context, Failure, Listen, Malformed, Repeat, Reply, Responder, Service,
};
use toolbus_bus::{Bus, Envelope, SubscribeError, Topic};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, header, json, message, queue, topic};

use super::reply::{self, reply_to};
use crate::call::{Arguments, Call, Time};
use crate::invoker::Invoker;
use crate::registry::Registered;
use crate::tool::TIMEOUT_DEFAULT;

/// Answers tool calls from the bus: those that every agent hears, and those for this one alone.
///
/// # Errors
/// When a queue cannot be had.
pub async fn serve(
    bus: Arc<dyn Bus>,
    agent: &AgentName,
    instance: &InstanceId,
    concurrency: NonZeroU16,
    invoker: &Invoker,
) -> Result<[Responder; 2], SubscribeError> {
    let listen = |topic: Topic| Listen {
        subscription: queue::of_agent(agent, topic.as_str()),
        topic,
        instance: instance.clone(),
        concurrency,
    };
    let service = || ToolService { invoker: invoker.clone(), agent: agent.clone() };
    Ok([
        Responder::start(Arc::clone(&bus), listen(topic::TOOL_INVOKE), service()).await?,
        Responder::start(bus, listen(topic::tool_invoke_agent(agent)), service()).await?,
    ])
}

struct ToolService {
    invoker: Invoker,
    agent: AgentName,
}

impl Service for ToolService {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Request<ToolInvokeRequest>, Malformed> {
        if !message::is::<ToolInvokeRequest>(envelope) {
            return Err(Malformed {
                ids: CallIds::of_malformed(&envelope.body),
                reason: format!("unknown message type '{}'", envelope.message_type),
            });
        }
        let request = read_request(envelope)?;
        let registered = self.invoker.registry().find(&request.tool_name);
        let tool = registered.as_ref().map(|registered| &registered.tool);
        Ok(Request {
            ids: CallIds::from(&request),
            default_budget: registered
                .as_ref()
                .map_or(TIMEOUT_DEFAULT, |registered| budget(registered, &request, envelope)),
            repeat: match tool {
                Some(tool) if tool.annotations.may_repeat() => Repeat::Harmless,
                // A tool that is not there does nothing, however often it is called.
                None => Repeat::Harmless,
                Some(_) => Repeat::Never,
            },
            request,
        })
    }

    fn serve(&self, request: ToolInvokeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let call = Call {
                id: request.tool_call_id,
                tool: request.tool_name,
                arguments: Arguments::Text(request.arguments),
                caller: context.source,
                session: request.session_id,
                time: Time::Until(context.deadline),
                cancelled: context.cancelled,
                progress: context.progress,
                asker: context.asker,
            };
            let ids = CallIds { tool_call_id: call.id.clone(), tool_name: call.tool.clone() };
            reply_to(&ids, self.invoker.invoke(call).await)
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        tool_failure(ids, failure)
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        Some(topic::TOOL_RESULT)
    }

    fn source(&self) -> &str {
        self.agent.as_str()
    }
}

/// What the tool says of these arguments; a caller that says it itself needs no look at them.
fn budget(registered: &Registered, request: &ToolInvokeRequest, envelope: &Envelope) -> Duration {
    let says = |name| envelope.headers.get(name).is_some();
    if says(header::TIMEOUT_MS) || says(header::DEADLINE_MS) {
        return registered.tool.timeout;
    }
    match Arguments::Text(request.arguments.clone()).object() {
        Ok(mut arguments) => {
            registered.executor.coerce(&mut arguments);
            registered.budget(&arguments)
        }
        Err(_) => registered.tool.timeout,
    }
}

/// Reads the body of a tool request.
///
/// # Errors
/// When it is none.
pub fn read_request(envelope: &Envelope) -> Result<ToolInvokeRequest, Malformed> {
    json::read::<ToolInvokeRequest>(&envelope.body).map_err(|error| Malformed {
        ids: CallIds::of_malformed(&envelope.body),
        reason: error.to_string(),
    })
}

/// The `ToolError` that tells of a failure of delivery.
#[must_use]
pub fn tool_failure(ids: &CallIds, failure: Failure) -> Reply {
    let (code, text) = match failure {
        Failure::Malformed(reason) => (ErrorCode::InvalidArguments, reason),
        Failure::Timeout { asked } => (
            ErrorCode::Timeout,
            format!("tool '{}' did not end within {} ms", ids.tool_name, asked.as_millis()),
        ),
        Failure::Cancelled => (ErrorCode::Cancelled, "the call was cancelled".to_owned()),
        Failure::OutcomeUnknown => (
            ErrorCode::OutcomeUnknown,
            "the worker that had started the call was lost: it may have taken effect or not"
                .to_owned(),
        ),
        Failure::Crashed => (
            ErrorCode::ExecutionFailed,
            format!("tool '{}' failed: its worker panicked", ids.tool_name),
        ),
        Failure::TooLarge { bytes } => (
            ErrorCode::ExecutionFailed,
            format!("the result has {bytes} bytes, too many for one message"),
        ),
    };
    reply::failure(ids, code, text)
}
