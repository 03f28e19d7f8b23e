//! A bridge that demands grants: what an agent with the key may do there, and what nobody else may
//! who is on the bus, hears everything, and sends what they like.

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::sync::Notify;
use tokio::time::timeout;
use toolbus_bus::requester::Requester;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, Topic,
    TopicPattern,
};
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp_agent::{McpDirectory, ResourceSubscription, subject_of};
use toolbus_testkit::eventually;
use toolbus_tools::bus::RemoteCall;
use toolbus_tools::call::{Arguments, Call, Invocation, Outcome};
use toolbus_tools::grant::GrantPolicy;
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::invoker::ReadContext;
use toolbus_tools::{
    CallError, Executor, GrantCheck, GrantKey, Guides, Invoker, Registry, Scope, Subject, Tool,
};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{
    McpReadResourceRequest, McpRegisterServerRequest, McpRelayRequest, McpSubscribeRequest,
    McpUnregisterServerRequest,
};
use toolbus_wire::message::tool::ToolInvokeRequest;
use toolbus_wire::name::{AgentName, InstanceId, McpServerSegment};
use toolbus_wire::{ErrorCode, Execution, Message, header, message, queue, topic};

use crate::support::*;

fn key() -> GrantKey {
    GrantKey::new("the key of agents and of workers").unwrap()
}

/// An agent and a bridge with two servers that write down what they are asked.
struct Fleet {
    folder: TempDir,
    bus: Arc<dyn Bus>,
    bridge: Bridge,
    directory: McpDirectory,
    invoker: Invoker,
    eavesdropper: Eavesdropper,
}

impl Fleet {
    async fn start(grants: GrantCheck, key: Option<GrantKey>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let entry = |name: &str| {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/recording.py");
            json!({"command": "python3", "args": ["-I", script, record(folder.path(), name)]})
        };
        let set = start(json!({"files": entry("files"), "other": entry("other")})).await;

        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let eavesdropper = Eavesdropper::listen(&*bus).await;
        let (name, instance) = (AgentName::standard(), InstanceId::random());
        let requester = Requester::start(Arc::clone(&bus), name.clone(), &instance).await.unwrap();
        let registry = Arc::new(Registry::new());
        let directory = McpDirectory::start(
            &bus,
            requester,
            &instance,
            Arc::clone(&registry),
            Guides::default(),
        );
        let directory = directory.await.unwrap();
        directory.offer_directly();

        let bridge = serve(&bus, set, grants).await;
        let mut invoker = Invoker::builder(registry);
        if let Some(key) = key {
            invoker = invoker.grants(key);
        }

        let fleet = Self { folder, bus, bridge, directory, invoker: invoker.build(), eavesdropper };
        let is_there = |tool: &str| fleet.invoker.registry().find(tool).is_some();
        eventually(PATIENCE, async || {
            let is_ready = is_there("files__write") && is_there("mcp_read_resource");
            if is_ready { Ok(()) } else { Err("not announced yet") }
        })
        .await;
        fleet
    }

    /// What the servers were asked beside lists of what they have.
    fn asked(&self) -> Vec<String> {
        let of = |name: &str| {
            let text = std::fs::read_to_string(record(self.folder.path(), name));
            let text = text.unwrap_or_default();
            text.lines().map(|line| format!("{name}: {line}")).collect::<Vec<_>>()
        };
        [of("files"), of("other")].concat()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.invoker.invoke(call_by_agent(tool, arguments)).await
    }

    async fn write(&self, text: &str) -> Outcome {
        let arguments = json!({"server_name": "files", "tool_name": "write",
            "arguments": {"text": text}});
        self.call("mcp_invoke_tool", arguments).await
    }

    /// A read as front doors make it.
    async fn read<T, Fut>(
        &self,
        method: &str,
        read: impl FnOnce(ReadContext) -> Fut,
    ) -> Result<T, CallError>
    where
        Fut: Future<Output = Result<T, CallError>>,
    {
        let scope = Scope::local(AgentName::standard());
        let tool = ToolName::parse(method).unwrap();
        let call = Call::new(&scope, CallId::random(), tool, Arguments::Text(None));
        let subject = self.directory.read_subject("files", method);
        self.invoker.admit(call, subject).await?.run(read).await
    }

