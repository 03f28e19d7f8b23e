//! The handler of `mcp.subscribe`: each request holds for as long as somebody wants it.

use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{Call, Context, Failure, Malformed, Repeat, Reply, Service};
use toolbus_bus::{Envelope, Topic};
use toolbus_wire::message::mcp::{BRIDGE_LOST, McpSubscribeRequest, McpSubscribeResponse};
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::{Message as _, json};

use super::invoke::with_headers;
use crate::lookup::Lookup;
use crate::servers::Set;

/// How long a subscription holds when its caller does not say.
const BUDGET: Duration = Duration::from_secs(60);

pub(super) struct SubscribeService {
    pub(super) set: Set,
    pub(super) source: String,
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
                // Whoever made it makes it anew when it is lost, and would not hear of a second one.
                Ok(Call { ids, request, default_budget: BUDGET, repeat: Repeat::Never })
            }
            Err(error) => Err(Malformed { ids, reason: error.to_string() }),
        }
    }

    fn serve(&self, request: McpSubscribeRequest, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            let McpSubscribeRequest { server_name, uris } = request;
            let Context { deadline, cancelled, asker, progress, .. } = context;
            let lookup = Lookup { server: server_name.clone(), deadline, cancelled, asker };
            let Err(error) = self.set.subscribe(lookup, &uris, &progress).await;
            ended(server_name, error.to_string())
        })
    }

    fn fail(&self, _: &CallIds, failure: Failure) -> Reply {
        let error = match failure {
            Failure::Malformed(reason) => reason,
            Failure::Timeout { asked } => format!("it was for {} ms", asked.as_millis()),
            Failure::Cancelled => "cancelled".to_owned(),
            Failure::OutcomeUnknown => BRIDGE_LOST.to_owned(),
            Failure::Crashed => "the bridge failed on the request".to_owned(),
            Failure::TooLarge { bytes } => format!("an answer of {bytes} bytes is too large"),
        };
        ended(String::new(), error)
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        &self.source
    }
}

fn ended(server_name: String, error: String) -> Reply {
    with_headers(Reply::of(&McpSubscribeResponse { server_name, error: Some(error) }))
}
