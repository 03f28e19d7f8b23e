//! A worker dies with a call: its caller knows it before the deadline, nothing runs twice, and the
//! next call works.

use anyhow::{Context as _, ensure};
use serde_json::json;
use toolbus_testkit::{eventually, mcp as servers, rabbit};

use crate::support::*;

/// Every message of progress, signs of life among them.
const PROGRESS: &str = "tool.progress.#";

#[tokio::test]
async fn a_scripts_manager_that_dies() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let mut manager = scripts(&bus).await;
    let spy = Stranger::new(&vhost, &[PROGRESS]).await;

    let ours = token();
    let arguments = json!({"script": endless_script(&ours)});
    let call = invocation(&bus, "execute_python_script", &arguments).args(["--timeout", "10m"]);
    let call = call.run(LIMIT);
    let crash = async {
        running(&ours).await;
        // From the first sign of life on the caller knows that somebody holds its call.
        spy.take(PROGRESS, 1).await;
        manager.process().kill();
    };

    let (call, ()) = tokio::join!(call, crash);
    // Ten minutes were allowed, and nobody was there to take the call over.
    assert_eq!(Outcome::of(call.unwrap()).code(), "outcome_unknown");
    ended(&ours).await;

    // A caller that gives no sign of itself and hears none: the request comes again to whoever
    // serves next, and that one does not run it again.
    let mut manager = scripts(&bus).await;
    let theirs = token();
    let frame = Frame::script(&endless_script(&theirs));
    spy.send(&frame).await;
    running(&theirs).await;
    manager.process().kill();
    let _manager = scripts(&bus).await;
    let answers = spy.take(ANSWERS, 1).await;
    assert_eq!(answers.len(), 1);
    let answer = Answer::of(&answers[0]);
    assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
    assert_eq!(answer.body["reason"], "outcome_unknown", "{}", answer.body);
    assert_eq!(answer.body["output"], json!(null), "the script was run again");
    ended(&theirs).await;
    assert_eq!(python(&bus, "print(6 * 7)").await.content(), "42\n");
}

#[tokio::test]
async fn a_bridge_that_dies() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let (Some(time), Some(everything)) = (servers::time(), servers::everything_stdio()) else {
        return;
    };

    let bus = vhost.amqp_url();
    let servers = Servers::with(&[("time", time.to_json()), ("all", everything.to_json())]);
    let mut first = bridge(&bus, &servers).await;
    let spy = Stranger::new(&vhost, &[PROGRESS]).await;

    for (server, tool) in [("all", "get-tiny-image"), ("time", "get_current_time")] {
        let called = mcp(&bus, server, tool, json!({"timezone": "UTC"})).await;
        called.content();
    }

    let children = descendants(first.process().id());
    assert!(children.len() >= 3, "{children:?}");
    spy.vhost.purge(PROGRESS).await.unwrap();

    let arguments = json!({"server_name": "marks", "tool_name": "wait"});
    let call = invocation(&bus, "mcp_invoke_tool", &arguments).args(["--timeout", "10m"]);
    let call = call.run(LIMIT);
    let crash = async {
        servers.wait_for_marks(&["wait"]).await;
        spy.take(PROGRESS, 1).await;
        first.process().kill();
    };

    let (call, ()) = tokio::join!(call, crash);
    assert_eq!(Outcome::of(call.unwrap()).code(), "outcome_unknown");
    // The bridge cannot see to that any more; their supervisors do.
    gone(&children).await;

    // The request that the dead bridge held comes again, and is not run again.
    let mut second = bridge(&bus, &servers).await;
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    let frame = Frame::tool("tool.invoke.mcp", "wait", &json!({}));
    spy.send(&frame.clone().header("rb-rb-mcp-server", json!("marks"))).await;
    servers.wait_for_marks(&["wait", "mark", "wait"]).await;
    second.process().kill();
    let _third = bridge(&bus, &servers).await;
    let answers = spy.take(ANSWERS, 1).await;
    let answer = Answer::of(&answers[0]);
    assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
    assert_eq!(answer.body["code"], "outcome_unknown", "{}", answer.body);
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    assert_eq!(servers.marks(), ["wait", "mark", "wait", "mark"]);
}

/// The one that ran may have taken effect, and the one that waited has not been touched: neither is
/// said to be of a tool that there is not, though both come back before the bridge has announced its
/// server to the host that is new.
#[tokio::test]
async fn a_host_that_dies_with_a_call_running_and_one_waiting() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let mut bridge = bridge(&bus, &servers).await;
    let host = |calls: &str| {
        start(launch("agent-host", &bus).env("TOOLBUS_BUS__PREFETCH", calls).arg("serve"))
    };
    let mut first = host("1").await;
    let spy = Stranger::new(&vhost, &[]).await;

    let call = |tool: &str| {
        let arguments = json!({"server_name": "marks", "tool_name": tool});
        Frame::tool("tool.invoke", "mcp_invoke_tool", &arguments)
    };
    let running = call("wait");
    spy.send(&running).await;
    servers.wait_for_marks(&["wait"]).await;
    let waiting = call("mark");
    spy.send(&waiting).await;
    first.process().kill();
    assert_eq!(servers.marks(), ["wait"], "the other one waits");

    // The new host has nothing announced to it before it has taken the calls.
    bridge.process().pause().unwrap();
    let _second = host("2").await;
    eventually(LIMIT, async || {
        let queue = vhost.queue("rockbot.RockBot.tool-invoke").await?.context("no queue")?;
        let taken = queue.messages_unacknowledged;
        ensure!(taken == 2, "{taken} of 2 calls are taken");
        anyhow::Ok(())
    })
    .await;
    bridge.process().resume().unwrap();

    // Its caller takes no heartbeats, so other workers are asked for 15 s who has the first one.
    let answers = spy.take(ANSWERS, 2).await;
    let [done, unknown] = &answers[..] else { panic!("{} answers", answers.len()) };
    let (unknown, done) = (Answer::of(unknown), Answer::of(done));
    assert_eq!(unknown.properties["correlation_id"], running.correlation_id());
    assert_eq!(unknown.body["code"], "outcome_unknown", "{}", unknown.body);
    assert_eq!(done.properties["correlation_id"], waiting.correlation_id());
    assert_eq!(done.body["content"], "mark: done", "{}", done.body);
    assert_eq!(servers.marks(), ["wait", "mark"], "nothing ran twice");
}
