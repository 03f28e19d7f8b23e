//! Many changes at once, of one server or of many, cost little: listings of the server, and messages
//! on the bus.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_mcp::RegistrationRules;
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_testkit::eventually;
use toolbus_tools::GrantCheck;
use toolbus_wire::message::mcp::{
    McpMetadataRefreshRequest, McpRevisions, McpServerSummary, McpServersIndexed,
};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{json as wire_json, topic};

use crate::asks::asking;
use crate::support::*;

/// A server that reports changes, and the file of the times at which it listed its tools.
struct Restless {
    folder: tempfile::TempDir,
}

impl Restless {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("listed")
    }

    fn entry(&self) -> Value {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/restless.py");
        json!({"command": "python3", "args": ["-I", script, self.file()]})
    }

    /// When its tools were listed, in seconds.
    fn listed(&self) -> Vec<f64> {
        let text = std::fs::read_to_string(self.file()).unwrap_or_default();
        text.lines().map(|line| line.parse().expect("a number")).collect()
    }

    async fn until_listed(&self, times: usize) -> Vec<f64> {
        eventually(PATIENCE, async || {
            let listed = self.listed();
            if listed.len() >= times { Ok(listed) } else { Err(listed) }
        })
        .await
    }
}

/// What one agent hears of servers.
struct Listener {
    heard: Arc<Mutex<Vec<McpServersIndexed>>>,
    _consumer: Consumer,
}

impl Listener {
    async fn start(bus: &Arc<dyn Bus>, agent: &str) -> Self {
        let heard: Arc<Mutex<Vec<McpServersIndexed>>> = Arc::default();
        let kept = Arc::clone(&heard);
        let hear = move |delivery: Delivery| {
            kept.lock().push(wire_json::read(&delivery.envelope.body).expect("an announcement"));
            std::future::ready(Disposition::Ack)
        };
        let topic = topic::tool_meta_mcp(&AgentName::parse(agent).unwrap());
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let subscription = Subscription::private(agent, TopicPattern::from(topic), flow);
        let consumer = bus.subscribe(subscription, Arc::new(hear)).await.unwrap();
        Self { heard, _consumer: consumer }
    }

    fn messages(&self) -> usize {
        self.heard.lock().len()
    }

    /// What was heard of each server, and how often.
    fn servers(&self) -> BTreeMap<String, (usize, McpServerSummary)> {
        let mut servers: BTreeMap<String, (usize, McpServerSummary)> = BTreeMap::new();
        for server in self.heard.lock().iter().flat_map(|heard| &heard.servers) {
            let known = servers.entry(server.server_name.clone()).or_default();
            *known = (known.0 + 1, server.clone());
        }
        servers
    }
}

async fn serve(bus: &Arc<dyn Bus>, set: &ServerPool, agents: &[&str]) -> Bridge {
    let options = bridge::Options {
        agents: agents.iter().map(|name| AgentName::parse(name).unwrap()).collect(),
        instance: InstanceId::random(),
        concurrency: NonZeroU16::new(8).unwrap(),
        registration: RegistrationRules::default(),
        grants: GrantCheck::off(),
    };
    Bridge::start(bus, set.clone(), options).await.unwrap()
}

#[tokio::test]
async fn a_server_that_changes_without_end_is_listed_less_and_less_often() {
    let restless = Restless::new();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"r": restless.entry()})).await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    let ada = Listener::start(&bus, "Ada").await;
    call(&set, "r", "storm", json!({})).await.unwrap();

    let listed = restless.until_listed(9).await;
    let gaps: Vec<f64> = listed.windows(2).map(|two| two[1] - two[0]).collect();
    // A few changes in a row are nothing unusual; then pauses grow. A listing that is late makes the
    // gap behind it shorter, and not all of them together.
    let pauses = [1.0, 2.0, 4.0];
    assert!(listed[8] - listed[5] > 0.9 * pauses.iter().sum::<f64>(), "{gaps:?}");
    for (gap, pause) in gaps[5..].iter().zip(pauses) {
        assert!(*gap > 0.5 * pause, "{gaps:?}");
    }
    let announced = ada.servers().get("r").map_or(0, |(count, _)| *count);
    assert!(announced <= restless.listed().len(), "{announced} announcements");
    bridge.stop(Duration::ZERO).await;
}

/// The numbers of a server's lists, of a bridge that has just begun.
async fn revisions(entry: &Value, change: bool) -> McpRevisions {
    let set = start(json!({"r": entry})).await;
    let revisions = || set.find("r").and_then(|status| status.summary?.revisions).unwrap();
    let first = revisions();
    if change {
        call(&set, "r", "change", json!({})).await.unwrap();
        return eventually(PATIENCE, async || match revisions() {
            now if now != first => Ok(now),
            same => Err(same),
        })
        .await;
    }
    first
}

