//! Several bridges on one bus: of those with the same servers, one has each server at a time, and
//! those with different ones serve one agent together.

use std::collections::{HashMap, HashSet};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, MemoryBus};
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{RegistrationRules, ServerState};
use toolbus_testkit::eventually;
use toolbus_tools::GrantCheck;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpRelayRequest, McpRelayResponse};
use toolbus_wire::message::tool::{ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::{AgentName, InstanceId, McpServerSegment};
use toolbus_wire::{Topic, header, json, queue, topic};

use crate::agents::Agent;
use crate::support::*;

/// The entry of a server whose every process is a session of its own.
pub(crate) fn counting() -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/counting.py");
    let args: Vec<_> = PYTHON_OPTIONS.into_iter().chain([script]).collect();
    json!({"command": "python3", "args": args})
}

/// What a call of a counting server tells.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct Count {
    pub(crate) session: String,
    pub(crate) n: usize,
    pub(crate) callers: Vec<String>,
}

/// One bridge of several.
struct OneBridge {
    pool: ServerPool,
    bridge: Bridge,
}

impl OneBridge {
    async fn start(bus: &Arc<dyn Bus>, servers: Value) -> Self {
        let mut options = options();
        options.elects_owners = true;
        let pool = ServerPool::start(entries(servers), options).unwrap();
        let options = bridge::Options {
            agents: vec![AgentName::standard()],
            instance: InstanceId::random(),
            concurrency: NonZeroU16::new(8).unwrap(),
            registration: RegistrationRules::allow_all(),
            grants: GrantCheck::off(),
        };
        let bridge = Bridge::start(bus, pool.clone(), options).await.unwrap();
        Self { pool, bridge }
    }

    fn has(&self, server: &str) -> bool {
        match state(&self.pool, server) {
            ServerState::Connected { .. } => true,
            ServerState::Standby => false,
            other => panic!("{other:?}"),
        }
    }

    async fn gets(&self, server: &str) {
        eventually(PATIENCE, async || match state(&self.pool, server) {
            ServerState::Connected { .. } => Ok(()),
            other => Err(other),
        })
        .await;
    }

    async fn stop(self) {
        self.bridge.stop(Duration::from_secs(5)).await;
    }
}

async fn count(agent: &Agent, who: &str) -> Count {
    let arguments = json!({"server_name": "counter", "tool_name": "count",
        "arguments": {"who": who}});
    let told = agent.told("mcp_invoke_tool", arguments).await;
    serde_json::from_str(&told).unwrap_or_else(|_| panic!("{told}"))
}

/// A call of which only the reply counts.
struct SentCall {
    topic: Topic,
    call_id: String,
    envelope: Envelope,
}

impl SentCall {
    async fn reply(self, requester: &Requester, limit: Duration) -> Envelope {
        let request = requester::Request {
            may_repeat: false,
            topic: &self.topic,
            workers: None,
            call_id: &self.call_id,
            envelope: self.envelope,
            context: CallContext::until(Deadline::after(limit)),
        };
        requester.request(request).await.unwrap()
    }
}

/// A call as RockBot makes it: to whichever bridge takes it.
async fn count_as_rockbot(requester: &Requester, named: bool) -> Count {
    let body = ToolInvokeRequest {
        tool_call_id: InstanceId::random().to_string(),
        tool_name: "count".to_owned(),
        arguments: Some("{}".to_owned()),
        session_id: None,
    };
    let mut envelope = Envelope::of(&body, requester.agent().as_str());
    if named {
        envelope = envelope.with_header(header::MCP_SERVER, "counter");
    }
    let sent = SentCall { topic: topic::TOOL_INVOKE_MCP, call_id: body.tool_call_id, envelope };
    let reply = sent.reply(requester, PATIENCE).await;
    let response: ToolInvokeResponse = json::read(&reply.body).unwrap();
    serde_json::from_str(&response.content.unwrap()).unwrap()
}

