//! Several agents on one bus: whoever starts first, each hears of the servers that there are, and
//! what is one agent's reaches no other. And what an agent's model is told by the five tools.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, Delivery, Disposition, Flow, MemoryBus, Subscription, TopicPattern};
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::trust::Pins;
use toolbus_mcp::{AddressRegistration, PrivateAddresses, RegistrationRules, StdioRegistration};
use toolbus_mcp_agent::McpDirectory;
use toolbus_testkit::eventually;
use toolbus_tools::call::Arguments;
use toolbus_tools::{GrantCheck, Guides, Invoker, Registry};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::topic;

use crate::support::*;

pub(crate) struct Agent {
    pub(crate) services: McpDirectory,
    invoker: Invoker,
}

impl Agent {
    pub(crate) async fn start(bus: &Arc<dyn Bus>, name: &str) -> Self {
        let (name, instance) = (AgentName::parse(name).unwrap(), InstanceId::random());
        let requester = Requester::start(Arc::clone(bus), name, &instance).await.unwrap();
        let registry = Arc::new(Registry::new());
        let services = McpDirectory::start(
            bus,
            requester,
            &instance,
            Arc::clone(&registry),
            Guides::default(),
        );
        Self { services: services.await.unwrap(), invoker: Invoker::new(registry) }
    }

    pub(crate) async fn knows(&self, expected: &[&str]) {
        eventually(PATIENCE, async || {
            let servers = self.services.servers();
            let mut names: Vec<_> = servers.iter().map(|s| s.server_name.as_str()).collect();
            names.sort_unstable();
            if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
        })
        .await;
    }

    /// What a tool says, with the code before it where it says so by an error.
    pub(crate) async fn told(&self, tool: &str, arguments: Value) -> String {
        match self.invoker.invoke(call_by_agent(tool, arguments)).await {
            Ok(output) if output.is_error => format!("error: {}", output.content.unwrap()),
            Ok(output) => output.content.unwrap_or_default(),
            Err(error) => format!("{}: {}", error.code, error.message),
        }
    }
}

async fn serve(bus: &Arc<dyn Bus>, set: &ServerPool, agents: &[&str]) -> Bridge {
    serve_with(bus, set, agents, registration_by_address()).await
}

async fn serve_with(
    bus: &Arc<dyn Bus>,
    set: &ServerPool,
    agents: &[&str],
    registration: RegistrationRules,
) -> Bridge {
    let options = bridge::Options {
        agents: agents.iter().map(|name| AgentName::parse(name).unwrap()).collect(),
        instance: InstanceId::random(),
        concurrency: NonZeroU16::new(8).unwrap(),
        registration,
        grants: GrantCheck::off(),
    };
    Bridge::start(bus, set.clone(), options).await.unwrap()
}

#[tokio::test]
async fn each_agent_hears_of_servers_whoever_starts_first_and_gets_its_own_answers() {
    let folder = tempfile::tempdir().unwrap();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"good": hostile(folder.path(), "good")})).await;
    let ada = Agent::start(&bus, "Ada").await;
    assert!(!ada.services.refresh().await.unwrap(), "nobody is there to ask");
    let bridge = serve(&bus, &set, &["Ada", "Bob"]).await;
    ada.knows(&["good"]).await;
    let [bob, carol, dave] =
        [Agent::start(&bus, "Bob"), Agent::start(&bus, "Carol"), Agent::start(&bus, "Dave")];
    let (bob, carol, dave) = (bob.await, carol.await, dave.await);
    for late in [&bob, &carol] {
        assert!(late.services.refresh().await.unwrap());
        late.knows(&["good"]).await;
    }

    let other = entries(json!({"other": hostile(folder.path(), "shadow")})).remove(0);
    set.add(other).await.unwrap();
    for agent in [&ada, &bob, &carol] {
        agent.knows(&["good", "other"]).await;
    }
    // The same call at the same time: only who makes it differs.
    let echo = async |agent: &Agent, message: &str| {
        let arguments = json!({"server_name": "good", "tool_name": "echo",
            "arguments": {"message": message}});
        agent.told("mcp_invoke_tool", arguments).await
    };
    for _ in 0..20 {
        let told = tokio::join!(echo(&ada, "a"), echo(&bob, "b"), echo(&carol, "c"));
        assert_eq!(told, ("a".to_owned(), "b".to_owned(), "c".to_owned()));
    }
    assert!(set.remove("other"));
    for agent in [&ada, &bob, &carol] {
        agent.knows(&["good"]).await;
    }
    // It is not named and has not asked: what is said to the others does not reach it.
    assert!(!dave.services.has_heard());
    dave.knows(&[]).await;

    // One that has gone holds nobody up.
    carol.services.close().await;
    let other = entries(json!({"third": hostile(folder.path(), "good")})).remove(0);
    set.add(other).await.unwrap();
    ada.knows(&["good", "third"]).await;
    for agent in [ada, bob, dave] {
        agent.services.close().await;
    }
    bridge.stop(Duration::ZERO).await;
}

