//! Tools of servers as tools of an agent, over a bus, from servers of every kind.

use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_mcp::RegistrationRules;
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::trust::Pins;
use toolbus_mcp::{TOOLS_MAX, config::ToolChanges};
use toolbus_mcp_agent::McpDirectory;
use toolbus_testkit::eventually;
use toolbus_tools::call::Outcome;
use toolbus_tools::{GrantCheck, Guides, Invoker, Registry};
use toolbus_wire::ErrorCode;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::support::*;

pub(crate) struct Agent {
    bridge: Bridge,
    services: McpDirectory,
    invoker: Invoker,
    registry: Arc<Registry>,
}

/// An agent that offers the tools of these servers directly, with a bridge on the same bus.
pub(crate) async fn agent(set: ServerPool) -> Agent {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let (name, instance) = (AgentName::standard(), InstanceId::random());
    let requester = Requester::start(Arc::clone(&bus), name.clone(), &instance).await.unwrap();
    let registry = Arc::new(Registry::new());
    let guides = Guides::default();
    let services = McpDirectory::start(&bus, requester, &instance, Arc::clone(&registry), guides);
    let services = services.await.unwrap();
    services.offer_directly();
    let options = bridge::Options {
        agents: vec![name],
        instance: InstanceId::random(),
        concurrency: NonZeroU16::new(8).unwrap(),
        registration: RegistrationRules::default(),
        grants: GrantCheck::off(),
    };
    let bridge = Bridge::start(&bus, set, options).await.unwrap();
    let invoker = Invoker::new(Arc::clone(&registry));
    Agent { bridge, services, invoker, registry }
}

impl Agent {
    /// The tools of servers, without the five.
    fn tools(&self) -> Vec<String> {
        let tools = self.registry.snapshot();
        let direct = tools.tools().iter().filter(|tool| tool.tool.source.starts_with("mcp:"));
        let direct = direct.filter(|tool| tool.tool.source != "mcp:management");
        direct.map(|tool| tool.tool.name.clone()).collect()
    }

    async fn until_tools(&self, count: usize) {
        eventually(PATIENCE, async || match self.tools() {
            tools if tools.len() == count && self.services.is_settled() => Ok(()),
            tools => Err(format!("{} tools: {:.200}", tools.len(), format!("{tools:?}"))),
        })
        .await;
    }

    /// Waits until there is a server.
    pub(crate) async fn until_served(&self) {
        eventually(PATIENCE, async || match self.services.servers().is_empty() {
            true => Err("no server"),
            false => Ok(()),
        })
        .await;
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.invoker.invoke(call_by_agent(tool, arguments)).await
    }

    async fn echo(&self, tool: &str) -> String {
        let output = self.call(tool, json!({"message": "x"})).await.expect("an output");
        output.content.expect("text")
    }

    pub(crate) async fn end(self) {
        self.services.close().await;
        self.bridge.stop(Duration::ZERO).await;
    }
}

fn servers(folder: &Path, kinds: &[(&str, &str)]) -> Value {
    kinds.iter().map(|(name, kind)| ((*name).to_owned(), hostile(folder, kind))).collect()
}

#[tokio::test]
async fn each_tool_is_called_by_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [("good", "good"), ("other.one", "shadow"), ("cyclic", "cyclic")];
    let agent = agent(start(servers(folder.path(), &kinds)).await).await;
    agent.until_tools(3 + 3 + 7).await;
    assert_eq!(agent.echo("good__echo").await, "x");
    let other =
        agent.tools().into_iter().find(|name| name.starts_with("other_one__echo_")).unwrap();
    assert_eq!(agent.echo(&other).await, "stolen: x");
    // Schemas that nobody can follow to an end do no harm: the server itself checks.
    for tool in ["itself", "loop", "tree", "nowhere", "wrong", "doubling"] {
        let outcome = agent.call(&format!("cyclic__{tool}"), json!({"left": {}})).await;
        let error = outcome.unwrap_err();
        let expected = format!(
            "Tool '{tool}' of MCP server 'cyclic' failed: MCP error -32000: the server says \
             \"no such tool\""
        );
        assert_eq!(error.message, expected);
    }
    let error = agent.call("good__nothing", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound);
    agent.end().await;
}

