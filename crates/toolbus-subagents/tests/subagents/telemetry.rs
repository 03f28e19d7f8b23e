//! What operators see of subagents: metrics, and a trace that leads back to the call.

use std::time::Duration;

use futures_util::FutureExt as _;
use toolbus_subagents::SubagentEnd;
use toolbus_testkit::eventually;
use toolbus_testkit::metrics::Metrics;
use toolbus_testkit::spans::Spans;
use tracing::Instrument as _;

use crate::support::*;

#[tokio::test]
async fn subagents_are_counted_once_by_how_they_ended() {
    let metrics = Metrics::of_process();
    let work = || {
        Work::new(|run, stop| {
            async move {
                match run.description.as_str() {
                    "fail" => SubagentEnd::Failed {
                        text: String::new(),
                        error: "as it is told".to_owned(),
                    },
                    "wait" => {
                        stop.cancelled().await;
                        done("too late")
                    }
                    _ => done("well"),
                }
            }
            .boxed()
        })
    };

    for setup in Setup::all(work).await {
        let host = setup.start();
        let before = metrics.values();
        for description in ["work", "fail"] {
            let id = host.spawn(description).await;
            host.end_of(&id).await;
        }
        let id = host.spawn_within("wait", Duration::from_millis(300)).await;
        host.end_of(&id).await;

        // Other tests of the process count theirs, too.
        let now = metrics.values();
        for key in ["spawned", "ended completed", "ended failed", "ended timed_out"] {
            let key = format!("toolbus.subagents.{key}");
            assert!(now.get(&key) > before.get(&key), "{key} of {now:?}");
        }
        host.close(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn a_subagent_is_a_trace_of_its_own_that_leads_to_the_call() {
    let work = || {
        Work::new(|_, _| {
            let turn = tracing::info_span!("turn");
            async { done("well") }.instrument(turn).boxed()
        })
    };
    let setup = Setup::all(work).await.swap_remove(0);
    let spans = Spans::here();
    let host = setup.start();
    let id = host.spawn("work").instrument(tracing::info_span!("call")).await;
    host.end_of(&id).await;

    eventually(PATIENCE, async || {
        let ended = spans.ended();
        let named = |name: &str| ended.iter().find(|span| span.name == name);
        let found = (named("call"), named("subagent"), named("turn"));
        let (Some(call), Some(subagent), Some(turn)) = found else {
            return Err(ended.iter().map(|span| span.name.to_string()).collect::<Vec<_>>());
        };
        let (call, own) = (&call.span_context, &subagent.span_context);
        assert_ne!(own.trace_id(), call.trace_id());
        let links: Vec<_> = subagent.links.iter().map(|link| link.span_context.span_id()).collect();
        assert_eq!(links, [call.span_id()]);
        assert_eq!(turn.parent_span_id, own.span_id());
        assert_eq!(turn.span_context.trace_id(), own.trace_id());
        Ok(())
    })
    .await;
    host.close(Duration::from_secs(1)).await;
}
