//! Calls that come over the bus.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;
use toolbus::bus::slot::Kept;
use toolbus::{Gate, MemoryBus, ParkedRequest, Passage, Toolbus, ToolbusBuilder, Verdict, wire};

use crate::support::*;

const SECOND: Duration = Duration::from_secs(1);

/// An agent that answers calls of a tool `work`, and one elsewhere that makes them.
async fn open_pair(bus: &MemoryBus, work: &Work) -> (Toolbus, Toolbus) {
    let served = serving(bus).tool(work.tool()).open().await.unwrap();
    let elsewhere = caller_of(bus, &served, "work").await;
    (served, elsewhere)
}

/// An agent that answers calls, one at a time.
fn serving(bus: &MemoryBus) -> ToolbusBuilder {
    Toolbus::builder().name("served").bus(Arc::new(bus.connect())).serve_calls(NonZeroU16::MIN)
}

#[tokio::test(start_paused = true)]
async fn a_call_from_the_bus_is_waited_for_when_the_agent_is_closed() {
    let work = Work::default();
    let (served, elsewhere) = open_pair(&MemoryBus::new(), &work).await;
    let closing = async {
        work.started.notified().await;
        tokio::join!(served.close_within(LIMIT), work.end_after(LIMIT / 2));
    };
    let (outcome, ()) = tokio::join!(call(&elsewhere, "work", json!({})), closing);
    assert_eq!(text(outcome), "done");
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_a_drain_that_is_under_way() {
    for gives_up in [false, true] {
        let work = Work::default();
        let (served, elsewhere) = open_pair(&MemoryBus::new(), &work).await;
        let closing = async {
            work.started.notified().await;
            let draining = async {
                let patience = if gives_up { SECOND } else { LIMIT };
                assert_eq!(timeout(patience, served.drain(LIMIT / 2)).await.is_err(), gives_up);
            };
            let closing = async {
                tokio::time::sleep(2 * SECOND).await;
                served.close().await;
                assert!(work.is_done(), "closed while a call ran; gave up: {gives_up}");
            };
            tokio::join!(draining, closing, work.end_after(10 * SECOND));
        };
        let (outcome, ()) = tokio::join!(call(&elsewhere, "work", json!({})), closing);
        assert_eq!(text(outcome), "done");
    }
}

/// Keeps every call waiting, and its request.
#[derive(Clone, Default)]
struct Parks {
    request: Arc<Mutex<Option<ParkedRequest>>>,
    parked: Arc<Notify>,
}

impl Gate for Parks {
    fn name(&self) -> &'static str {
        "parks"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let slot = passage.call.slot.clone();
        Verdict::Later(Box::pin(async move {
            *self.request.lock() = slot.request();
            slot.park(Kept::InStore);
            self.parked.notify_one();
            std::future::pending().await
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_is_resumed_by_who_can_answer_it_and_nobody_else() {
    let bus = MemoryBus::new();
    let work = Work::default();
    let parks = Parks::default();
    let first = serving(&bus).tool(work.tool()).gate(parks.clone()).open().await.unwrap();
    let elsewhere = caller_of(&bus, &first, "work").await;
    let resuming = async {
        parks.parked.notified().await;
        let parked = vec![parks.request.lock().take().unwrap()];
        first.close().await;

        let builder = Toolbus::builder().name("served").bus(Arc::new(bus.connect()));
        let error = builder.resume_parked(parked.clone()).open().await.unwrap_err();
        assert!(matches!(error, toolbus::Error::ParkedWithoutServing(1)), "{error:?}");
        let other = serving(&bus).name("other").resume_parked(parked.clone());
        let error = other.open().await.unwrap_err();
        let toolbus::Error::ParkedElsewhere(topic) = &error else { panic!("{error:?}") };
        assert_eq!(*topic, wire::topic::tool_invoke_agent(first.name()));

        work.go.notify_one();
        serving(&bus).tool(work.tool()).resume_parked(parked).open().await.unwrap()
    };
    let (outcome, second) = tokio::join!(call(&elsewhere, "work", json!({})), resuming);
    assert_eq!(text(outcome), "done");
    second.close().await;
}
