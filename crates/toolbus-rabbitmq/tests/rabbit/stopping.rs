//! Stops while the broker takes no messages: they keep to their grace.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, join_all};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::requester::{Error, Request, Requester};
use toolbus_bus::responder::{
    Call, Context, Failure, Listen, Malformed, Repeat, Reply, Responder, Service,
};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, Health, Topic};
use toolbus_testkit::eventually;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::tool::{CallIds, ToolError};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::support::{PATIENCE, connect, node, topic};

const SECOND: Duration = Duration::from_secs(1);

/// Runs each call for ever, or until it is released where that is what its text says.
#[derive(Clone)]
struct Held {
    release: CancellationToken,
    started: Arc<Semaphore>,
}

impl Service for Held {
    type Request = String;

    fn parse(&self, envelope: &Envelope) -> Result<Call<String>, Malformed> {
        let text = String::from_utf8_lossy(&envelope.body).into_owned();
        Ok(Call {
            ids: CallIds { tool_call_id: text.clone(), tool_name: "held".to_owned() },
            request: text,
            default_budget: 60 * SECOND,
            repeat: Repeat::Never,
        })
    }

    fn serve(&self, request: String, _: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move {
            self.started.add_permits(1);
            if request.starts_with("held") {
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

async fn is_blocked(bus: &dyn Bus) {
    eventually(PATIENCE, async || match bus.health() {
        Health::Blocked { .. } => Ok(()),
        other => Err(other),
    })
    .await;
}

async fn ends_within(what: &str, limit: Duration, end: impl Future<Output = ()>) {
    let begin = Instant::now();
    end.await;
    let took = begin.elapsed();
    assert!(took < limit, "{what} took {took:?}, over {limit:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_an_alarm_keeps_to_its_grace() {
    let node = node!();
    let vhost = node.vhost().await.unwrap();
    let url = vhost.amqp_url();
    let (workers, callers) = (connect(&url).await, connect(&url).await);
    let service = Held { release: CancellationToken::new(), started: Arc::new(Semaphore::new(0)) };
    let listen = Listen {
        topic: topic("work"),
        subscription: "workers".to_owned(),
        instance: InstanceId::parse("worker").unwrap(),
        concurrency: NonZeroU16::new(64).unwrap(),
    };
    let responder = Responder::start(workers.clone(), listen, service.clone()).await.unwrap();
    let agent = AgentName::parse("Caller").unwrap();
    let instance = InstanceId::parse("one").unwrap();
    let requester = Requester::start(callers.clone(), agent, &instance).await.unwrap();

    // More of them than are handed out at once.
    let names: Vec<_> = ["released", "held"]
        .iter()
        .flat_map(|kind| (0..20).map(move |number| format!("{kind} {number}")))
        .collect();
    let asking = {
        let requester = requester.clone();
        TaskTracker::new().spawn(async move {
            let work = topic("work");
            let calls = names.iter().map(|name| {
                let envelope = Envelope::new("Test", "", name.clone().into());
                let context = CallContext::until(Deadline::after(60 * SECOND));
                requester.request(Request {
                    topic: &work,
                    workers: None,
                    envelope,
                    call_id: name,
                    may_repeat: false,
                    context,
                })
            });
            join_all(calls).await
        })
    };
    service.started.acquire_many(40).await.unwrap().forget();

    // Both ends publish while a call runs, and hear so of the alarm.
    node.block_publishers().await.unwrap();
    is_blocked(&*workers).await;
    is_blocked(&*callers).await;
    service.release.cancel();

    let grace = 3 * SECOND;
    ends_within("the responder", grace + 2 * SECOND, responder.stop(grace)).await;
    ends_within("the requester", 2 * SECOND, requester.close()).await;
    let ends = asking.await.unwrap();
    assert!(ends.iter().all(|end| *end == Err(Error::Closed)), "{ends:?}");

    ends_within("the workers' bus", 2 * SECOND, workers.close(SECOND)).await;
    ends_within("the callers' bus", 2 * SECOND, callers.close(SECOND)).await;
}
