//! One call is one trace, through both ends and back.

use std::collections::BTreeMap;

use toolbus_bus::Progress;
use toolbus_testkit::spans::Spans;
use toolbus_tools::call::Call;

use crate::support::*;

/// The signs of life alone stand apart: each speaks of all calls of a caller.
#[tokio::test(start_paused = true)]
async fn one_call_is_one_trace() {
    let spans = Spans::here();
    let fleet = Fleet::start().await;

    let listened = Call { progress: Progress::to(drop), ..call("work", "talk") };
    assert!(fleet.caller.invoke(listened).await.is_ok());
    let cancelled = call("work", "never end");
    let token = cancelled.cancelled.clone();
    let cancelling = async {
        until(&fleet.seen, "the tool runs", |seen| seen.started.len() == 2).await;
        token.cancel();
        until(&fleet.seen, "the tool is told", |seen| seen.cancelled == 1).await;
    };
    let (outcome, ()) = tokio::join!(fleet.caller.invoke(cancelled), cancelling);
    assert!(outcome.is_err());
    fleet.requester.close().await;
    fleet.worker.kill().await;

    let mut traces: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for span in &spans.ended() {
        let attributes = &span.attributes;
        let to = attributes.iter().find(|kv| kv.key.as_str() == "messaging.destination.name");
        let to = to.map_or(String::new(), |kv| kv.value.to_string());
        let to = to.split('.').take(2).collect::<Vec<_>>().join(".");
        let name = format!("{} {to}", span.name).trim().to_owned();
        traces.entry(span.span_context.trace_id().to_string()).or_default().push(name);
    }
    let mut traces: Vec<_> = traces.into_values().filter(|spans| spans.len() > 2).collect();
    traces.iter_mut().for_each(|spans| spans.sort());
    traces.sort_by_key(Vec::len);
    // Signs of life aside, every message of a call, both ways, and the tool at both ends.
    insta::assert_debug_snapshot!(traces, @r#"
    [
        [
            "process tool.cancel",
            "process tool.cancel",
            "process tool.invoke",
            "process tool.result",
            "publish tool.cancel",
            "publish tool.invoke",
            "publish tool.result",
            "tool.invoke work",
            "tool.invoke work",
        ],
        [
            "process tool.invoke",
            "process tool.progress",
            "process tool.progress",
            "process tool.progress",
            "process tool.result",
            "publish tool.invoke",
            "publish tool.progress",
            "publish tool.progress",
            "publish tool.progress",
            "publish tool.result",
            "tool.invoke work",
            "tool.invoke work",
        ],
    ]
    "#);
}