/// A bridge that was started anew knows only the agents that it is configured for.
#[tokio::test(start_paused = true)]
async fn an_agent_asks_again_from_time_to_time() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let hear = move |_: Delivery| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Disposition::Ack)
    };
    let prefetch = NonZeroU16::new(1).unwrap();
    let refresh = TopicPattern::from(topic::TOOL_META_MCP_REFRESH);
    let subscription =
        Subscription::private("test".to_owned(), refresh, Flow::Ordered { prefetch });
    let _consumer = bus.subscribe(subscription, Arc::new(hear)).await.unwrap();
    let agent = Agent::start(&bus, "Ada").await;
    for times in 1..=3 {
        tokio::time::sleep(Duration::from_secs(301)).await;
        assert_eq!(asked.load(Ordering::Relaxed), times);
    }
    agent.services.close().await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 3, "closed, it asks no more");
}

/// A call of a tool, and what it says, or how that begins, up to a colon.
type Case = (&'static str, Value, &'static str);

fn lookups_and_calls() -> Vec<Case> {
    let echo = json!({"server_name": "good", "tool_name": "echo", "arguments": {"message": "x"}});
    vec![
        ("mcp_get_service_details", json!({}), "Missing required parameter: server_name"),
        (
            "mcp_get_service_details",
            json!({"server_name": "GOOD", "tool_name": "nothing"}),
            "error: No tool named 'nothing' found on server 'good'",
        ),
        (
            "mcp_get_service_details",
            json!({"server_name": "nobody"}),
            "error: Server 'nobody' is not connected",
        ),
        (
            "mcp_invoke_tool",
            json!({}),
            "Missing required parameter: server_name; Missing required parameter: tool_name",
        ),
        (
            "mcp_invoke_tool",
            json!({"server_name": "good"}),
            "Missing required parameter: tool_name",
        ),
        (
            "mcp_invoke_tool",
            json!({"server_name": "god", "tool_name": "echo"}),
            "tool_not_found: MCP server 'god' is not connected. Servers: Good",
        ),
        ("mcp_invoke_tool", echo.clone(), "x"),
        (
            "mcp_invoke_tool",
            json!({"server_name": "GOOD", "tool_name": "ECHO",
                "arguments": "{\"message\": \"x\"}"}),
            "x",
        ),
        (
            "mcp_invoke_tool",
            json!({"server_name": "good", "tool_name": "mcp_invoke_tool", "arguments": echo}),
            "x",
        ),
        (
            "mcp_invoke_tool",
            json!({"server_name": "good", "tool_name": "echo", "arguments": "not json"}),
            "invalid_arguments: ",
        ),
    ]
}

fn registrations() -> Vec<Case> {
    let dead = "http://127.0.0.1:1/mcp";
    vec![
        (
            "mcp_register_server",
            json!({}),
            "Missing required parameter: name; Missing required parameter: type; Missing required \
             parameter: url",
        ),
        (
            "mcp_register_server",
            json!({"name": "x"}),
            "Missing required parameter: type; Missing required parameter: url",
        ),
        (
            "mcp_register_server",
            json!({"name": "x", "type": "sse"}),
            "Missing required parameter: url",
        ),
        (
            "mcp_register_server",
            json!({"server_name": "x", "command": "python3", "arguments": "-m server"}),
            "denied: Failed to register server 'x': ",
        ),
        (
            "mcp_register_server",
            json!({"name": "dead", "url": dead}),
            "error: Failed to register server 'dead': ",
        ),
        ("mcp_unregister_server", json!({}), "Missing required parameter: server_name"),
        (
            "mcp_unregister_server",
            json!({"name": "good"}),
            "denied: Failed to remove server 'good': ",
        ),
        // What is not there is removed, as for the C# bridge.
        (
            "mcp_unregister_server",
            json!({"server_name": "nobody"}),
            "Server 'nobody' removed successfully.",
        ),
    ]
}

