//! Calls that wait for long keep no others waiting, and outlive their process.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join};
use parking_lot::Mutex;
use tokio::sync::watch;
use toolbus_wire::header::Headers;
use toolbus_wire::message::tool::CallIds;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Envelope, Topic};

use super::stage::{Stage, message};
use crate::requester::{Request, Requester};
use crate::responder::{
    Call, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, ParkedRequest, Repeat, Reply,
    Responder, Service,
};
use crate::slot::Kept;
use crate::{Bus, CallContext, Deadline};

/// A worker that runs one call at a time has one parked, and answers another meanwhile.
pub(super) async fn a_parked_call_frees_its_permit(stage: Stage) {
    let waits = Waits::default();
    let _worker = waits.serve(&stage, stage.bus().await, Vec::new()).await;
    let caller = Caller::start(&stage).await;

    let others = async {
        waits.parked(&stage, 1).await;
        assert_eq!(caller.call("echo").await, "echo again: false");
        waits.go_on.send_replace(true);
    };
    let (told, ()) = join(caller.call("wait"), others).await;
    assert_eq!(told, "wait again: false");
}

/// What was written down of a parked call brings it back in another process, and its caller, who
/// has waited all the while, gets the one answer.
pub(super) async fn a_parked_call_outlives_its_process(stage: Stage) {
    let waits = Waits::default();
    let (doomed, kill) = stage.doomed().await;
    let _dies = waits.serve(&stage, doomed, Vec::new()).await;
    let caller = Caller::start(&stage).await;

    let restarting = async {
        let parked = waits.parked(&stage, 1).await;
        // The only permit is free again, so the broker knows that the parked request is done with.
        assert_eq!(caller.call("echo").await, "echo again: false");
        // The same of this one, or it would be handed out again.
        stage.quiet().await;
        kill.await;
        let lives = waits.serve(&stage, stage.bus().await, parked).await;
        waits.parked(&stage, 2).await;
        assert_eq!(caller.call("echo").await, "echo again: false");
        waits.go_on.send_replace(true);
        stage.quiet().await;
        lives
    };
    let (told, _lives) = join(caller.call("wait"), restarting).await;
    assert_eq!(told, "wait again: false");
    assert_eq!(caller.requester.stats().late, 0, "it has one answer");
}

/// Whoever makes the calls.
struct Caller {
    requester: Requester,
    topic: Topic,
}

impl Caller {
    async fn start(stage: &Stage) -> Self {
        let agent = AgentName::parse(stage.id()).expect("the ids of the suite are short");
        let requester = Requester::start(stage.bus().await, agent, &InstanceId::random()).await;
        let requester = requester.unwrap_or_else(|error| panic!("no requester: {error}"));
        Self { requester, topic: stage.topic("work") }
    }

    async fn call(&self, what: &str) -> String {
        let request = Request {
            may_repeat: false,
            workers: None,
            topic: &self.topic,
            envelope: message(what),
            call_id: what,
            context: CallContext::until(Deadline::after(Duration::from_secs(30))),
        };
        let reply = self.requester.request(request).await;
        let reply = reply.unwrap_or_else(|error| panic!("no reply to {what}: {error}"));
        String::from_utf8_lossy(&reply.body).into_owned()
    }
}

/// A service some of whose calls wait, and what is written down of them. Clones share it.
#[derive(Clone, Default)]
struct Waits {
    go_on: Arc<watch::Sender<bool>>,
    store: Arc<Mutex<Vec<String>>>,
}

impl Waits {
    /// Answers one call at a time.
    async fn serve(
        &self,
        stage: &Stage,
        bus: Arc<dyn Bus>,
        parked: Vec<ParkedRequest>,
    ) -> Responder {
        let listen = Listen {
            topic: stage.topic("work"),
            subscription: stage.name("workers"),
            instance: InstanceId::random(),
            concurrency: NonZeroU16::MIN,
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };
        let worker = Responder::resume(bus, listen, parked, self.clone()).await;
        worker.unwrap_or_else(|error| panic!("no worker: {error}"))
    }

    /// What is written down, once there is so much of it.
    async fn parked(&self, stage: &Stage, count: usize) -> Vec<ParkedRequest> {
        stage.until("calls are parked", async || self.store.lock().len() >= count).await;
        let store = self.store.lock();
        let read = |text: &String| {
            toolbus_json::from_trusted(text).unwrap_or_else(|error| panic!("{error}"))
        };
        store.iter().map(read).collect()
    }
}

impl Service for Waits {
    type Request = String;

    fn parse(&self, envelope: &Envelope) -> Result<Call<String>, Malformed> {
        let request = String::from_utf8_lossy(&envelope.body).into_owned();
        Ok(Call {
            ids: CallIds { tool_call_id: request.clone(), tool_name: String::new() },
            request,
            default_budget: Duration::from_secs(30),
            repeat: Repeat::Never,
        })
    }

    fn serve(&self, request: String, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            if request == "wait" {
                let parked = context.slot.request().map(|parked| serde_json::to_string(&parked));
                self.store.lock().extend(parked.and_then(Result::ok));
                context.slot.park(Kept::InStore);
                // Its sender is in this very service.
                let _ = self.go_on.subscribe().wait_for(|go_on| *go_on).await;
                let _ = context.slot.resume().await;
            }
            reply(format!("{request} again: {}", context.redelivered))
        })
    }

    fn fail(&self, _: &CallIds, failure: Failure) -> Reply {
        reply(format!("{failure:?}"))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &'static str {
        "conformance"
    }
}

fn reply(text: String) -> Reply {
    Reply {
        message_type: "Toolbus.Conformance".into(),
        body: text.into(),
        headers: Headers::new(),
        error: None,
    }
}