    /// A read of the server `files`.
    async fn relay(&self, method: &'static str, params: Value) -> Result<RawJson, CallError> {
        let params = RawJson::of(&params);
        self.read(method, |context| self.directory.relay("files", method, params, context)).await
    }

    async fn subscribe(&self) -> Result<ResourceSubscription, CallError> {
        let subscribe = |context: ReadContext| {
            self.directory.subscribe("files", vec!["a://1".to_owned()], context.permit, |_| {})
        };
        self.read("resources/subscribe", subscribe).await
    }

    /// Sends a message, as whoever has the credentials of the broker can.
    async fn send(&self, topic: &Topic, envelope: Envelope) {
        self.bus.publish(topic, envelope).await.unwrap();
    }

    async fn end(self) {
        self.directory.close().await;
        self.bridge.stop(Duration::ZERO).await;
    }
}

/// A bridge of these servers, for the agent of the fleet.
async fn serve(bus: &Arc<dyn Bus>, set: ServerPool, grants: GrantCheck) -> Bridge {
    let options = bridge::Options {
        agents: vec![AgentName::standard()],
        instance: InstanceId::random(),
        concurrency: NonZeroU16::new(8).unwrap(),
        registration: registration_by_address(),
        grants,
    };
    Bridge::start(bus, set, options).await.unwrap()
}

/// The topic that takes requests to the server `files`.
fn of_files() -> Topic {
    topic::mcp_server(&AgentName::standard(), &McpServerSegment::of("files"))
}

fn record(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.asked"))
}

/// Hears every message that there is.
struct Eavesdropper {
    heard: Arc<Mutex<Vec<(Topic, Envelope)>>>,
    _consumer: Consumer,
}

impl Eavesdropper {
    async fn listen(bus: &dyn Bus) -> Self {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        let hear = move |delivery: Delivery| {
            log.lock().push((delivery.topic, delivery.envelope));
            std::future::ready(Disposition::Ack)
        };
        let everything = TopicPattern::parse("#").unwrap();
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let subscription = Subscription::private("eavesdropper", everything, flow);
        let consumer = bus.subscribe(subscription, Arc::new(hear)).await.unwrap();
        Self { heard, _consumer: consumer }
    }

    /// The last request for this topic.
    fn last(&self, topic: &Topic) -> Envelope {
        let heard = self.heard.lock();
        let found = heard.iter().rev().find(|(at, _)| at == topic);
        found.map(|(_, envelope)| envelope.clone()).expect("a request")
    }

    /// The last request to a bridge of this type: bridges are asked for details all the time.
    fn last_management<M: Message>(&self) -> Envelope {
        let heard = self.heard.lock();
        let is_wanted = |(at, envelope): &&(Topic, Envelope)| {
            *at == topic::MCP_MANAGE && message::is::<M>(envelope)
        };
        let found = heard.iter().rev().find(is_wanted);
        found.map(|(_, envelope)| envelope.clone()).expect("a request")
    }

    fn count(&self, counts: impl Fn(&Envelope) -> bool) -> usize {
        self.heard.lock().iter().filter(|(_, envelope)| counts(envelope)).count()
    }

    fn denials(&self) -> usize {
        self.count(|envelope| text(envelope).contains("\"denied\""))
    }

    async fn wait_for_denials(&self, count: usize, why: &str) {
        eventually(PATIENCE, async || {
            let heard = self.denials();
            if heard >= count { Ok(()) } else { Err(format!("{why}: {heard} of {count}")) }
        })
        .await;
        assert_eq!(self.denials(), count, "{why}");
    }
}

fn text(envelope: &Envelope) -> String {
    String::from_utf8_lossy(&envelope.body).into_owned()
}

