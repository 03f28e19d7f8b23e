//! More than an agent: several programs on one bus, MCP servers, scripts.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use toolbus::bus::{
    Consumer, Envelope, Handler, Health, PublishError, SubscribeError, Subscription, Topic,
};
use toolbus::sandbox::{Config, Sandbox};
use toolbus::scripts::Unavailable;
use toolbus::tools::bus::Remote;
use toolbus::tools::grant::KEY_BYTES_MIN;
use toolbus::{
    Bus, ErrorCode, Execution, GrantCheck, GrantKey, GrantPolicy, McpError, McpServers, MemoryBus,
    Scripts, Tool, Toolbus, wire,
};
use toolbus_testkit::eventually;
use toolbus_testkit::mcp as servers;

use crate::support::*;

/// A bus that holds back what is announced of the small server.
struct HoldsBack {
    bus: MemoryBus,
    /// Something is held back.
    held: Notify,
    /// Nothing is any more.
    let_go: CancellationToken,
}

impl Bus for HoldsBack {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        Box::pin(async move {
            let body = String::from_utf8_lossy(&envelope.body);
            if topic.as_str().starts_with("tool.meta.mcp.") && body.contains("shout") {
                self.held.notify_one();
                self.let_go.cancelled().await;
            }
            self.bus.publish(topic, envelope).await
        })
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        self.bus.subscribe(subscription, handler)
    }

    fn health(&self) -> Health {
        self.bus.health()
    }

    fn close(&self, grace: Duration) -> BoxFuture<'_, ()> {
        self.bus.close(grace)
    }
}

/// Lets every other task do what it can do now.
async fn let_others_run() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn two_programs_share_a_bus() {
    let bus = MemoryBus::new();
    let connect = || Arc::new(bus.connect()) as Arc<dyn Bus>;
    let reason = "out of snakes".to_owned();
    let first = Toolbus::builder()
        .name("first")
        .bus(connect())
        .tool(adding("add"))
        .serve_calls(NonZeroU16::MIN)
        .scripts(Scripts::local(Arc::new(Unavailable(reason))));
    let first = first.open().await.unwrap();
    let second = Toolbus::builder().name("second").bus(connect()).scripts(Scripts::remote());
    let second = second.tool(adding("plus")).open().await.unwrap();

    // What the one serves, the other can offer as its own.
    let topic = wire::topic::tool_invoke_agent(first.name());
    let remote = Remote::new(second.agent().requester().clone(), topic);
    let tool = Tool::new("add", "Adds.", "first").with_parameters(json!({"type": "object"}));
    second.invoker().registry().register(tool, remote).unwrap();
    assert_eq!(text(sum(&second, "add").await), "3");
    let error = call(&second, "add", json!({"a": "x", "b": 2})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert_eq!(error.message, "/a: \"x\" is not of type \"integer\"");
    let script = call(&second, "execute_python_script", json!({"script": "print(1)"})).await;
    assert!(script.unwrap_err().message.contains("out of snakes"));

    first.close().await;
    assert_eq!(text(sum(&second, "plus").await), "3");
    second.close().await;
}

#[tokio::test]
async fn services_that_check_grants_take_only_requests_with_one() {
    let key = || GrantKey::new("k".repeat(KEY_BYTES_MIN)).unwrap();
    let check = GrantCheck::new("worker", GrantPolicy::Require, key());
    let bus = MemoryBus::new();
    let connect = || Arc::new(bus.connect()) as Arc<dyn Bus>;
    let runner = Arc::new(Unavailable("out of snakes".to_owned()));
    let worker = Toolbus::builder().name("worker").bus(connect()).grant_check(check);
    let worker = worker.scripts(Scripts::local(runner)).mcp(McpServers::json(own_server("grants")));
    let worker = worker.open().await.unwrap();
    let agent = || Toolbus::builder().bus(connect()).scripts(Scripts::remote()).direct_tools();
    let with_key = agent().name("with").grants(key()).open().await.unwrap();
    let without = agent().name("without").open().await.unwrap();

    let script = json!({"script": "print(1)"});
    let refused = call(&without, "execute_python_script", script.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied, "{refused:?}");
    let taken = call(&with_key, "execute_python_script", script).await.unwrap_err();
    assert!(taken.message.contains("out of snakes"), "{taken:?}");
    for agent in [&without, &with_key] {
        assert!(agent.wait_for_tool("own__shout", LIMIT).await);
    }
    let words = json!({"text": "hello"});
    let refused = call(&without, "own__shout", words.clone()).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::Denied, "{refused:?}");
    assert_eq!(text(call(&with_key, "own__shout", words).await), "HELLO");

    for toolbus in [without, with_key, worker] {
        toolbus.close().await;
    }
}

#[tokio::test]
async fn servers_of_a_text_are_started_announced_and_ended() {
    let mark = mark();
    let servers = McpServers::json(own_server(&mark));
    let toolbus = Toolbus::builder().mcp(servers).direct_tools().open().await.unwrap();
    assert_eq!(toolbus.has_bridge(), Ok(true));
    assert!(toolbus.wait_for_servers(LIMIT).await);

    // All of it is there now, without another wait.
    assert_eq!(toolbus.directory().servers()[0].tool_names, ["shout"]);
    assert_eq!(text(call(&toolbus, "own__shout", json!({"text": "hello"})).await), "HELLO");
    let arguments = json!({"text": "hello"});
    let by_gateway = json!({"server_name": "own", "tool_name": "shout", "arguments": arguments});
    assert_eq!(text(call(&toolbus, "mcp_invoke_tool", by_gateway).await), "HELLO");
    assert!(processes_with(&mark) > 0);

    toolbus.close().await;
    assert_eq!(processes_with(&mark), 0);
    assert!(!names(&toolbus).contains(&"own__shout".to_owned()));
}

