//! The recording, replayed: each recorded request is published as it was recorded, and our services
//! answer as the C# ones did.
//!
//! Alike means what `crates/toolbus-wire/tests/frames/README.md` says: the same type, correlation,
//! source and header names, and the same JSON but for nulls, the case of member names and unknown
//! members. Where ours differs on purpose, the test says what it answers instead.

mod compare;
mod stage;

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::Bus;
use toolbus_mcp::bridge::{Bridge, Options};
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_mcp::{PrivateAddresses, RegistrationRules, StdioRegistration};
use toolbus_scripts::{ScriptAllowance, WorkerOptions};
use toolbus_tools::bus::ServeOptions;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::{GrantCheck, Invoker, Registry, Tool};
use toolbus_wire::ErrorCode;
use toolbus_wire::name::{AgentName, InstanceId};

use compare::{Reply, assert_alike, assert_alike_at_first, text_of_error};
use stage::Stage;

const FOUR: NonZeroU16 = NonZeroU16::new(4).unwrap();

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tool_invoke_is_answered_as_recorded() {
    let Some(stage) = Stage::set("tool-invoke").await else { return };
    let registry = Arc::new(Registry::new());
    six_tools(&registry);
    let agent = AgentName::standard();
    let options = ServeOptions {
        agent,
        instance: InstanceId::random(),
        concurrency: FOUR,
        parked: Vec::new(),
    };
    let served = toolbus_tools::bus::serve(stage.bus(), &Invoker::new(registry), options)
        .await
        .expect("the tools are served");

    let pairs = stage.replay(|request| request).await;
    assert_eq!(pairs.len(), 8, "every request has its answer");
    for (recorded, ours) in &pairs {
        // The C# code advises to call again after any timeout; ours only where nothing ran.
        let but_for: &[&str] =
            if recorded.body["code"] == "timeout" { &["isretryable"] } else { &[] };
        assert_alike(recorded, ours, but_for);
    }
    for responder in served {
        responder.stop(Duration::from_secs(1)).await;
    }
    stage.strike().await;
}

