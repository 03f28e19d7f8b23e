//! The executor that sends a call over the bus.

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{CallContext, Envelope, PublishError, Topic};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;
use toolbus_wire::header::{self, Headers};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::ToolInvokeRequest;

use super::reply::output_of;
use crate::call::{CallError, Invocation, Outcome, Output};
use crate::grant::Permit;
use crate::id::SessionId;
use crate::tool::Executor;

/// Runs its tool wherever a topic is served.
pub struct Remote {
    requester: Requester,
    topic: Topic,
}

/// One call for the bus.
pub struct RemoteCall<'a> {
    /// Where it goes.
    pub topic: &'a Topic,
    /// The subscription that its workers take it from, where that is known.
    pub workers: Option<&'a str>,
    /// The tool, as the other side names it.
    pub tool: &'a str,
    /// The params that it is called by, of which the arguments are sent; see
    /// [`Invocation::params`].
    pub params: RawJson,
    /// The namespace that the call's memory lives under.
    pub session: Option<SessionId>,
    /// Headers beside those of every call.
    pub headers: Headers,
    /// Whether it is declared idempotent or read-only. Any other call is sent once.
    pub may_repeat: bool,
    /// That it has passed the gates: whoever has no permit sends no call.
    pub permit: &'a Permit,
    /// When to give up, and who cancels, hears and answers meanwhile.
    pub context: CallContext,
}

impl Remote {
    /// An executor for a tool that is served at `topic`, under the name it is registered by.
    #[must_use]
    pub fn new(requester: Requester, topic: Topic) -> Self {
        Self { requester, topic }
    }
}

impl Executor for Remote {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let mut call = call;
            let arguments = Value::Object(std::mem::take(&mut call.arguments));
            let remote = RemoteCall {
                topic: &self.topic,
                workers: None,
                tool: &call.tool,
                params: call.params(&call.tool, &arguments),
                session: call.scope.session.clone(),
                headers: Headers::new(),
                may_repeat: call.subject.annotations.may_repeat(),
                permit: &call.permit,
                context: call.context,
            };
            remote.send(&self.requester).await
        })
    }
}

impl RemoteCall<'_> {
    /// Sends the call and waits for its outcome.
    ///
    /// # Errors
    /// The other side's error, or why there is no answer.
    pub async fn send(self, requester: &Requester) -> Outcome {
        let tool = self.tool;
        match self.request(requester).await {
            Ok(reply) => output_of(&reply),
            Err(error) => Err(error_of(tool, error)),
        }
    }

    /// Sends the call and waits for its reply, for who has words of its own when none comes;
    /// [`output_of`] reads it.
    ///
    /// # Errors
    /// Why there is no reply.
    pub async fn request(self, requester: &Requester) -> Result<Envelope, requester::Error> {
        // The call has a fresh id on the wire: models number their calls alike in every session.
        let call_id = new_id();
        let body = ToolInvokeRequest {
            tool_call_id: call_id.clone(),
            tool_name: self.tool.to_owned(),
            arguments: self.params.member("arguments").map(|arguments| arguments.to_string()),
            session_id: self.session.map(|session| session.as_str().to_owned()),
        };

        let mut envelope = Envelope::of(&body, requester.agent().as_str());
        envelope.headers = self.headers;
        envelope.headers.set(header::CONTENT_TRUST, "tool-request");

        let request = requester::Request {
            topic: self.topic,
            workers: self.workers,
            envelope,
            call_id: &call_id,
            may_repeat: self.may_repeat,
            context: self.context,
        };
        requester.request_sealed(request, self.permit).await
    }
}

/// What a call ends in when no reply came.
#[must_use]
pub fn error_of(tool: &str, error: requester::Error) -> CallError {
    let code = match &error {
        requester::Error::Timeout { asked } => return CallError::timeout(tool, *asked),
        requester::Error::Cancelled => return CallError::cancelled(),
        // None of these was sent, or it was withdrawn.
        requester::Error::Publish(
            PublishError::Unroutable(_) | PublishError::Unavailable(_) | PublishError::Closed,
        )
        | requester::Error::Unserved(_) => ErrorCode::Unroutable,
        requester::Error::Refused(_) | requester::Error::Busy => ErrorCode::Busy,
        requester::Error::Publish(PublishError::TooLarge { .. }) => ErrorCode::InvalidArguments,
        requester::Error::WorkerLost | requester::Error::Unconfirmed | requester::Error::Closed => {
            ErrorCode::OutcomeUnknown
        }
        _ => ErrorCode::ExecutionFailed,
    };
    CallError::new(code, format!("tool '{tool}': {error}"))
}