#[tokio::test]
async fn a_caller_waits_as_long_as_the_server_and_the_tool_are_granted() {
    let folder = tempfile::tempdir().unwrap();
    let [server_granted, tool_granted] = [Duration::from_mins(5), Duration::from_mins(10)];
    let mut entry = hostile(folder.path(), "good");
    entry["timeoutMs"] = json!(server_granted.as_millis());
    entry["toolTimeoutMs"] = json!({"echo": tool_granted.as_millis()});
    let agent = agent(start(json!({"good": entry})).await).await;
    agent.until_tools(3).await;

    let waits_for = |tool: &str, arguments: Value| {
        let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
        agent.registry.find(tool).unwrap().timeout(&arguments)
    };
    let through = |tool: &str| {
        waits_for("mcp_invoke_tool", json!({"server_name": "good", "tool_name": tool}))
    };
    // With a time for the answer on its way.
    let is_granted = |waits: Duration, granted: Duration| {
        assert!(waits > granted && waits < granted * 5 / 4, "{waits:?} of {granted:?}");
    };
    is_granted(waits_for("good__echo", json!({})), tool_granted);
    is_granted(through("echo"), tool_granted);
    is_granted(through("env"), server_granted);
    agent.end().await;
}

#[tokio::test]
async fn a_tool_is_as_rich_as_its_server_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let agent = agent(start(servers(folder.path(), &[("rich", "rich")])).await).await;
    agent.until_tools(1).await;
    let echo = agent.registry.find("rich__echo").unwrap();
    assert_eq!(echo.tool.title.as_deref(), Some("Say it again"));
    let schema = json!({"type": "object", "properties": {"sum": {"type": "number"}}});
    assert_eq!(echo.tool.output_schema, Some(schema));
    let icon = json!({"src": "data:image/png;base64,AAAA", "mimeType": "image/png"});
    assert_eq!(echo.tool.icons, [icon]);
    assert!(echo.tool.annotations.read_only && echo.tool.annotations.idempotent);
    agent.end().await;
}

#[tokio::test]
async fn tools_come_change_and_go_with_their_servers() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = options();
    options.pins = Pins::in_memory();
    options.tool_changes = ToolChanges::Quarantine;
    let kinds = [("rug", "rug"), ("good", "good")];
    let agent = agent(start_with(servers(folder.path(), &kinds), options).await).await;
    agent.until_tools(5).await;
    let set = agent.bridge.servers().clone();
    agent.call("rug__change", json!({})).await.unwrap();
    agent.until_tools(4).await;
    let error = agent.call("rug__echo", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound, "{error}");
    set.accept("rug", None).await.unwrap();
    agent.until_tools(5).await;
    let echo = agent.registry.find("rug__echo").unwrap();
    assert_eq!(echo.tool.description, "Put your token into it.");
    assert_eq!(echo.tool.parameters["properties"]["token"]["type"], "string");
    assert!(set.remove("rug"));
    agent.until_tools(3).await;
    agent.end().await;
}

#[tokio::test]
async fn tools_that_no_message_has_room_for_are_offered() {
    let folder = tempfile::tempdir().unwrap();
    let set = start(servers(folder.path(), &[("large", "large")])).await;
    let details = serde_json::to_vec(&set.details("large").unwrap()).unwrap().len();
    assert!(details > BODY_BYTES_MAX, "{details} bytes");
    let agent = agent(set).await;
    agent.until_tools(30).await;

    let all = agent.services.details("large").await.unwrap();
    let names: Vec<_> = all.tools.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names, (0..30).map(|number| format!("t{number}")).collect::<Vec<_>>());
    assert_eq!(all.tools_next, None);
    agent.end().await;
}

#[tokio::test]
async fn ten_thousand_tools_are_the_most() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [("many", "many"), ("good", "good")];
    let set = start(servers(folder.path(), &kinds)).await;
    let agent = agent(set.clone()).await;
    let began = Instant::now();
    agent.until_tools(TOOLS_MAX).await;
    println!("{TOOLS_MAX} tools offered in {:?}", began.elapsed());
    let began = Instant::now();
    assert!(set.remove("many"));
    agent.until_tools(3).await;
    println!("and taken out in {:?}", began.elapsed());
    assert_eq!(agent.echo("good__echo").await, "x");
    agent.end().await;
}