#[tokio::test]
async fn one_of_two_bridges_has_a_server_and_the_other_has_it_after() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let servers = json!({"counter": counting()});
    let first = OneBridge::start(&bus, servers.clone()).await;
    first.gets("counter").await;
    let second = OneBridge::start(&bus, servers).await;
    let agent = Agent::start(&bus, "RockBot").await;
    agent.knows(&["counter"]).await;

    let session = count(&agent, "a").await.session;
    for n in 2..10 {
        let count = count(&agent, "a").await;
        assert_eq!((count.session, count.n), (session.clone(), n));
    }
    assert!(first.has("counter") && !second.has("counter"));

    // Calls go on while it is handed on, each of them once.
    let calls = async {
        let mut seen = Vec::new();
        for _ in 0..40 {
            seen.push(count(&agent, "b").await);
            // sleeps: the pace of the calls.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        seen
    };
    let (seen, ()) = tokio::join!(calls, first.stop());
    second.gets("counter").await;
    let before = seen.iter().filter(|count| count.session == session).count();
    let after: Vec<_> = seen.iter().skip(before).collect();
    assert!(seen.iter().take(before).all(|count| count.session == session), "{seen:?}");
    assert!(!after.is_empty(), "{seen:?}");
    for (at, count) in after.iter().enumerate() {
        assert_eq!((&count.session, count.n), (&after[0].session, at + 1), "{seen:?}");
    }
    second.stop().await;
}

#[tokio::test]
async fn a_call_of_rockbot_reaches_the_bridge_that_has_the_server() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let servers = json!({"counter": counting()});
    let first = OneBridge::start(&bus, servers.clone()).await;
    first.gets("counter").await;
    let second = OneBridge::start(&bus, servers).await;
    // It knows nothing of the server but what the other announces.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/recording.py");
    let other = json!({"command": "python3", "args": ["-I", script, "/dev/null"]});
    let third = OneBridge::start(&bus, json!({"other": other})).await;
    third.gets("other").await;

    let name = AgentName::parse("Strange").unwrap();
    let requester = Requester::start(Arc::clone(&bus), name, &InstanceId::random()).await.unwrap();
    let session = count_as_rockbot(&requester, true).await.session;
    for n in 2..30 {
        let count = count_as_rockbot(&requester, n % 2 == 0).await;
        assert_eq!((count.session, count.n), (session.clone(), n));
    }

    for bridge in [first, second, third] {
        bridge.stop().await;
    }
}

#[tokio::test]
async fn bridges_with_different_servers_serve_one_agent() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let one = OneBridge::start(&bus, json!({"one": counting()})).await;
    let two = OneBridge::start(&bus, json!({"two": counting(), "counter": counting()})).await;
    let agent = Agent::start(&bus, "RockBot").await;
    agent.services.refresh().await.unwrap();
    agent.knows(&["counter", "one", "two"]).await;

    for server in ["one", "two", "counter"] {
        for _ in 0..8 {
            let details = json!({"server_name": server});
            let told = agent.told("mcp_get_service_details", details).await;
            assert!(told.contains("count"), "{server}: {told}");
        }
    }

    // Whichever of them is asked, a name is one server.
    let register = |name: &str| {
        let mut entry = counting();
        entry["server_name"] = json!(name);
        entry["type"] = json!("stdio");
        entry
    };
    for name in ["one", "two", "one", "two"] {
        let told = agent.told("mcp_register_server", register(name)).await;
        assert!(told.contains("another bridge") || told.contains("operator"), "{name}: {told}");
    }
    let told = agent.told("mcp_register_server", register("mine")).await;
    assert!(told.contains("1 tool(s) available"), "{told}");
    agent.knows(&["counter", "mine", "one", "two"]).await;
    let owner = if one.pool.find("mine").is_some() { &one } else { &two };
    assert!(owner.has("mine"));
    // The others hear of it as agents do.
    for _ in 0..2 {
        agent.told("mcp_unregister_server", json!({"server_name": "mine"})).await;
    }
    agent.knows(&["counter", "one", "two"]).await;

    one.stop().await;
    two.stop().await;
}

/// A call of an MCP client, in its session.
async fn count_in_session(requester: &Requester, session: &str) -> Count {
    count_until(requester, session, Path::new("/")).await
}

/// The same, which lasts until there is this file.
async fn count_until(requester: &Requester, session: &str, until: &Path) -> Count {
    count_with(requester, session, &json!({"who": session, "until": until})).await
}

