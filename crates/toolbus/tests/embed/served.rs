//! Calls that come over the bus.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;
use toolbus::{MemoryBus, Toolbus, ToolbusBuilder};

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