fn requires() -> GrantCheck {
    GrantCheck::new("bridge", GrantPolicy::Require, key())
}

/// Everything that an agent asks of a bridge by a tool, but for lists of what is announced.
fn calls() -> Vec<(&'static str, Value)> {
    let exact = json!({"server_name": "files", "tool_name": "write", "arguments": {"n": 1}});
    vec![
        ("mcp_invoke_tool", exact.clone()),
        (
            "mcp_invoke_tool",
            json!({"server_name": "FILES", "tool_name": "Write", "arguments": "{\"n\": 2}"}),
        ),
        (
            "mcp_invoke_tool",
            json!({"server_name": "x", "tool_name": "mcp_invoke_tool", "arguments": exact}),
        ),
        ("files__write", json!({"n": 3})),
        ("mcp_get_prompt", json!({"server_name": "Files", "prompt_name": "greet"})),
        ("mcp_list_resources", json!({"server_name": "files", "cursor": "2"})),
        ("mcp_read_resource", json!({"server_name": "FILES", "uri": "a://1"})),
        ("mcp_unregister_server", json!({"server_name": "nobody"})),
    ]
}

fn registration() -> (&'static str, Value) {
    ("mcp_register_server", json!({"name": "more", "type": "http", "url": "http://127.0.0.1:1/"}))
}

#[tokio::test]
async fn an_agent_with_the_key_does_all_that_it_did_before() {
    let fleet = Fleet::start(requires(), Some(key())).await;
    for (tool, arguments) in calls() {
        let outcome = fleet.call(tool, arguments.clone()).await;
        let output = outcome.unwrap_or_else(|error| panic!("{tool} {arguments}: {error}"));
        assert!(!output.is_error, "{tool} {arguments}: {output:?}");
    }
    // It comes as far as to try.
    let (tool, arguments) = registration();
    let output = fleet.call(tool, arguments).await.unwrap();
    let expected = "Failed to register server 'more': Connection failed";
    assert_eq!(output.content.as_deref(), Some(expected));
    // A name that nobody has, spelled as it was said.
    let unknown = json!({"server_name": "Nobody", "tool_name": "x y"});
    let error = fleet.call("mcp_invoke_tool", unknown).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound);

    fleet.relay("prompts/get", json!({"name": "greet", "arguments": {}})).await.unwrap();
    fleet.relay("resources/list", json!({"cursor": "3"})).await.unwrap();
    fleet.relay("resources/read", json!({"uri": "a://2"})).await.unwrap();
    let argument = json!({"name": "who", "value": ""});
    let begun = json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": argument});
    fleet.relay("completion/complete", begun).await.unwrap();
    drop(fleet.subscribe().await.unwrap());

    let expected = [
        "tools/call \"write\" {\"n\": 1}",
        "tools/call \"write\" {\"n\": 2}",
        "tools/call \"write\" {\"n\": 1}",
        "tools/call \"write\" {\"n\": 3}",
        "prompts/get \"greet\" {}",
        "resources/list \"2\"",
        "resources/read \"a://1\"",
        "prompts/get \"greet\" {}",
        "resources/list \"3\"",
        "resources/read \"a://2\"",
        "completion/complete",
        "resources/subscribe \"a://1\"",
    ];
    let asked = fleet.asked();
    for (expected, asked) in expected.iter().zip(&asked) {
        assert!(asked.starts_with(&format!("files: {expected}")), "{asked} and not {expected}");
    }
    assert_eq!(asked.len(), expected.len(), "{asked:?}");
    assert_eq!(fleet.eavesdropper.denials(), 0);
    fleet.end().await;
}

