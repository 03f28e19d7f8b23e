//! The broker dies and comes back: nothing that it had confirmed is lost, and every process finds
//! its way back by itself.

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_testkit::process::Service;
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

async fn is_ready(service: &Service, ready: bool) -> Value {
    let expected = if ready { 200 } else { 503 };
    eventually(LIMIT, async || {
        let (status, body) = service.look("/readyz").await?;
        ensure!(status == expected, "{status}: {body}");
        Ok(serde_json::from_str(&body)?)
    })
    .await
}

#[tokio::test]
async fn every_process_and_every_call_lives_through_a_crash() {
    let Some(mut node) = rabbit::node().await else { return };
    let vhost = node.vhost().await.unwrap();
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let (bridge, manager, serve) = tokio::join!(bridge(&bus, &servers), scripts(&bus), serve(&bus));
    let stranger = Stranger::new(&vhost, &[]).await;

    let arguments = json!({"server_name": "marks", "tool_name": "wait"});
    let running = invocation(&bus, "mcp_invoke_tool", &arguments).args(["--timeout", "10m"]);
    let running = running.run(2 * LIMIT);
    let crash = async {
        servers.wait_for_marks(&["wait"]).await;
        node.crash().await.unwrap();
        for service in [&bridge, &manager, &serve] {
            let report = is_ready(service, false).await;
            assert_eq!(report["components"]["bus"]["state"], "down", "{report}");
        }
        node.start_again().await.unwrap();
        for service in [&bridge, &manager, &serve] {
            is_ready(service, true).await;
        }
        servers.open_gate();
    };

    let (ended, ()) = tokio::join!(running, crash);
    assert_eq!(Outcome::of(ended.unwrap()).content(), "wait: done");
    assert_eq!(servers.marks(), ["wait"], "the call was redelivered, and ran once");

    // The next calls go through the processes that lived through it.
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    let arguments = json!({"script": "print('served')"});
    let served = Frame::tool("tool.invoke", "execute_python_script", &arguments);
    assert_eq!(stranger.ask(&served).await.body["content"], "served\n");
}

#[tokio::test]
async fn a_request_that_waits_is_answered_after_the_broker_comes_back() {
    let Some(mut node) = rabbit::node().await else { return };
    let vhost = node.vhost().await.unwrap();
    let bus = vhost.amqp_url();
    let mut manager = scripts(&bus).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let waiting = async |manager: &mut Service| {
        assert_eq!(manager.process().terminate(LIMIT).await.unwrap().code(), Some(0));
        let frame = Frame::script("print('waited')");
        stranger.send(&frame).await;
        frame
    };

    let answer = async |frame: Frame| {
        // A broker that crashes forgets what was taken out of a queue; answers come again then.
        loop {
            for answer in stranger.take(ANSWERS, 1).await {
                if answer.properties["correlation_id"] == frame.correlation_id() {
                    return Answer::of(&answer).body;
                }
            }
        }
    };

    let frame = waiting(&mut manager).await;
    node.restart().await.unwrap();
    let mut manager = scripts(&bus).await;
    assert_eq!(answer(frame).await["output"], "waited\n");

    let frame = waiting(&mut manager).await;
    node.crash().await.unwrap();
    node.start_again().await.unwrap();
    let _manager = scripts(&bus).await;
    let answer = answer(frame).await;
    // A broker that has crashed does not know any more which messages it had handed out, and calls
    // them all redelivered. Then nobody can tell that this one was not begun.
    let is_unknown = answer["reason"] == "outcome_unknown";
    assert!(is_unknown || answer["output"] == "waited\n", "{answer}");
}

#[tokio::test]
async fn what_was_announced_during_an_outage_is_known_after_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let (old, new) = (Servers::called("old", &[]), Servers::called("new", &[]));
    let mut first = bridge(&bus, &old).await;
    let mut agent = serve(&bus).await;
    let knows = async |agent: &Service, servers: Value| {
        eventually(LIMIT, async || {
            let status: Value = serde_json::from_str(&agent.look("/status").await?.1)?;
            ensure!(status["details"]["mcpServers"] == servers, "{status}");
            Ok(())
        })
        .await;
    };

    knows(&agent, json!(["old"])).await;

    // The agent hears nothing while it is stopped in its tracks and its queue is gone.
    agent.process().pause().unwrap();
    assert_eq!(first.process().terminate(LIMIT).await.unwrap().code(), Some(0));
    eventually(LIMIT, async || {
        vhost.close_connections().await?;
        let queues = vhost.queues().await?;
        let own = queues.iter().find(|queue| queue.name.starts_with("rockbot.inventory."));
        ensure!(own.is_none(), "{own:?}");
        anyhow::Ok(())
    })
    .await;
    let second = bridge(&bus, &new).await;
    eventually(LIMIT, async || {
        let (_, status) = second.look("/status").await?;
        ensure!(status.contains("\"connected\""), "{status}");
        Ok(())
    })
    .await;
    agent.process().resume().unwrap();

    // Nobody says any more that the old one is gone, so it is taken for away.
    eventually(2 * LIMIT, async || {
        let status: Value = serde_json::from_str(&agent.look("/status").await?.1)?;
        let details = &status["details"];
        ensure!(details["mcpServers"] == json!(["new"]), "{status}");
        ensure!(details["mcpServersAway"] == json!(["old"]), "{status}");
        Ok(())
    })
    .await;
}
