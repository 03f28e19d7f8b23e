//! Stopping in order: running calls end, what was not begun stays in its queue, nothing is left.

use anyhow::ensure;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

fn signal(service: &mut Service, signal: Signal) {
    let id = i32::try_from(service.process().id()).ok().and_then(Pid::from_raw);
    kill_process(id.unwrap(), signal).unwrap();
}

/// A stop was asked for and has not ended yet.
async fn is_stopping(service: &Service) {
    eventually(LIMIT, async || {
        let (status, body) = service.look("/readyz").await?;
        ensure!(status == 503 && body.contains("\"stopping\":true"), "{status}: {body}");
        Ok(())
    })
    .await;
}

async fn exits_with(service: &mut Service, code: i32) {
    let status = service.process().wait(LIMIT).await.unwrap();
    assert_eq!(status.code(), Some(code), "{}", service.process().stderr());
}

#[tokio::test]
async fn a_bridge_ends_its_calls_and_leaves_the_rest() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let mut first = bridge(&bus, &servers).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let running = Frame::tool("tool.invoke.mcp", "wait", &json!({}));
    stranger.send(&running.clone().header("rb-rb-mcp-server", json!("marks"))).await;
    servers.wait_for_marks(&["wait"]).await;
    let children = descendants(first.process().id());

    signal(&mut first, Signal::TERM);
    is_stopping(&first).await;
    // Readiness goes first, so a request may just still be taken; one after the other a request
    // comes that is not.
    let left = Frame::tool("tool.invoke.mcp", "mark", &json!({}));
    let left = left.header("rb-rb-mcp-server", json!("marks"));
    eventually(LIMIT, async || {
        let queue = vhost.queue("rockbot.mcp-bridge.RockBot").await?.unwrap();
        ensure!(queue.consumers == 0, "{queue:?}");
        anyhow::Ok(())
    })
    .await;
    stranger.send(&left).await;
    servers.open_gate();
    let answer = Answer::of(&stranger.take(ANSWERS, 1).await[0]);
    assert_eq!(answer.properties["correlation_id"], running.correlation_id());
    assert_eq!(answer.body["content"], "wait: done");
    exits_with(&mut first, 0).await;
    gone(&children).await;
    assert_eq!(servers.marks(), ["wait"]);

    let _second = bridge(&bus, &servers).await;
    let answer = Answer::of(&stranger.take(ANSWERS, 1).await[0]);
    assert_eq!(answer.properties["correlation_id"], left.correlation_id());
    assert_eq!(answer.body["content"], "mark: done");
}

#[tokio::test]
async fn a_manager_and_an_agent_end_their_calls() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let (mut manager, mut agent) = tokio::join!(scripts(&bus), serve(&bus));
    let stranger = Stranger::new(&vhost, &[]).await;
    let token = token();
    // Long enough for the signals to come first, and no longer: nothing tells a script to go on.
    let script = format!(
        "import subprocess, sys\n\
         code = 'import time; time.sleep(2)'\n\
         subprocess.run([sys.executable, '-c', code, '{token}'])\n\
         print('ended by itself')"
    );
    let arguments = json!({"script": script});
    stranger.send(&Frame::tool("tool.invoke", "execute_python_script", &arguments)).await;
    running(&token).await;
    signal(&mut manager, Signal::TERM);
    signal(&mut agent, Signal::TERM);
    let answer = Answer::of(&stranger.take(ANSWERS, 1).await[0]);
    assert_eq!(answer.body["content"], "ended by itself\n");
    exits_with(&mut manager, 0).await;
    exits_with(&mut agent, 0).await;
}

#[tokio::test]
async fn work_over_the_grace_is_given_back_or_told() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let impatient = launch("scripts-manager", &bus).env("TOOLBUS_SHUTDOWN__GRACE", "1s");
    let mut manager = start(impatient).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let token = token();
    stranger.send(&Frame::script(&endless_script(&token))).await;
    running(&token).await;
    signal(&mut manager, Signal::TERM);
    exits_with(&mut manager, 0).await;
    ended(&token).await;
    // It was started, so nobody starts it again.
    let _next = scripts(&bus).await;
    let answer = Answer::of(&stranger.take(ANSWERS, 1).await[0]);
    assert_eq!(answer.body["reason"], "outcome_unknown", "{}", answer.body);
}

#[tokio::test]
async fn an_interrupted_command_leaves_no_script_behind() {
    let interrupt = async |launch: Launch, token: &str| {
        let mut command = launch.start().unwrap();
        running(token).await;
        signal(&mut command, Signal::INT);
        exits_with(&mut command, 130).await;
        ended(token).await;
        let said = command.process().stderr();
        assert_eq!(said, "cancelled: the call was cancelled\n");
    };

    let script = |token: &str| json!({"script": endless_script(token)}).to_string();

    // In its own process.
    let token = self::token();
    let embedded = Launch::new("agent-host").args(["invoke", "execute_python_script", "-"]);
    interrupt(embedded.stdin(script(&token)), &token).await;

    // In another, over the bus.
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let _manager = scripts(&bus).await;
    let token = self::token();
    let fleet = launch("agent-host", &bus).args(["invoke", "execute_python_script", "-"]);
    interrupt(fleet.stdin(script(&token)), &token).await;
    assert_eq!(python(&bus, "print(1)").await.content(), "1\n");
}

#[tokio::test]
async fn a_command_that_reads_is_interrupted_too() {
    let mut command = std::process::Command::new("sh");
    // Holds the command's input open.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(command.args(["-c", "mkfifo \"$0\""]).arg(&pipe).status().unwrap().success());
    let _writer = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let shell = Launch::new("agent-host").args(["invoke", "list_tool_guides", "-"]);
    let mut command = shell.stdin_from(&pipe).start().unwrap();
    eventually(LIMIT, || command.look("/healthz")).await;
    signal(&mut command, Signal::INT);
    exits_with(&mut command, 130).await;
}