/// The tools of the recording.
fn six_tools(registry: &Registry) {
    let add = |name: &str, run: fn(Invocation) -> Result<Output, CallError>| {
        let tool = Tool::new(name, "A tool of the recording", "test");
        registry.register(tool, move |call| std::future::ready(run(call))).expect("a new name");
    };
    add("echo", |call| {
        Ok(if call.arguments.is_empty() {
            Output::default()
        } else {
            Output::text(Value::Object(call.arguments).to_string())
        })
    });
    add("throw_timeout", |_| Err(CallError::new(ErrorCode::Timeout, "too slow")));
    add("throw_argument", |_| Err(CallError::invalid_arguments("bad argument 'x'")));
    add("throw_other", |_| Err(CallError::execution_failed("it broke")));
    add("returns_error", |_| Ok(Output::error("it returned an error")));
    add("returns_null", |_| Ok(Output::default()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mcp_calls_are_answered_as_recorded() {
    let Some(stage) = Stage::set("mcp-invoke").await else { return };
    let Some(server) = toolbus_testkit::mcp::everything_http().await else { return };
    let bridge = bridge(&stage.bus(), &server.url()).await;

    let pairs = stage.replay(|request| request).await;
    assert_eq!(pairs.len(), 11, "every request has its answer");
    for (recorded, ours) in &pairs {
        // On purpose: the C# bridge only hides a denied tool, ours refuses it.
        if recorded.body["toolName"] == "gzip-file-as-resource" {
            assert_eq!(ours.body["code"], "denied");
        } else if recorded.body["toolName"] == "no-such-tool" {
            // On purpose: the C# bridge has the server say so, ours does not ask it.
            assert_eq!(ours.body["code"], "tool_not_found");
        } else if recorded.body["code"] == "tool_not_found" {
            // On purpose, here with the names of the servers.
            assert_alike_at_first(recorded, ours, "message");
        } else {
            assert_alike(recorded, ours, &[]);
        }
    }

    bridge.stop(Duration::from_secs(1)).await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_mcp_calls_are_answered_as_recorded() {
    let Some(stage) = Stage::set("mcp-invoke-errors").await else { return };
    let Some(server) = toolbus_testkit::mcp::everything_http().await else { return };
    let bridge = bridge(&stage.bus(), &server.url()).await;

    let pairs = stage.replay(|request| request).await;
    assert_eq!(pairs.len(), 5, "every recorded answer has ours beside it");
    for (recorded, ours) in &pairs {
        if recorded.body["toolName"] == "nobody-has-it" {
            // On purpose: ours goes on with the names of the tools that there are.
            assert_alike_at_first(recorded, ours, "message");
        } else {
            assert_alike(recorded, ours, &[]);
        }
    }
    // On purpose: the C# bridge makes a null body a dead letter, ours answers whoever can be.
    let null = stage.unmatched("c-null").await;
    assert_eq!(text_of_error(&null), ("invalid_arguments", "the body is null"));
    bridge.stop(Duration::from_secs(1)).await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poison_is_answered_once() {
    let Some(stage) = Stage::set("mcp-invoke-poison").await else { return };
    let Some(server) = toolbus_testkit::mcp::everything_http().await else { return };
    let bridge = bridge(&stage.bus(), &server.url()).await;

    assert!(stage.replay(|request| request).await.is_empty(), "nothing was answered there");
    for correlation_id in ["c-badargs", "c-arrargs"] {
        let reply: Reply = stage.unmatched(correlation_id).await;
        assert_eq!(text_of_error(&reply).0, "invalid_arguments");
    }
    stage.expect_quiet("rockbot.mcp-bridge.RockBot").await;
    bridge.stop(Duration::from_secs(1)).await;
    stage.strike().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn management_is_answered_as_recorded() {
    let Some(stage) = Stage::set("mcp-manage").await else { return };
    let Some(server) = toolbus_testkit::mcp::everything_http().await else { return };
    let Some(second) = toolbus_testkit::mcp::everything_http().await else { return };
    let bridge = bridge(&stage.bus(), &server.url()).await;

    // The second server listens on a port of its own here.
    let url = second.url();
    let pairs = stage.replay(|request| request.replace("http://127.0.0.1:3901/mcp", &url)).await;
    assert_eq!(pairs.len(), 7, "every recorded answer has ours beside it");

    for (recorded, mut ours) in pairs {
        leave_out_tools_that_ask(&mut ours);
        assert_alike(&recorded, &ours, &[]);
    }

    // On purpose: an unknown request is answered, not dropped, and one that names no reply topic is
    // a dead letter there and here.
    let unknown = stage.unmatched("c-unkmanage").await;
    assert_eq!(unknown.message_type, "RockBot.Tools.Mcp.UnknownResponse");
    assert_eq!(unknown.body["error"], "unknown request type RockBot.Tools.Mcp.Unknown");
    stage.expect_dead_letter("rockbot.mcp-bridge.RockBot.manage.dlq", "c-noreply").await;
    bridge.stop(Duration::from_secs(1)).await;
    stage.strike().await;
}

/// On purpose: ours can be asked, so the server offers three tools that it offers no C# client.
fn leave_out_tools_that_ask(ours: &mut Reply) {
    const ASK: [&str; 3] =
        ["trigger-elicitation-request", "trigger-url-elicitation", "trigger-sampling-request"];
    if let Some(tools) = ours.body["tools"].as_array_mut() {
        tools.retain(|tool| !ASK.iter().any(|name| tool["name"] == *name));
    }
    let available = ours.body["summary"].as_str().and_then(|text| text.split_once(" tool(s)"));
    if let Some((count, rest)) = available {
        let count: usize = count.parse().expect("a number of tools");
        ours.body["summary"] = format!("{} tool(s){rest}", count - ASK.len()).into();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_are_answered_as_recorded() {
    let Some(stage) = Stage::set("script").await else { return };
    let runner = toolbus_sandbox::settings::ScriptsSettings::default()
        .runner()
        .await
        .expect("a sandbox that works");
    let instance = InstanceId::random();
    let (allowance, grants) = (ScriptAllowance::default(), GrantCheck::off());
    let options = WorkerOptions { concurrency: FOUR, allowance, grants };
    let worker = toolbus_scripts::serve(stage.bus(), &instance, runner, options)
        .await
        .expect("scripts are served");

    // The last request installs packages and was never answered; that has tests of its own.
    let pairs = stage.replay_but("script-pi-0005", |request| request).await;
    assert_eq!(pairs.len(), 4, "every recorded answer has ours beside it");

    for (recorded, ours) in &pairs {
        if recorded.body["toolCallId"] == "script-to-0004" {
            // On purpose: the C# manager gives the exit code of a kill, ours says what happened.
            assert_alike(recorded, ours, &["elapsedms", "exitcode", "stderr"]);
            assert_eq!(ours.body["exitCode"], -1);
            assert_eq!(ours.body["reason"], "timed_out");
            assert_eq!(ours.body["stderr"], "Script timed out after 2s");
        } else {
            assert_alike(recorded, ours, &["elapsedms"]);
        }
    }

    worker.stop(Duration::from_secs(1)).await;
    stage.strike().await;
}

/// A bridge as it was recorded: one server `everything`, of type `sse`, with one tool denied.
async fn bridge(bus: &Arc<dyn Bus>, url: &str) -> Bridge {
    let file = json!({"mcpServers": {"everything": {
        "type": "sse", "url": url, "deniedTools": ["gzip-file-as-resource"]
    }}});
    let config = config::parse(&file.to_string(), Variables::Refused).expect("an mcp.json");
    assert!(config.mistakes.is_empty(), "{:?}", config.mistakes);
    let mut options = PoolConfig::new(std::env::vars_os());
    options.private_registration = PrivateAddresses::Allowed;
    let set = ServerPool::start(config.servers, options).expect("an HTTP client");
    set.wait_settled().await;
    let options = Options {
        agents: vec![AgentName::standard()],
        instance: InstanceId::random(),
        concurrency: FOUR,
        registration: RegistrationRules {
            programs: StdioRegistration::Denied,
            ..RegistrationRules::allow_all()
        },
        grants: GrantCheck::off(),
    };
    Bridge::start(bus, set, options).await.expect("the bridge listens")
}