#[tokio::test]
async fn a_list_has_the_same_number_after_a_restart_and_another_list_has_another() {
    let restless = Restless::new();
    let first = revisions(&restless.entry(), false).await;
    assert_eq!(revisions(&restless.entry(), false).await, first);

    let changed = revisions(&restless.entry(), true).await;
    assert_ne!(changed.tools, first.tools);
    assert_eq!(McpRevisions { tools: first.tools, ..changed }, first);
    // Of a bridge that has listed it once, as the first had the other list.
    let other = revisions(&asking("older"), false).await;
    assert_ne!((other.tools, other.prompts), (first.tools, first.prompts));
}

#[tokio::test]
async fn a_list_that_is_said_to_have_changed_and_has_not_is_not_announced() {
    let restless = Restless::new();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"r": restless.entry()})).await;
    let ada = Listener::start(&bus, "Ada").await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    let tool_counts = || -> Vec<u32> {
        let heard = ada.heard.lock();
        heard.iter().flat_map(|heard| &heard.servers).map(|server| server.tool_count).collect()
    };
    eventually(PATIENCE, async || if tool_counts() == [4] { Ok(()) } else { Err(tool_counts()) })
        .await;

    for (tool, listings) in [("again", 2), ("change", 3)] {
        call(&set, "r", tool, json!({})).await.unwrap();
        restless.until_listed(listings).await;
    }
    eventually(PATIENCE, async || match tool_counts().last() {
        Some(5) => Ok(()),
        _ => Err(tool_counts()),
    })
    .await;
    assert_eq!(tool_counts(), [4, 5]);
    bridge.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn requests_to_list_again_are_answered_with_what_is_known() {
    const AGENTS: usize = 8;
    const REQUESTS: usize = 50;
    let restless = Restless::new();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"r": restless.entry()})).await;
    let bridge = serve(&bus, &set, &[]).await;
    let names: Vec<String> = (0..AGENTS).map(|number| format!("Agent{number}")).collect();
    let mut agents = Vec::new();
    for name in &names {
        agents.push(Listener::start(&bus, name).await);
    }

    for _ in 0..REQUESTS {
        for name in &names {
            let request = Envelope::of(&McpMetadataRefreshRequest::default(), name.as_str());
            bus.publish(&topic::TOOL_META_MCP_REFRESH, request).await.unwrap();
        }
    }
    // Each gets an answer, and one to its last request: a server that comes now is in it or after.
    for agent in &agents {
        eventually(PATIENCE, async || match agent.servers().get("r") {
            Some((_, summary)) if summary.tool_count == 4 => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
    }
    bridge.stop(Duration::ZERO).await;
    assert_eq!(restless.listed().len(), 1, "it was listed a moment before");
    let messages: Vec<_> = agents.iter().map(Listener::messages).collect();
    assert!(messages.iter().all(|messages| *messages < REQUESTS), "{messages:?}");
}

/// Puts a server in the place of `command`.
fn install(folder: &Path, command: &Path) {
    let server = hostile(folder, "plain");
    let arguments: Vec<_> =
        server["args"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let program = server["command"].as_str().unwrap();
    std::fs::write(command, format!("#!/bin/sh\nexec {program} {}\n", arguments.join(" ")))
        .unwrap();
    std::fs::set_permissions(command, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn fifty_servers_that_come_and_go_at_once_are_announced_together() {
    const SERVERS: usize = 50;
    let folder = tempfile::tempdir().unwrap();
    let command = folder.path().join("server");
    let servers: Map<String, Value> =
        (0..SERVERS).map(|number| (format!("s{number}"), json!({"command": command}))).collect();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let ada = Listener::start(&bus, "Ada").await;
    let set = start(servers.into()).await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    let until = async |are: fn(&McpServerSummary) -> bool| {
        eventually(CONNECT_LIMIT, async || {
            let servers = ada.servers();
            let count = servers.values().filter(|(_, summary)| are(summary)).count();
            if count == SERVERS { Ok(()) } else { Err(format!("{count} of {SERVERS}")) }
        })
        .await;
    };

    until(|summary| summary.unavailable.is_some()).await;
    assert!(ada.messages() <= 5, "{} messages", ada.messages());
    install(folder.path(), &command);
    until(|summary| summary.unavailable.is_none()).await;

    // They stop, cannot be started, and are back.
    let before: BTreeMap<_, _> =
        ada.servers().into_iter().map(|(name, (count, _))| (name, count)).collect();
    std::fs::remove_file(&command).unwrap();
    for number in 0..SERVERS {
        call(&set, &format!("s{number}"), "die", json!({})).await.unwrap_err();
    }
    until(|summary| summary.unavailable.is_some()).await;
    install(folder.path(), &command);
    until(|summary| summary.unavailable.is_none()).await;
    for (name, (count, _)) in ada.servers() {
        assert!(count - before[&name] <= 3, "{name}: {count} after {}", before[&name]);
    }
    assert!(ada.messages() < SERVERS * 3, "{} messages", ada.messages());
    bridge.stop(Duration::ZERO).await;
}