/// A server's title is its own word: what the gates have let pass is about the name alone.
#[tokio::test]
async fn a_read_is_of_the_server_that_the_gates_have_seen() {
    for has_key in [true, false] {
        let grants = if has_key { requires() } else { GrantCheck::off() };
        let fleet = Fleet::start(grants, has_key.then(key)).await;
        let read = |server: &str| json!({"server_name": server, "uri": "a://1"});
        fleet.call("mcp_read_resource", read("FI-les")).await.unwrap();
        let asked = ["files: resources/read \"a://1\""];
        assert_eq!(fleet.asked(), asked);
        let request = fleet.eavesdropper.last_management::<McpReadResourceRequest>();
        assert_eq!(request.headers.get(header::EXACT), Some("1"));
        assert!(text(&request).contains("\"files\""), "{}", text(&request));

        let title = "Recorder of files";
        let output = fleet.call("mcp_read_resource", read(title)).await.unwrap();
        let told = output.content.unwrap();
        assert!(told.starts_with("MCP server 'recorder of files' is not connected"), "{told}");
        let subscribe = async |context: ReadContext| {
            let uris = vec!["a://1".to_owned()];
            fleet.directory.subscribe(title, uris, context.permit, |_| {}).await
        };
        let call = Call::new(
            &Scope::local(AgentName::standard()),
            CallId::random(),
            ToolName::parse("resources/subscribe").unwrap(),
            Arguments::Text(None),
        );
        let subject = fleet.directory.read_subject(title, "resources/subscribe");
        let admitted = fleet.invoker.admit(call, subject).await;
        let error = admitted.unwrap().run(subscribe).await.err().unwrap();
        assert_eq!(error.code, ErrorCode::ToolNotFound, "{error}");
        assert_eq!(fleet.asked(), asked);

        // Of a peer that knows nothing of either, names are forgiven as before.
        if !has_key {
            let strange = with_body(&request, "\"files\"", "\"fi-les\"");
            let strange = without(&strange, header::EXACT).with_correlation_id("strange");
            let strange = Envelope { message_id: "strange".to_owned(), ..strange };
            fleet.send(&topic::MCP_MANAGE, strange).await;
            eventually(PATIENCE, async || match fleet.asked().len() {
                2 => Ok(()),
                count => Err(format!("{count} requests")),
            })
            .await;
        }
        fleet.end().await;
    }
}

#[tokio::test]
async fn an_agent_without_the_key_learns_what_there_is_and_runs_nothing() {
    let other = GrantKey::new("another key, as long as the one.").unwrap();
    for key in [None, Some(other)] {
        let fleet = Fleet::start(requires(), key).await;
        let details = json!({"server_name": "files"});
        let details = fleet.call("mcp_get_service_details", details).await.unwrap();
        assert!(details.content.unwrap().contains("\"write\""));
        for (tool, arguments) in [calls(), vec![registration()]].concat() {
            let error = fleet.call(tool, arguments.clone()).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied, "{tool} {arguments}: {error}");
            assert_eq!(error.execution, Execution::NotStarted, "{tool} {arguments}");
            assert!(!error.is_retryable);
            let expected = "this bridge requires a grant: ";
            assert!(error.message.contains(expected), "{tool} {arguments}: {error}");
        }
        let read = fleet.relay("resources/read", json!({"uri": "a://1"})).await;
        assert_eq!(read.unwrap_err().code, ErrorCode::Denied);
        assert_eq!(fleet.subscribe().await.err().map(|e| e.code), Some(ErrorCode::Denied));
        assert_eq!(fleet.asked(), [""; 0]);
        assert_eq!(fleet.bridge.servers().list().len(), 2);
        fleet.end().await;
    }
}

/// The same request with something of its body replaced.
fn with_body(request: &Envelope, from: &str, to: &str) -> Envelope {
    let body = text(request);
    assert!(body.contains(from), "{body}");
    Envelope { body: body.replace(from, to).into(), ..request.clone() }
}

fn without(request: &Envelope, name: &str) -> Envelope {
    let mut headers = header::Headers::new();
    for (other, value) in request.headers.iter().filter(|(other, _)| *other != name) {
        headers.set(other.to_owned(), value);
    }
    Envelope { headers, ..request.clone() }
}

