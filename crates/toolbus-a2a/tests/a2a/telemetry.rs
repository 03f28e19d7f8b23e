//! What operators see of tasks: metrics of both ends, and one trace from the caller to the work.

use std::time::Duration;

use futures_util::FutureExt as _;
use toolbus_a2a::TaskEnd;
use toolbus_testkit::eventually;
use toolbus_testkit::metrics::Metrics;
use toolbus_testkit::spans::Spans;
use tracing::Instrument as _;

use crate::support::*;

#[tokio::test]
async fn the_ends_of_tasks_are_counted_by_who_asked_and_by_who_was_asked() {
    let metrics = Metrics::of_process();
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::new(|task, stop| {
            async move {
                match task.request.message.parts[0].text.as_deref() {
                    Some("ask back") => TaskEnd::InputRequired { text: "which?".to_owned() },
                    Some("wait") => {
                        stop.cancelled().await;
                        TaskEnd::Canceled
                    }
                    _ => done("well"),
                }
            }
            .boxed()
        });
        let host = Setup::new(&broker, &ours, "RockBot").start().await;
        let _worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
        let before = metrics.values();
        for message in ["work", "ask back"] {
            let id = host.ask("ResearchAgent", message).await;
            host.end_of(&id).await;
        }
        // The time of a task for an agent that says nothing is over.
        let _silent = Stranger::hearing(&broker, "agent.task.Silent").await;
        let id = host.ask_within("Silent", "wait", Duration::from_secs(3)).await;
        host.end_of(&id).await;
        // The time of a task is over where it is done. A caller whose clock is ahead cancels it
        // first, and then it ends as canceled; so it is asked again.
        let timed_out_there = "rockbot.a2a.tasks received timed_out bus";
        for _ in 0..10 {
            if metrics.values().get(timed_out_there) > before.get(timed_out_there) {
                break;
            }
            let id = host.ask_within("ResearchAgent", "wait", Duration::from_secs(3)).await;
            host.end_of(&id).await;
        }

        // Other tests of the process count theirs, too.
        let outcomes = ["completed", "input_required", "timed_out"];
        let both = ["asked", "received"].into_iter();
        let keys =
            both.flat_map(|of| outcomes.map(|end| format!("rockbot.a2a.tasks {of} {end} bus")));
        let keys: Vec<_> = keys.collect();
        eventually(PATIENCE, async || {
            let now = metrics.values();
            let is_counted = |key: &&String| now.get(*key) > before.get(*key);
            let missing: Vec<_> = keys.iter().filter(|key| !is_counted(key)).collect();
            if missing.is_empty() { Ok(()) } else { Err(format!("{missing:?} of {now:?}")) }
        })
        .await;
        assert!(metrics.values().contains_key("rockbot.a2a.agents"));
    }
}

#[tokio::test]
async fn a_task_is_done_and_answered_within_the_trace_of_its_caller() {
    let [ours, theirs] = places().await.swap_remove(0);
    let spans = Spans::here();
    let broker = Broker::memory();
    let work = Work::new(|_, _| {
        let turn = tracing::info_span!("turn");
        async { done("well") }.instrument(turn).boxed()
    });
    let host = Setup::new(&broker, &ours, "RockBot").start().await;
    let _worker = Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;

    let id = host.ask("ResearchAgent", "work").instrument(tracing::info_span!("call")).await;
    host.end_of(&id).await;
    eventually(PATIENCE, async || {
        let ended = spans.ended();
        let named = |name: &str| ended.iter().find(|span| span.name == name);
        let of_topic = |name: &str, topic: &str| {
            ended.iter().find(|span| {
                let mut attributes = span.attributes.iter();
                span.name == name && attributes.any(|one| one.value.as_str() == topic)
            })
        };
        let (Some(call), Some(sent), Some(taken), Some(turn), Some(answered)) = (
            named("call"),
            of_topic("publish", "agent.task.ResearchAgent"),
            of_topic("process", "agent.task.ResearchAgent"),
            named("turn"),
            of_topic("process", "agent.response.RockBot"),
        ) else {
            return Err(ended.into_iter().map(|span| span.name).collect::<Vec<_>>());
        };
        assert_eq!(sent.parent_span_id, call.span_context.span_id());
        assert_eq!(taken.parent_span_id, sent.span_context.span_id());
        assert_eq!(turn.parent_span_id, taken.span_context.span_id());
        assert_eq!(answered.span_context.trace_id(), call.span_context.trace_id());
        Ok(())
    })
    .await;
}
