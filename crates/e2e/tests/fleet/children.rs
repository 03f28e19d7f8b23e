//! What MCP servers start ends with the program that started them, however that ends. The server
//! has a child that is hard to get rid of: it has a session of its own and no parent, ignores
//! SIGTERM, as the server does, and holds the pipes open.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit;

use crate::support::*;

/// A moment for the server to end by itself, two seconds after SIGTERM, and what a busy machine
/// needs.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The entry of a server of this kind whose processes have the name of this folder in their command
/// lines. It writes the ids of its processes, as they see them, into the file `pids` there.
fn hostile(folder: &Path, kind: &str) -> Value {
    let script = "../toolbus-mcp/tests/servers/hostile.py";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let pids = folder.join("pids");
    json!({"command": "python3", "args": ["-I", script, kind, pids]})
}

fn stubborn(folder: &Path) -> Value {
    hostile(folder, "daemon-stubborn")
}

fn name(folder: &TempDir) -> &str {
    folder.path().to_str().unwrap()
}

/// Waits until the server and its daemon run.
async fn wait_for_all(folder: &TempDir) {
    toolbus_testkit::eventually(LIMIT, async || {
        let text = std::fs::read_to_string(folder.path().join("pids"))?;
        anyhow::ensure!(text.lines().count() == 2, "{text}");
        Ok(())
    })
    .await;
    // With their supervisor and the processes of the shield.
    assert!(processes(name(folder)).len() >= 3);
}

fn signal(service: &mut Service, signal: Signal) {
    let id = service.process().id().cast_signed();
    kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
}

#[tokio::test]
async fn nothing_below_a_bridge_outlives_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    for end in [Signal::TERM, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let servers = Servers::with(&[("stubborn", stubborn(folder.path()))]);
        let mut bridge = bridge(&vhost.amqp_url(), &servers).await;
        wait_for_all(&folder).await;
        let children = descendants(bridge.process().id());
        let began = Instant::now();
        // To this one process alone, not to its group, as somebody at a terminal would.
        signal(&mut bridge, end);
        ended(name(&folder)).await;
        assert!(began.elapsed() < END_LIMIT, "{end:?}: {:?}", began.elapsed());
        gone(&children).await;
    }
}

#[tokio::test]
async fn nothing_below_an_embedded_host_outlives_it() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::with(&[("stubborn", stubborn(folder.path()))]);
    let launch = Launch::new("agent-host").args(["serve", "--mcp-config"]).arg(servers.file());
    let mut host = start(launch).await;
    wait_for_all(&folder).await;
    let began = Instant::now();
    signal(&mut host, Signal::KILL);
    ended(name(&folder)).await;
    assert!(began.elapsed() < END_LIMIT, "{:?}", began.elapsed());
}

/// Of a program that was killed nobody is left but the supervisor: it asks everyone first, too.
#[tokio::test]
async fn who_ends_when_asked_is_not_killed() {
    let folder = tempfile::tempdir().unwrap();
    let servers = Servers::with(&[("orderly", hostile(folder.path(), "daemon-orderly"))]);
    let launch = Launch::new("agent-host").args(["serve", "--mcp-config"]).arg(servers.file());
    let mut host = start(launch).await;
    wait_for_all(&folder).await;
    signal(&mut host, Signal::KILL);
    ended(name(&folder)).await;
    let text = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
    let (pids, ends) = (text("pids"), text("pids.ends"));
    let pids: Vec<_> = pids.lines().collect();
    assert_eq!(pids.len(), 2, "the server and its daemon");
    for said in pids.iter().flat_map(|pid| [format!("asked {pid}"), format!("ended {pid}")]) {
        assert_eq!(ends.lines().filter(|line| *line == said).count(), 1, "{said}: {ends}");
    }
}
