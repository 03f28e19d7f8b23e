//! A request and its reply without tools: requester, outcome memory and handler, nothing else.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use e2e::bench::Lane;
use futures_util::future::BoxFuture;
use toolbus_bus::requester::{Request, Requester};
use toolbus_bus::responder::{
    Call, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, Repeat, Reply, Responder,
    Service,
};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, Topic};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message;
use toolbus_wire::message::tool::{CallIds, ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::IN_FLIGHT;

/// The name of the requests' topic and of their queue.
pub(crate) const TOPIC: &str = "bench.request";
/// Length of a body, of requests and of replies alike, in bytes.
pub(crate) const BODY_BYTES: usize = 256;

const PATIENCE: Duration = Duration::from_secs(60);

/// Answers requests until dropped.
pub(crate) struct Worker {
    _answering: Responder,
}

impl Worker {
    pub(crate) async fn start(bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let listen = Listen {
            topic: Topic::parse(TOPIC)?,
            subscription: TOPIC.to_owned(),
            instance: InstanceId::random(),
            concurrency: NonZeroU16::new(IN_FLIGHT).expect("some are under way"),
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };
        Ok(Self { _answering: Responder::start(bus, listen, Echo).await? })
    }
}

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ToolInvokeRequest>, Malformed> {
        let request: ToolInvokeRequest = message::read(envelope).map_err(|error| Malformed {
            ids: CallIds::of_malformed(&envelope.body),
            reason: error.to_string(),
        })?;
        Ok(Call {
            ids: CallIds::from(&request),
            request,
            default_budget: PATIENCE,
            repeat: Repeat::Never,
        })
    }

    fn serve(&self, request: ToolInvokeRequest, _context: Context) -> BoxFuture<'_, Reply> {
        let reply = Reply::of(&ToolInvokeResponse {
            tool_call_id: request.tool_call_id,
            tool_name: request.tool_name,
            content: request.arguments,
            ..Default::default()
        });
        Box::pin(std::future::ready(reply))
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        toolbus_tools::bus::tool_failure(ids, failure)
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &'static str {
        "bench-worker"
    }
}

/// Asks, and waits for the reply.
#[derive(Clone)]
pub(crate) struct Asker {
    requester: Requester,
    topic: Topic,
    request: ToolInvokeRequest,
}

impl Asker {
    pub(crate) async fn start(bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let name = AgentName::parse("bench")?;
        let mut request = ToolInvokeRequest {
            tool_call_id: new_id(),
            tool_name: "echo".to_owned(),
            arguments: Some(String::new()),
            session_id: Some("session/bench".to_owned()),
        };
        let empty = Envelope::of(&request, "").body.len();
        request.arguments = Some("x".repeat(BODY_BYTES - empty));
        Ok(Self {
            requester: Requester::start(bus, name, &InstanceId::random()).await?,
            topic: Topic::parse(TOPIC)?,
            request,
        })
    }
}

impl Lane for Asker {
    async fn call(&mut self) -> anyhow::Result<()> {
        self.request.tool_call_id = new_id();
        let request = Request {
            may_repeat: false,
            workers: None,
            topic: &self.topic,
            envelope: Envelope::of(&self.request, self.requester.agent().as_str()),
            call_id: &self.request.tool_call_id,
            context: CallContext::until(Deadline::after(PATIENCE)),
        };
        let reply = self.requester.request(request).await?;
        ensure!(!message::is::<ToolError>(&reply), "not answered: {}", text(&reply));
        Ok(())
    }
}

fn text(envelope: &Envelope) -> String {
    String::from_utf8_lossy(&envelope.body).into_owned()
}
