//! What MCP servers start ends with the program that started them, however that ends. The server has
//! a child that is hard to get rid of: it has a session of its own and no parent, ignores SIGTERM, as
//! the server does, and holds the pipes open.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit;

use crate::support::*;

/// A moment for the server to end by itself, two seconds after SIGTERM, and what a busy machine needs.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The entry of the server whose processes have this text in their command lines.
fn stubborn(token: &str) -> Value {
    let script = "../toolbus-mcp/tests/servers/hostile.py";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let pids = std::env::temp_dir().join(token);
    json!({"command": "python3", "args": ["-I", script, "daemon-stubborn", pids]})
}

async fn all_of(token: &str) -> Vec<u32> {
    toolbus_testkit::eventually(LIMIT, async || {
        let all = processes(token);
        // The supervisor, the server, and its daemon.
        anyhow::ensure!(all.len() == 3, "{all:?}");
        Ok(all)
    })
    .await
}

fn signal(service: &mut Service, signal: Signal) {
    let id = service.process().id().cast_signed();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn nothing_below_a_bridge_outlives_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    for end in [Signal::TERM, Signal::KILL] {
        let token = token();
        let servers = Servers::with(&[("stubborn", stubborn(&token))]);
        let mut bridge = bridge(&vhost.amqp_url(), &servers).await;
        all_of(&token).await;
        let children = descendants(bridge.process().id());
        let began = Instant::now();
        // To this one process alone, not to its group, as somebody at a terminal would.
        signal(&mut bridge, end);
        ended(&token).await;
        assert!(began.elapsed() < END_LIMIT, "{end:?}: {:?}", began.elapsed());
        gone(&children).await;
    }
}

#[tokio::test]
async fn nothing_below_an_embedded_host_outlives_it() {
    let token = token();
    let servers = Servers::with(&[("stubborn", stubborn(&token))]);
    let launch = Launch::new("agent-host").args(["serve", "--mcp-config"]).arg(servers.file());
    let mut host = start(launch).await;
    all_of(&token).await;
    let began = Instant::now();
    signal(&mut host, Signal::KILL);
    ended(&token).await;
    assert!(began.elapsed() < END_LIMIT, "{:?}", began.elapsed());
}