#[tokio::test]
async fn arguments_and_values_come_through_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"good": hostile(folder.path(), "arguments")})).await;
    let agent = Agent::start(&bus, "Ada").await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    agent.knows(&["good"]).await;
    // The doubles are such that a reader which is not exact takes for their neighbours.
    let text = concat!(
        r#"{"z":[18446744073709551615,-9223372036854775808,0,-0.0,1.0],"#,
        r#""a":[0.30000000000000004,51.248178375505404,-93.31137037688033,2.0030397744267762e-253,"#,
        r#"7.101215824554616e+260,-1.6727517818542075e+58,5e-324,1.7976931348623157e+308],"#,
        r#""m":{"y":{},"x":{"b":[],"a":[{},[[]],null,"",false]}},"":{}}"#,
    );
    let arguments: Value = serde_json::from_str(text).unwrap();
    let call = json!({"server_name": "good", "tool_name": "arguments", "arguments": arguments});
    let output = agent.invoker.invoke(call_by_agent("mcp_invoke_tool", call)).await.unwrap();
    assert_eq!(output.content.as_deref(), Some(text));
    assert_eq!(output.structured.unwrap().to_value(100), Ok(arguments));

    // More than 64 bits have is the next double in a value, and all of it in a text.
    let text = r#"{"server_name": "good", "tool_name": "arguments",
        "arguments": {"n":12345678901234567890123}}"#;
    let call: Value = serde_json::from_str(text).unwrap();
    assert_eq!(
        agent.told("mcp_invoke_tool", call.clone()).await,
        r#"{"n":1.2345678901234568e+22}"#
    );
    let written = Arguments::Text(Some(text.to_owned()));
    let call = toolbus_tools::Call { arguments: written, ..call_by_agent("mcp_invoke_tool", call) };
    let output = agent.invoker.invoke(call).await.unwrap();
    assert_eq!(output.content.as_deref(), Some(r#"{"n":12345678901234567890123}"#));
    agent.services.close().await;
    bridge.stop(Duration::ZERO).await;
}

#[tokio::test]
async fn the_five_tools_say_what_is_wrong_and_take_what_models_make_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"Good": hostile(folder.path(), "good")})).await;
    let agent = Agent::start(&bus, "Ada").await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    agent.knows(&["Good"]).await;
    for (tool, arguments, expected) in [lookups_and_calls(), registrations()].concat() {
        let told = agent.told(tool, arguments.clone()).await;
        let told = told
            .strip_prefix("invalid_arguments: Missing")
            .map_or(told.clone(), |rest| format!("Missing{rest}"));
        // What is said in detail, and not by RockBot, follows a colon.
        let is_beginning = expected.ends_with(": ") && told.starts_with(expected);
        assert!(is_beginning || told == expected, "{tool} {arguments}: {told}");
    }
    let details = json!({"server_name": "GOOD", "tool_name": "ECHO"});
    let details: Value =
        serde_json::from_str(&agent.told("mcp_get_service_details", details).await).unwrap();
    assert_eq!(details["server"]["name"], "Good");
    assert_eq!(details["tools"].as_array().map(Vec::len), Some(1), "{details}");
    assert_eq!(details["tools"][0]["parametersSchema"]["type"], "object", "{details}");
    let listed = agent.told("mcp_list_services", json!({})).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed[0]["serverName"], "Good", "{listed}");
    agent.services.close().await;
    bridge.stop(Duration::ZERO).await;
}

/// A server over HTTP that needs no token and keeps what it was asked.
fn recording_server() -> Script {
    let open = ["server/discover", "initialize", "notifications/initialized", "tools/list"];
    Script::start("oauth.py", &json!({"open": open}).to_string())
}

/// What an agent is told that registers these addresses, and then removes one.
async fn registering(
    registration: RegistrationRules,
    private_registration: PrivateAddresses,
    urls: &[String],
) -> Vec<String> {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let folder = tempfile::tempdir().unwrap();
    let mut pool = options();
    pool.private_registration = private_registration;
    let set = start_with(json!({"good": hostile(folder.path(), "good")}), pool).await;
    let bridge = serve_with(&bus, &set, &["Ada"], registration).await;
    let agent = Agent::start(&bus, "Ada").await;
    assert!(agent.services.refresh().await.unwrap());
    agent.knows(&["good"]).await;

    let mut told = Vec::new();
    for url in urls {
        let server = json!({"name": "x", "type": "http", "url": url});
        told.push(agent.told("mcp_register_server", server).await);
    }
    told.push(agent.told("mcp_unregister_server", json!({"server_name": "x"})).await);

    agent.services.close().await;
    bridge.stop(Duration::ZERO).await;
    told
}

