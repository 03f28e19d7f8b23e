//! A worker whose calls run until they are let go, and a caller of it.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::{Request, Requester};
use toolbus_bus::responder::{
    Call, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, Repeat, Reply, Responder,
    Service,
};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, Topic};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::tool::{CallIds, ToolError};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::support::topic;

/// How long a call may take.
const BUDGET: Duration = Duration::from_secs(60);

/// Runs each call until it is released; for ever where its id begins with "held".
#[derive(Clone)]
pub(crate) struct Held {
    pub(crate) release: CancellationToken,
    pub(crate) started: Arc<Semaphore>,
}

impl Held {
    pub(crate) fn new() -> Self {
        Self { release: CancellationToken::new(), started: Arc::new(Semaphore::new(0)) }
    }

    /// Answers what is asked at the topic `work`.
    pub(crate) async fn start(&self, bus: Arc<dyn Bus>, concurrency: u16) -> Responder {
        let listen = Listen {
            topic: topic("work"),
            subscription: "workers".to_owned(),
            instance: InstanceId::parse("worker").unwrap(),
            concurrency: NonZeroU16::new(concurrency).unwrap(),
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };
        Responder::start(bus, listen, self.clone()).await.unwrap()
    }

    /// Waits until so many more calls have been started.
    pub(crate) async fn wait_started(&self, count: u32) {
        self.started.acquire_many(count).await.unwrap().forget();
    }
}

impl Service for Held {
    type Request = bool;

    fn parse(&self, envelope: &Envelope) -> Result<Call<bool>, Malformed> {
        let id = envelope.body.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let id = String::from_utf8_lossy(id).into_owned();
        let request = id.starts_with("held");
        Ok(Call {
            ids: CallIds { tool_call_id: id, tool_name: "held".to_owned() },
            request,
            default_budget: BUDGET,
            repeat: Repeat::Never,
        })
    }

    fn serve(&self, is_held: bool, _: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            self.started.add_permits(1);
            if is_held {
                std::future::pending::<()>().await;
            }
            self.release.cancelled().await;
            self.fail(&CallIds::default(), Failure::Crashed)
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let text = format!("{failure:?}");
        Reply::of(&ToolError::new(ids.clone(), ErrorCode::ExecutionFailed, text))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        "worker"
    }
}

/// Somebody who asks.
pub(crate) async fn start_requester(bus: Arc<dyn Bus>) -> Requester {
    let agent = AgentName::parse("Caller").unwrap();
    Requester::start(bus, agent, &InstanceId::parse("one").unwrap()).await.unwrap()
}

/// A request for the topic `work` whose body has so many bytes, or as many as the id needs.
pub(crate) fn request<'a>(work: &'a Topic, call_id: &'a str, bytes: usize) -> Request<'a> {
    let mut body = format!("{call_id}\n").into_bytes();
    body.resize(bytes.max(body.len()), b'x');
    Request {
        topic: work,
        workers: None,
        envelope: Envelope::new("Test", "", body.into()),
        call_id,
        may_repeat: false,
        context: CallContext::until(Deadline::after(BUDGET)),
    }
}