/// Another call of a stranger, with a grant that was heard.
fn another(heard: &Envelope) -> Envelope {
    let body = ToolInvokeRequest {
        tool_call_id: "mine".to_owned(),
        tool_name: "write".to_owned(),
        arguments: Some("{\"text\":\"mine\"}".to_owned()),
        session_id: None,
    };
    Envelope { headers: heard.headers.clone(), ..Envelope::of(&body, "RockBot") }
        .with_correlation_id("mine")
        .with_reply_to(heard.reply_to.clone().unwrap())
}

#[tokio::test]
async fn a_grant_that_was_heard_is_good_for_nothing_else() {
    let fleet = Fleet::start(requires(), Some(key())).await;
    fleet.write("one").await.unwrap();
    let heard = fleet.eavesdropper.last(&of_files());
    assert!(heard.headers.get(header::GRANT).is_some());
    let asked = fleet.asked();
    assert_eq!(asked.len(), 1);

    // Copies of the call itself. A refusal would go where its own answer goes, so they get none.
    let mine = Topic::parse("mine").unwrap();
    let copies = [
        ("no grant", without(&heard, header::GRANT)),
        ("an empty one", heard.clone().with_header(header::GRANT, "")),
        ("no text of a grant", heard.clone().with_header(header::GRANT, "1.x.\u{1f980}.")),
        ("another server", heard.clone().with_header(header::MCP_SERVER, "other")),
        ("another spelling", heard.clone().with_header(header::MCP_SERVER, "FILES")),
        ("no server", without(&heard, header::MCP_SERVER)),
        ("names that are forgiven", without(&heard, header::EXACT)),
        ("more time", heard.clone().with_header(header::DEADLINE_MS, "99999999999999")),
        ("the answer elsewhere", heard.clone().with_reply_to(mine)),
        ("questions elsewhere", heard.clone().with_header(header::ASK_TO, "mine")),
    ];
    // Other calls, with what was heard.
    let others = [
        ("other arguments", with_body(&heard, "one", "two")),
        ("another tool", with_body(&heard, "\"write\"", "\"erase\"")),
        ("another call id", with_body(&heard, "\"toolCallId\":\"", "\"toolCallId\":\"0")),
        ("another conversation", heard.clone().with_correlation_id("mine")),
        ("another source", Envelope { source: "Eve".to_owned(), ..heard.clone() }),
        ("another call", another(&heard)),
    ];

    for (why, copy) in copies {
        fleet.send(&of_files(), copy).await;
        assert_eq!(fleet.asked(), asked, "{why}");
    }
    for (number, (why, forgery)) in others.into_iter().enumerate() {
        // Nobody listens where some of the answers go, but the eavesdropper.
        fleet.send(&of_files(), forgery).await;
        fleet.eavesdropper.wait_for_denials(number + 1, why).await;
        assert_eq!(fleet.asked(), asked, "{why}");
    }

    // As it was, it is the same call: its outcome is told again, and nothing runs.
    let told = || fleet.eavesdropper.count(|envelope| text(envelope).contains("written"));
    let before = told();
    fleet.send(&of_files(), heard).await;
    eventually(PATIENCE, async || if told() > before { Ok(()) } else { Err("no answer yet") })
        .await;
    assert_eq!(fleet.asked(), asked);

    // And the agent goes on.
    fleet.write("two").await.unwrap();
    assert_eq!(fleet.asked().len(), 2);
    fleet.end().await;
}