#[tokio::test]
async fn servers_are_registered_only_where_the_operator_allows_it() {
    let server = recording_server();
    let urls = [server.url("/mcp"), format!("http://localhost:{}/mcp", server.port)];
    let check = async |rules: RegistrationRules, register: &str, unregister: &str| {
        let told = registering(rules, PrivateAddresses::Denied, &urls).await;
        let register = format!("denied: Failed to register server 'x': {register}");
        assert_eq!(told, [&*register, &*register, unregister]);
    };

    let off = "registering servers is turned off (mcp.registration)";
    let no_removing = "denied: Failed to remove server 'x': registering and removing servers is \
                       turned off (mcp.registration)";
    let removed = "Server 'x' removed successfully.";
    check(RegistrationRules::default(), off, no_removing).await;
    let programs = StdioRegistration::Allowed;
    check(RegistrationRules { programs, ..RegistrationRules::default() }, off, removed).await;

    let insecure = "only https:// addresses may be registered (mcp.registration)";
    let addresses = AddressRegistration::AllowList;
    let hosts = vec!["localhost".to_owned()];
    let listed = RegistrationRules { addresses, hosts, ..RegistrationRules::default() };
    check(listed, insecure, removed).await;

    let private = "its address is not a public one (mcp.allow_private_registration)";
    let addresses = AddressRegistration::Any;
    check(RegistrationRules { addresses, ..RegistrationRules::default() }, private, removed).await;
    assert_eq!(server.log().await, [] as [Value; 0], "nothing was asked of it");
}

/// Its tools would have the ids of those that manage servers.
#[tokio::test]
async fn no_server_is_registered_by_a_name_that_is_the_agents_own() {
    let folder = tempfile::tempdir().unwrap();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let set = start(json!({"good": hostile(folder.path(), "good")})).await;
    let bridge = serve(&bus, &set, &["Ada"]).await;
    let agent = Agent::start(&bus, "Ada").await;
    assert!(agent.services.refresh().await.unwrap());
    agent.knows(&["good"]).await;

    let server = json!({"name": "Management", "type": "http", "url": "http://127.0.0.1:9/mcp"});
    let told = agent.told("mcp_register_server", server).await;
    let expected = "error: Failed to register server 'Management': a server's name is not \
                    management or offers, in any spelling: those are the agent's own";
    assert_eq!(told, expected);

    agent.services.close().await;
    bridge.stop(Duration::ZERO).await;
}

/// A name may lead elsewhere once it has been looked at: what counts is where the connection goes.
#[tokio::test]
async fn private_addresses_are_refused_by_the_connection_too() {
    let server = recording_server();
    let urls = [server.url("/mcp"), format!("http://localhost:{}/mcp", server.port)];
    let told = registering(registration_by_address(), PrivateAddresses::Denied, &urls).await;
    let failed = "error: Failed to register server 'x': Connection failed";
    assert_eq!(told[..2], [failed, failed]);
    assert_eq!(server.log().await, [] as [Value; 0], "nothing was asked of it");

    let told = registering(registration_by_address(), PrivateAddresses::Allowed, &urls).await;
    let registered = "Server 'x' registered successfully. 4 tool(s) available.";
    assert_eq!(told[..2], [registered, registered]);
}

#[tokio::test]
async fn a_registration_is_its_agents_to_replace_or_remove() {
    let (first, second) = (recording_server(), recording_server());
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let folder = tempfile::tempdir().unwrap();
    let mut pool = options();
    pool.pins = Pins::in_folder(folder.path().join("pins")).unwrap();
    let set = start_with(json!({"good": hostile(folder.path(), "good")}), pool).await;
    let bridge = serve(&bus, &set, &["Ada", "Bob"]).await;
    let (ada, bob) = (Agent::start(&bus, "Ada").await, Agent::start(&bus, "Bob").await);
    for agent in [&ada, &bob] {
        assert!(agent.services.refresh().await.unwrap());
        agent.knows(&["good"]).await;
    }
    let register = async |agent: &Agent, server: &Script| {
        let server = json!({"name": "x", "type": "http", "url": server.url("/mcp")});
        agent.told("mcp_register_server", server).await
    };
    let remove = json!({"server_name": "x"});

    let registered = "Server 'x' registered successfully. 4 tool(s) available.";
    assert_eq!(register(&ada, &first).await, registered);
    let is_marked = |server: &str| folder.path().join(format!("pins/{server}.registered")).exists();
    assert!(is_marked("x") && !is_marked("good"), "its pins are kept apart");

    let others = "the MCP server 'x' was registered by another agent, and only that agent can";
    assert_eq!(
        register(&bob, &second).await,
        format!("denied: Failed to register server 'x': {others} replace it")
    );
    assert_eq!(
        bob.told("mcp_unregister_server", remove.clone()).await,
        format!("denied: Failed to remove server 'x': {others} remove it")
    );
    assert_eq!(second.log().await, [] as [Value; 0], "nothing was asked of it");

    assert_eq!(register(&ada, &second).await, registered);
    let removed = "Server 'x' removed successfully.";
    assert_eq!(ada.told("mcp_unregister_server", remove).await, removed);
    assert_eq!(register(&bob, &second).await, registered, "nobody's any more");

    for agent in [ada, bob] {
        agent.services.close().await;
    }
    bridge.stop(Duration::ZERO).await;
}