#[tokio::test]
async fn servers_are_waited_for_until_the_agent_knows_them() {
    let bus = Arc::new(HoldsBack {
        bus: MemoryBus::new(),
        held: Notify::new(),
        let_go: CancellationToken::new(),
    });
    let servers = McpServers::json(own_server(&mark()));
    let toolbus = Toolbus::builder().bus(bus.clone()).mcp(servers).open().await.unwrap();
    let waiting = async {
        assert!(toolbus.wait_for_servers(LIMIT).await);
        assert_eq!(toolbus.directory().servers().len(), 1);
    };
    let letting_go = async {
        bus.held.notified().await;
        let_others_run().await;
        bus.let_go.cancel();
    };
    tokio::join!(waiting, letting_go);
    toolbus.close().await;
}

#[tokio::test]
async fn servers_end_when_a_toolbus_is_dropped() {
    let mark = mark();
    let servers = McpServers::json(own_server(&mark));
    let toolbus = Toolbus::builder().mcp(servers).open().await.unwrap();
    assert!(toolbus.wait_for_servers(LIMIT).await);
    drop(toolbus);
    let count = async || match processes_with(&mark) {
        0 => Ok(()),
        count => Err(count),
    };
    eventually(LIMIT, count).await;
}

#[tokio::test]
async fn a_server_that_does_not_come_is_known_to_be_away() {
    let list = json!({"mcpServers": {"none": {"command": "/nothing/here"}}}).to_string();
    let toolbus = Toolbus::builder().mcp(McpServers::json(list)).open().await.unwrap();
    assert!(toolbus.wait_for_servers(LIMIT).await);
    assert!(toolbus.directory().servers()[0].unavailable.is_some());
    toolbus.close().await;
}

#[tokio::test]
async fn without_servers_the_tools_of_the_bridge_are_there_all_the_same() {
    let toolbus = Toolbus::builder().mcp(McpServers::json("{\"mcpServers\": {}}"));
    let toolbus = toolbus.open().await.unwrap();
    assert!(toolbus.wait_for_servers(LIMIT).await);
    assert!(names(&toolbus).contains(&"mcp_invoke_tool".to_owned()));
}

#[tokio::test]
async fn a_list_of_servers_with_mistakes_is_an_error() {
    let check = async |servers: McpServers| {
        let error = Toolbus::builder().mcp(servers).open().await.unwrap_err();
        let toolbus::Error::Mcp(error) = error else { panic!("{error:?}") };
        error
    };
    let list = json!({"mcpServers": {
        "one": {"command": "x", "env": {"KEY": 7}},
        "two": {"url": "hunter2"},
    }});
    let error = check(McpServers::json(list.to_string())).await;
    assert!(matches!(&error, McpError::Mistakes(mistakes) if mistakes.len() == 2), "{error:?}");
    assert!(error.to_string().starts_with("mistakes in the list of MCP servers: server \"one\""));
    assert!(!format!("{error} {error:?}").contains("hunter2"));
    assert!(matches!(check(McpServers::json("[]")).await, McpError::Text(_)));
    assert!(matches!(check(McpServers::file("/nothing.json")).await, McpError::Settings(_)));
    let text = format!("{:?}", McpServers::json("hunter2"));
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn servers_of_a_file_are_those_that_others_wrote() {
    let Some(time) = servers::time() else { return };
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, json!({"mcpServers": {"time": time.to_json()}}).to_string()).unwrap();
    let settings = toolbus::mcp::settings::McpSettings {
        config: Some(file),
        pins: Some(folder.path().join("pins")),
        ..Default::default()
    };
    let toolbus = Toolbus::builder().mcp(McpServers::settings(settings)).direct_tools();
    let toolbus = toolbus.open().await.unwrap();
    assert!(toolbus.wait_for_servers(LIMIT).await);
    let arguments = json!({"timezone": "Europe/Berlin"});
    let told = call(&toolbus, "time__get_current_time", arguments).await;
    assert!(text(told).contains("\"Europe/Berlin\""));
    toolbus.close().await;
}

#[tokio::test]
async fn scripts_run_by_the_runner_that_was_given() {
    let script = |source: &str| json!({"script": source});
    let run = async |scripts: Scripts, arguments: Value| {
        let toolbus = Toolbus::builder().scripts(scripts).open().await.unwrap();
        let outcome = call(&toolbus, "execute_python_script", arguments).await;
        toolbus.close().await;
        outcome
    };
    // Nobody serves them.
    let error = run(Scripts::remote(), script("print(1)")).await.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Unroutable, Execution::NotStarted));

    match Sandbox::probe(Config::default()).await {
        Ok(sandbox) => {
            let scripts = Scripts::local(Arc::new(sandbox)).concurrency(NonZeroU16::MIN);
            assert_eq!(text(run(scripts, script("print(6 * 7)")).await), "42\n");
        }
        Err(why) => without_sandbox(&why),
    }
}
