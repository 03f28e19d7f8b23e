//! The handler of subscriptions: each request lasts as long as the subscription.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{
    Call, Context, Failure, Malformed, NO_ROOM, Received, Repeat, Reply, Service,
};
use toolbus_bus::{Envelope, Topic};
use toolbus_mcp_agent::read_id;
use toolbus_tools::GrantCheck;
use toolbus_wire::message::mcp::{McpResponse as _, McpSubscribeRequest, McpSubscribeResponse};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::{ErrorCode, Message as _, json};

use super::invoke_service::{caller_of, naming_of, with_headers};
use super::refusal_of;
use crate::lookup::Lookup;
use crate::server_pool::ServerPool;

/// How long a subscription holds when its caller does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone)]
pub(super) struct SubscribeService {
    pub(super) set: ServerPool,
    pub(super) source: String,
    pub(super) grants: GrantCheck,
}

impl Service for SubscribeService {
    type Request = McpSubscribeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<McpSubscribeRequest>, Malformed> {
        let ids = CallIds {
            tool_call_id: envelope.message_id.clone(),
            tool_name: McpSubscribeRequest::TYPE.to_owned(),
        };

        match json::read::<McpSubscribeRequest>(&envelope.body) {
            Ok(request) => {
                // The agent subscribes again when it is lost, and would not hear of a second one.
                Ok(Call { ids, request, default_budget: DEFAULT_TIMEOUT, repeat: Repeat::Never })
            }
            Err(error) => Err(Malformed { ids, reason: error.to_string() }),
        }
    }

    fn authorize(
        &self,
        call: &Call<McpSubscribeRequest>,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        self.check(&call.request, received)
    }

    fn serve(&self, request: McpSubscribeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let McpSubscribeRequest { server_name, uris } = request;
            let progress = context.call.progress.clone();
            let naming = naming_of(context.headers(), &self.grants);
            let caller = caller_of(&context, None);
            let server = server_name.clone();
            let lookup = Lookup { server, naming, caller, context: context.call };
            let Err(error) = self.set.subscribe(lookup, &uris, &progress).await;
            let response = McpSubscribeResponse::from_error(error.code(), error.to_string())
                .with_server_error(error.server_error().cloned());
            with_headers(Reply::of(&McpSubscribeResponse { server_name, ..response }))
        })
    }

    fn fail(&self, _: &CallIds, failure: Failure) -> Reply {
        let failed = ErrorCode::ExecutionFailed;
        let (code, error) = match failure {
            Failure::Malformed(reason) => (ErrorCode::InvalidArguments, reason),
            Failure::Timeout { asked, .. } => {
                (ErrorCode::Timeout, format!("it was for {} ms", asked.as_millis()))
            }
            Failure::Cancelled { .. } => (ErrorCode::Cancelled, "cancelled".to_owned()),
            Failure::Busy => (ErrorCode::Busy, NO_ROOM.to_owned()),
            Failure::OutcomeUnknown => {
                (ErrorCode::OutcomeUnknown, "the bridge that had it was lost".to_owned())
            }
            Failure::Crashed => (failed, "the bridge failed on the request".to_owned()),
            Failure::TooLarge { bytes } => {
                (failed, format!("an answer of {bytes} bytes is too large"))
            }
        };

        with_headers(Reply::of(&McpSubscribeResponse::from_error(code, error)))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        &self.source
    }
}

impl SubscribeService {
    /// Whether a request may be made.
    pub(super) fn check(
        &self,
        request: &McpSubscribeRequest,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        let subject = || read_id(&request.server_name, "resources/subscribe");
        let checked = self.grants.check(received, subject);

        checked.map_err(|error| {
            let (code, text) = refusal_of(error);
            let reply = Reply::of(&McpSubscribeResponse::from_error(code.clone(), text));
            with_headers(reply.failing(code.label()))
        })
    }
}