#[tokio::test]
async fn nobody_manages_servers_with_the_grant_of_another_request() {
    let fleet = Fleet::start(requires(), Some(key())).await;
    fleet.write("one").await.unwrap();
    let call = fleet.eavesdropper.last(&of_files());
    let unregister = json!({"server_name": "nobody"});
    fleet.call("mcp_unregister_server", unregister).await.unwrap();
    let unregistration = fleet.eavesdropper.last_management::<McpUnregisterServerRequest>();
    let asked = fleet.asked();

    let server_name = || "files".to_owned();
    let register = McpRegisterServerRequest {
        server_name: "mine".to_owned(),
        kind: "http".to_owned(),
        url: Some("http://127.0.0.1:1/".to_owned()),
        ..McpRegisterServerRequest::default()
    };
    let read = McpReadResourceRequest { server_name: server_name(), uri: "a://1".to_owned() };
    let subscribe = McpSubscribeRequest { server_name: server_name(), uris: vec!["a://1".into()] };
    let relay = McpRelayRequest {
        tool_call_id: "1".to_owned(),
        server_name: server_name(),
        method: "tools/call".to_owned(),
        params: RawJson::of(&json!({"name": "write", "arguments": {"n": 5}})),
    };
    let of_files = of_files();
    let bodies = [
        (&topic::MCP_MANAGE, Envelope::of(&register, "RockBot")),
        (
            &topic::MCP_MANAGE,
            Envelope::of(&McpUnregisterServerRequest { server_name: server_name() }, "RockBot"),
        ),
        (&topic::MCP_MANAGE, Envelope::of(&read, "RockBot")),
        (&of_files, Envelope::of(&subscribe, "RockBot")),
        (&of_files, Envelope::of(&relay, "RockBot")),
    ];
    let mut denials = 0;
    for (topic, request) in bodies {
        for heard in [&call, &unregistration] {
            // All that the bridge looks at beside the body is what it was.
            let forgery = Envelope {
                message_id: heard.message_id.clone(),
                headers: heard.headers.clone(),
                correlation_id: heard.correlation_id.clone(),
                reply_to: heard.reply_to.clone(),
                ..request.clone()
            };
            denials += 1;
            fleet.send(topic, forgery).await;
            fleet.eavesdropper.wait_for_denials(denials, &request.message_type).await;
        }
    }
    assert_eq!(fleet.asked(), asked);
    fleet.end().await;
}

/// Lets a bridge by hand take a request and die with it.
async fn take_and_die(bus: &dyn Bus, subscription: Subscription, topic: Topic, request: Envelope) {
    let taken = Arc::new(Notify::new());
    let take = Arc::clone(&taken);
    let handler = move |_: Delivery| {
        take.notify_one();
        std::future::pending()
    };

    let dying = bus.subscribe(subscription, Arc::new(handler)).await.unwrap();
    bus.publish(&topic, request).await.unwrap();
    timeout(PATIENCE, taken.notified()).await.unwrap();
    dying.kill().await;
}

#[tokio::test]
async fn a_refused_request_that_another_bridge_may_have_started_has_an_unknown_outcome() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let eavesdropper = Eavesdropper::listen(&*bus).await;
    let agent = AgentName::standard();
    let register = McpRegisterServerRequest {
        server_name: "more".to_owned(),
        kind: "http".to_owned(),
        url: Some("http://127.0.0.1:1/".to_owned()),
        ..McpRegisterServerRequest::default()
    };
    let subscribe =
        McpSubscribeRequest { server_name: "files".to_owned(), uris: vec!["a://1".to_owned()] };
    let answers = Topic::parse("answers").unwrap();
    let sent = |envelope: Envelope| envelope.with_reply_to(answers.clone());

    let request = sent(Envelope::of(&register, "RockBot"));
    let pattern = |topic: &Topic| TopicPattern::from(topic.clone());
    let flow = Flow::Concurrent(NonZeroU16::MIN);
    let queue = queue::mcp_bridge_manage(&agent);
    let queue = Subscription::durable(queue, pattern(&topic::MCP_MANAGE), flow);
    take_and_die(&*bus, queue, topic::MCP_MANAGE, request).await;
    let request = sent(Envelope::of(&subscribe, "RockBot"));
    let queue = Subscription::single_active(of_files().as_str(), pattern(&of_files()), flow);
    take_and_die(&*bus, queue, of_files(), request).await;
    let files = json!({"files": {"command": "/nowhere"}});
    let bridge = serve(&bus, start(files).await, requires()).await;

    eventually(PATIENCE, async || {
        let unknown = eavesdropper.count(|envelope| text(envelope).contains("\"outcome_unknown\""));
        if unknown == 2 { Ok(()) } else { Err(format!("{unknown} of 2")) }
    })
    .await;
    let told = text(&eavesdropper.last(&answers));
    assert!(told.contains("another bridge may have started the request"), "{told}");
    assert!(told.contains("this bridge requires a grant"), "{told}");
    assert_eq!(eavesdropper.denials(), 0);
    bridge.stop(Duration::ZERO).await;
}

