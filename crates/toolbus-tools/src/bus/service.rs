//! The handler of `tool.invoke`.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;
use toolbus_bus::responder::{
    Call as Request, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, NO_ROOM,
    ParkedRequest, Repeat, Reply, Responder, Service,
};
use toolbus_bus::{Bus, Envelope, SubscribeError, Topic};
use toolbus_wire::message::tool::{CallIds, ToolInvokeRequest};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, header, json, message, queue, topic};

use super::reply::{self, reply_to};
use crate::call::{Arguments, Call, CallError};
use crate::id::{self, CallId, SessionId, ToolName};
use crate::invoker::Invoker;
use crate::registry::ToolEntry;
use crate::scope::{Door, Principal, Scope};
use crate::tool::TIMEOUT_DEFAULT;

/// How long after its start an agent waits for the tools that its workers have yet to announce,
/// before it says of a queued call that there is no such tool.
const REGISTRATION_GRACE: Duration = Duration::from_secs(10);

/// How tool calls are answered from the bus.
#[derive(Debug, Clone)]
pub struct ServeOptions {
    /// The agent that answers.
    pub agent: AgentName,
    /// This process.
    pub instance: InstanceId,
    /// How many calls run at a time, of each kind.
    pub concurrency: NonZeroU16,
    /// Calls that an earlier process has left parked; they go before new ones.
    pub parked: Vec<ParkedRequest>,
}

/// Answers tool calls from the bus: those that every agent hears, and those for this one alone.
///
/// # Errors
/// When a queue cannot be had.
pub async fn serve(
    bus: Arc<dyn Bus>,
    invoker: &Invoker,
    options: ServeOptions,
) -> Result<[Responder; 2], SubscribeError> {
    let ServeOptions { agent, instance, concurrency, parked } = options;
    let listen = |topic: Topic| Listen {
        subscription: queue::of_agent(&agent, topic.as_str()),
        topic,
        instance: instance.clone(),
        concurrency,
        large_requests_bytes: LARGE_REQUESTS_BYTES,
    };

    let registered_by = Instant::now() + REGISTRATION_GRACE;
    let service = || ToolService { invoker: invoker.clone(), agent: agent.clone(), registered_by };
    let own_topic = topic::tool_invoke_agent(&agent);
    let (own, shared) = parked.into_iter().partition(|request| *request.topic() == own_topic);
    let shared_topic = listen(topic::TOOL_INVOKE);
    Ok([
        Responder::resume(Arc::clone(&bus), shared_topic, shared, service()).await?,
        Responder::resume(bus, listen(own_topic), own, service()).await?,
    ])
}

struct ToolService {
    invoker: Invoker,
    agent: AgentName,
    /// When every tool that is going to be there should be.
    registered_by: Instant,
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
        let entry = self.invoker.registry().find(&request.tool_name);

        // A tool that is not there yet may have been run by a process that had it.
        let may_repeat = entry.as_ref().is_some_and(|e| e.tool.annotations.may_repeat());
        Ok(Request {
            ids: CallIds::from(&request),
            default_budget: entry
                .map_or(TIMEOUT_DEFAULT, |entry| default_budget(&entry, &request, envelope)),
            repeat: if may_repeat { Repeat::Harmless } else { Repeat::Never },
            request,
        })
    }

    fn serve(&self, request: ToolInvokeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let ids = CallIds::from(&request);
            let outcome = match self.call_of(request, context) {
                Ok(call) => {
                    self.await_registration(&call).await;
                    self.invoker.invoke(call).await
                }
                Err(error) => Err(CallError::invalid_arguments(error.to_string())),
            };
            reply_to(&ids, outcome)
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

impl ToolService {
    /// The call that a request asks for. Whoever sent it is known by its own word only.
    fn call_of(&self, request: ToolInvokeRequest, context: Context) -> Result<Call, id::Error> {
        let id = CallId::parse(&request.tool_call_id)?;
        let tool = ToolName::parse(&request.tool_name)?;
        let session = request.session_id.as_deref().filter(|session| !session.is_empty());
        let session = session.map(SessionId::parse).transpose()?;

        let principal = Principal::claimed(context.source());
        let scope = Scope::new(Door::Bus, principal, self.agent.clone()).with_session(session);
        let scope = self.invoker.begin_run(scope);
        let arguments = Arguments::Text(request.arguments);
        let call = Call::new(&Arc::new(scope), id, tool, arguments).with_context(context.call);
        Ok(call.with_slot(context.slot))
    }

    /// Shortly after the start, waits for a tool that is not there yet, and for what its arguments
    /// name: calls that were queued while no agent ran come before the workers have announced what
    /// they have.
    async fn await_registration(&self, call: &Call) {
        if Instant::now() >= self.registered_by {
            return;
        }

        let name = call.tool.as_str();
        let registry = self.invoker.registry();
        let is_there = async {
            registry.wait_until(|tools| tools.find(name).is_some()).await;
            if let (Some(entry), Ok(arguments)) =
                (registry.find(name), call.arguments.clone().object())
            {
                entry.executor.await_target(&arguments).await;
            }
        };
        // Nothing is lost when this is given up: the invoker looks the tool up by itself.
        tokio::select! {
            () = is_there => {}
            () = call.cancelled.cancelled() => {}
            () = tokio::time::sleep_until(self.registered_by) => {}
        }
    }
}

/// What the tool says of these arguments; a caller that says it itself needs no look at them.
fn default_budget(entry: &ToolEntry, request: &ToolInvokeRequest, envelope: &Envelope) -> Duration {
    let says = |name| envelope.headers.get(name).is_some();
    if says(header::TIMEOUT_MS) || says(header::DEADLINE_MS) {
        return entry.tool.timeout;
    }

    match Arguments::Text(request.arguments.clone()).object() {
        Ok(mut arguments) => {
            entry.executor.coerce(&mut arguments);
            entry.timeout(&arguments)
        }
        Err(_) => entry.tool.timeout,
    }
}

/// Reads the body of a tool request.
///
/// # Errors
/// When it is none.
pub fn read_request(envelope: &Envelope) -> Result<ToolInvokeRequest, Malformed> {
    let malformed = |reason| Malformed { ids: CallIds::of_malformed(&envelope.body), reason };
    let request: ToolInvokeRequest =
        json::read(&envelope.body).map_err(|error| malformed(error.to_string()))?;

    // What is repeated in spans, logs and replies is bounded before anything repeats it.
    CallId::parse(&request.tool_call_id).map_err(|error| malformed(error.to_string()))?;
    ToolName::parse(&request.tool_name).map_err(|error| malformed(error.to_string()))?;
    Ok(request)
}

/// The `ToolError` that tells of a failure of delivery.
#[must_use]
pub fn tool_failure(ids: &CallIds, failure: Failure) -> Reply {
    let execution = failure.execution();
    let (code, text) = match failure {
        Failure::Malformed(reason) => (ErrorCode::InvalidArguments, reason),
        Failure::Timeout { asked, .. } => (
            ErrorCode::Timeout,
            format!("tool '{}' did not end within {} ms", ids.tool_name, asked.as_millis()),
        ),
        Failure::Cancelled { .. } => (ErrorCode::Cancelled, "the call was cancelled".to_owned()),
        Failure::Busy => (ErrorCode::Busy, NO_ROOM.to_owned()),
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

    reply::error_reply(ids, CallError::new(code, text).with_execution(execution))
}