/// Does the same with these arguments.
async fn count_with(requester: &Requester, session: &str, arguments: &Value) -> Count {
    let call_id = InstanceId::random().to_string();
    let body = McpRelayRequest {
        tool_call_id: call_id.clone(),
        server_name: "counter".to_owned(),
        method: "tools/call".to_owned(),
        params: RawJson::of(&json!({"name": "count", "arguments": arguments})),
    };
    let envelope = Envelope::of(&body, requester.agent().as_str());
    let sent = SentCall {
        topic: topic::mcp_server(&AgentName::standard(), &McpServerSegment::of("counter")),
        call_id,
        envelope: envelope.with_header(header::SESSION, session),
    };
    let reply = sent.reply(requester, 4 * PATIENCE).await;
    let response: McpRelayResponse = json::read(&reply.body)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&reply.body)));
    let result = response.result.to_value(1_000).unwrap();
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn each_caller_has_a_session_of_its_own_where_the_operator_says_so() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let mut server = counting();
    server["session"] = json!("caller");
    let bridge = OneBridge::start(&bus, json!({"counter": server})).await;
    bridge.gets("counter").await;

    let name = AgentName::parse("Face").unwrap();
    let face = Requester::start(Arc::clone(&bus), name, &InstanceId::random()).await.unwrap();
    let name = AgentName::parse("Other").unwrap();
    let other = Requester::start(Arc::clone(&bus), name, &InstanceId::random()).await.unwrap();

    let mut sessions = HashMap::new();
    for n in 1..6 {
        for (requester, who) in [(&face, "a"), (&face, "b"), (&other, "a"), (&other, "c")] {
            let count = count_in_session(requester, who).await;
            assert_eq!((count.n, count.callers), (n, vec![who.to_owned()]));
            let key = (requester.agent().to_string(), who);
            let session = sessions.entry(key).or_insert_with(|| count.session.clone());
            assert_eq!(*session, count.session);
        }
    }
    let distinct: HashSet<_> = sessions.values().collect();
    assert_eq!(distinct.len(), 4, "{sessions:?}");

    // More callers than there may be sessions: idle ones end, and those at work stay.
    let many: Vec<String> = (0..34).map(|n| format!("many{n}")).collect();
    let folder = tempfile::tempdir().unwrap();
    let end = folder.path().join("end");
    let busy = count_until(&face, "a", &end);
    let others = async {
        for who in &many {
            let count = count_in_session(&face, who).await;
            assert_eq!((count.n, count.callers), (1, vec![who.clone()]));
        }
        std::fs::write(&end, "").unwrap();
    };
    let (busy, ()) = tokio::join!(busy, others);
    assert_eq!(busy.n, 6, "its session was at work");
    let forgotten = count_in_session(&face, "b").await;
    assert_eq!(forgotten.n, 1, "its session had to go for another");
    bridge.stop().await;
}

/// A bridge that stops may wait for calls for a long time. An agent that learned of its servers
/// meanwhile would call them, and no consumer would take the call.
#[tokio::test]
async fn a_bridge_that_stops_tells_no_agent_of_its_servers() {
    let memory = MemoryBus::new();
    let bus: Arc<dyn Bus> = Arc::new(memory.connect());
    let bridge = OneBridge::start(&bus, json!({"counter": counting()})).await;
    bridge.gets("counter").await;
    let agent = Agent::start(&bus, "RockBot").await;
    agent.knows(&["counter"]).await;

    let name = AgentName::parse("Face").unwrap();
    let face = Requester::start(Arc::clone(&bus), name, &InstanceId::random()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (begun, end) = (folder.path().join("begun"), folder.path().join("end"));
    let arguments = json!({"begun": begun, "until": end});
    let call = count_with(&face, "a", &arguments);
    let stop = async {
        eventually(PATIENCE, async || begun.exists().then_some(()).ok_or("not begun")).await;
        bridge.bridge.stop(4 * PATIENCE).await;
    };
    // The queue holds more messages than a consumer prefetches, so it has no consumer.
    let asks = async {
        let queue = queue::mcp_bridge_refresh(&AgentName::standard());
        eventually(PATIENCE, async || {
            agent.services.refresh().await.unwrap();
            let unanswered = memory.ready_count(&queue);
            if unanswered < 8 { Err(unanswered) } else { Ok(()) }
        })
        .await;
        std::fs::write(&end, "").unwrap();
    };

    let (count, (), ()) = tokio::join!(call, stop, asks);
    assert_eq!(count.n, 1);
}