/// The gates let one thing pass, and the agent asks for another: a mistake of ours, which the
/// bridge does not share.
#[tokio::test]
async fn a_permit_is_for_what_has_passed_the_gates() {
    let fleet = Fleet::start(requires(), Some(key())).await;
    let read = |server: &'static str| {
        let params = RawJson::of(&json!({"uri": "a://1"}));
        let directory = &fleet.directory;
        move |context| directory.relay(server, "resources/read", params, context)
    };
    let another_method = fleet.read("prompts/get", read("files")).await;
    assert_eq!(another_method.unwrap_err().code, ErrorCode::Denied);
    let another_server = fleet.read("resources/read", read("other")).await;
    assert_eq!(another_server.unwrap_err().code, ErrorCode::Denied);
    assert_eq!(fleet.asked(), [""; 0]);
    fleet.end().await;
}

/// Whoever else has the key, and does not say that its names are exact.
struct Strange(Requester);

impl Executor for Strange {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let remote = RemoteCall {
                may_repeat: false,
                workers: None,
                topic: &of_files(),
                tool: "WRITE",
                params: RawJson::of(&json!({"arguments": {}})),
                session: None,
                headers: header::Headers::new().with(header::MCP_SERVER, "files"),
                permit: &call.permit,
                context: call.context,
            };
            remote.send(&self.0).await
        })
    }

    fn resolve(&self, _: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        Ok(Some(subject_of(None, "files", "WRITE")))
    }
}

#[tokio::test]
async fn a_granted_name_is_taken_to_the_letter() {
    let fleet = Fleet::start(requires(), Some(key())).await;
    let name = AgentName::parse("Strange").unwrap();
    let requester = Requester::start(Arc::clone(&fleet.bus), name, &InstanceId::random()).await;
    let strange = Strange(requester.unwrap());
    fleet.invoker.registry().register(Tool::new("strange", "", "test"), strange).unwrap();

    let error = fleet.call("strange", json!({})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound, "{error:?}");
    assert!(fleet.asked().is_empty(), "it is not taken for the tool \"write\"");
    fleet.end().await;
}

#[tokio::test]
async fn a_bridge_that_requires_none_takes_calls_without_and_refuses_wrong_ones() {
    let checks = GrantCheck::new("bridge", GrantPolicy::CheckPresent, key());
    let fleet = Fleet::start(checks, None).await;
    fleet.write("one").await.unwrap();
    assert_eq!(fleet.asked().len(), 1);
    let heard = fleet.eavesdropper.last(&of_files());
    assert_eq!(heard.headers.get(header::GRANT), None);

    // Of a peer that knows nothing of grants names are forgiven as before.
    let strange = without(&without(&heard, header::EXACT), header::MCP_SERVER);
    let strange = with_body(&strange, "\"write\"", "\"WRITE\"").with_correlation_id("strange");
    let strange = strange.with_header(header::MCP_SERVER, "Files");
    fleet.send(&topic::TOOL_INVOKE_MCP, strange).await;
    eventually(PATIENCE, async || {
        let asked = fleet.asked();
        if asked.len() == 2 { Ok(()) } else { Err(format!("{asked:?}")) }
    })
    .await;

    let wrong = heard.with_header(header::GRANT, "1.2.YQ.YQ").with_correlation_id("wrong");
    fleet.send(&topic::TOOL_INVOKE_MCP, wrong).await;
    fleet.eavesdropper.wait_for_denials(1, "a wrong grant").await;
    assert_eq!(fleet.asked().len(), 2);
    fleet.end().await;
}
