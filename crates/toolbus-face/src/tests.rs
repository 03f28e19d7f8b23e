use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use axum::http::{Request, StatusCode};
use serde_json::{Value, json};
use toolbus_bus::requester::Requester;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_testkit::memory::peak_bytes;
use toolbus_tools::call::Invocation;
use toolbus_tools::id::{SessionId, ToolId};
use toolbus_tools::registry::{self, Provider};
use toolbus_tools::{Guides, Output, Registry, Scope, Tool};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsResponse, McpServerSummary, McpServersIndexed, McpToolDetails,
};
use toolbus_wire::name::InstanceId;
use toolbus_wire::topic;
use tower::ServiceExt as _;

use super::*;
use crate::offer::Offer;

mod paths;
mod tokens;

const SECOND: Duration = Duration::from_secs(1);

/// The agent of a face, on a bus where a bridge has announced the server `notes` and gone.
async fn agent() -> FaceDeps {
    agent_on(&(Arc::new(MemoryBus::new()) as Arc<dyn Bus>)).await
}

/// The same on this bus.
async fn agent_on(bus: &Arc<dyn Bus>) -> FaceDeps {
    let (agent, instance) = (AgentName::standard(), InstanceId::random());
    let requester = Requester::start(Arc::clone(bus), agent.clone(), &instance).await.unwrap();
    let registry = Arc::new(Registry::new());
    let guides = Guides::default();
    let directory =
        McpDirectory::start(bus, requester, &instance, Arc::clone(&registry), guides).await;
    let directory = directory.unwrap();

    let notes = McpServerSummary {
        server_name: "notes".to_owned(),
        tool_count: 2,
        tool_names: vec!["add".to_owned(), "erase".to_owned()],
        prompt_count: Some(1),
        ..Default::default()
    };
    let indexed = McpServersIndexed { servers: vec![notes], ..Default::default() };
    let announcement = Envelope::of(&indexed, "bridge");
    bus.publish(&topic::tool_meta_mcp(&agent), announcement).await.unwrap();
    let known = directory.until(|servers| !servers.is_empty());
    tokio::time::timeout(SECOND, known).await.unwrap();
    FaceDeps { agent, invoker: Invoker::new(registry), directory }
}

/// Answers for the server `notes`, which has the tools `add` and `erase`, and a prompt.
async fn serve_notes(bus: &Arc<dyn Bus>) -> Consumer {
    let bridge = Arc::downgrade(bus);
    let handle = move |delivery: Delivery| {
        let bridge = bridge.clone();
        async move {
            let tool = |name: &str| McpToolDetails { name: name.to_owned(), ..Default::default() };
            let details = McpGetServiceDetailsResponse {
                server_name: "notes".to_owned(),
                tools: vec![tool("add"), tool("erase")],
                implementation_name: Some("notes-server".to_owned()),
                version: Some("1.2.3".to_owned()),
                website_url: Some("https://notes.example".to_owned()),
                instructions: Some("Add before you erase.".to_owned()),
                prompts: Some(vec![RawJson::of(&json!({"name": "review"}))]),
                ..Default::default()
            };
            let Envelope { correlation_id, reply_to, .. } = delivery.envelope;
            let reply =
                Envelope::of(&details, "bridge").with_correlation_id(correlation_id.unwrap());
            // Whoever asked may have gone.
            if let Some(bus) = bridge.upgrade() {
                let _ = bus.publish(&reply_to.unwrap(), reply).await;
            }
            Disposition::Ack
        }
    };
    let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
    let topic = TopicPattern::from(topic::MCP_MANAGE);
    let subscription = Subscription::private("bridge", topic, flow);
    bus.subscribe(subscription, Arc::new(handle)).await.unwrap()
}

/// An agent whose bridge is there. It has a direct tool of `notes` too.
async fn agent_with_bridge() -> (FaceDeps, Consumer, Provider) {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let agent = agent_on(&bus).await;
    let bridge = serve_notes(&bus).await;
    let provider = agent.invoker.registry().provider("mcp:notes");
    let run = |_| std::future::ready(Ok(Output::text("ran")));
    let offer = registry::Offer::new(Tool::new("notes__erase", "", "mcp:notes"), run);
    let offer = offer.with_identity(ToolId::of("mcp:notes", "erase"), None);
    assert!(provider.publish(vec![offer]).is_empty());
    (agent, bridge, provider)
}

/// Where requests of this machine come from, as a server says it.
fn here() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 40_000))
}

fn view_without(pattern: &str) -> View {
    View::all().without([pattern])
}

fn face_seeing(view: View, agent: FaceDeps) -> Face {
    Face::new(&FaceSettings { view, ..FaceSettings::default() }, agent)
}

/// The names in a list of tools.
fn names(listed: &Value) -> Vec<&str> {
    let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_server_introduces_itself_and_the_agent_does_elsewhere() {
    let (agent, bridge, _provider) = agent_with_bridge().await;
    let face = face_seeing(View::all(), agent.clone());
    let discovered = async |face, path| {
        let discovered = ask(face, path, "server/discover").await;
        let result = &discovered["result"];
        let program = &result["_meta"]["io.modelcontextprotocol/serverInfo"];
        (program.clone(), result["instructions"].clone())
    };

    let (program, instructions) = discovered(&face, "/mcp/notes").await;
    let expected =
        json!({"name": "notes-server", "version": "1.2.3", "websiteUrl": "https://notes.example"});
    assert_eq!((program, instructions), (expected, json!("Add before you erase.")));
    let (program, instructions) = discovered(&face, "/mcp").await;
    let expected = "These are the tools of the agent RockBot, run by Toolbus. Their groups: mcp. \
                    Tools of MCP servers are called by mcp_invoke_tool; ";
    assert_eq!(program["name"], "toolbus");
    assert!(instructions.as_str().unwrap().starts_with(expected), "{instructions}");

    // Without a bridge to say it, a path has our own words.
    bridge.stop(SECOND).await;
    let (program, instructions) = discovered(&face, "/mcp/notes").await;
    assert_eq!((&program["title"], instructions), (&json!("notes, by Toolbus"), Value::Null));
}

#[tokio::test]
async fn clients_are_listed_and_let_call_what_their_view_sees() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let open = face_seeing(View::all(), agent.clone());
    assert_eq!(names(&ask(&open, "/mcp/notes", "tools/list").await), ["add", "erase"]);
    assert!(names(&ask(&open, "/mcp", "tools/list").await).contains(&"notes__erase"));
    let called = call(&open, "/mcp", "notes__erase").await;
    assert_eq!(called["result"]["content"][0]["text"], "ran", "{called}");

    let face = face_seeing(view_without("mcp:notes/erase"), agent);
    assert_eq!(names(&ask(&face, "/mcp/notes", "tools/list").await), ["add"]);
    assert!(!names(&ask(&face, "/mcp", "tools/list").await).contains(&"notes__erase"));
    for (path, hidden) in [("/mcp/notes", "erase"), ("/mcp", "notes__erase")] {
        // In the words for what is not there.
        let refused = call(&face, path, hidden).await;
        let absent = call(&face, path, "nothing").await;
        let expected = absent["error"]["message"].as_str().unwrap().replace("nothing", hidden);
        assert_eq!(refused["error"]["message"], expected, "{refused}");
        assert_eq!(refused["error"]["code"], absent["error"]["code"], "{refused}");
    }
}

/// A client calls by name, which such a tool does not answer.
#[tokio::test]
async fn tools_that_a_models_provider_runs_are_not_listed() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let hosted = agent.invoker.registry().provider("hosted");
    let specs = toolbus_tools::ProviderSpecs::default();
    let tool = Tool::new("web_search", "", "hosted").hosted_by_provider(specs);
    assert!(hosted.publish(vec![registry::Offer::hosted(tool)]).is_empty());

    let face = face_seeing(View::all(), agent);
    let listed = ask(&face, "/mcp", "tools/list").await;
    assert!(!names(&listed).contains(&"web_search"), "{listed}");
    let called = call(&face, "/mcp", "web_search").await;
    assert!(called.to_string().contains("is run by the model's provider"), "{called}");
}

/// Every client of the endpoint only claims its name.
#[tokio::test]
async fn tools_that_are_there_for_others_are_neither_listed_nor_called() {
    let agent = agent().await;
    let local = toolbus_tools::Principal::local();
    let local_alone = toolbus_tools::Audience::only(move |principal| *principal == local);
    let run = |_: Invocation| std::future::ready(Ok(Output::text("a mail")));
    let mail = Tool::new("read_mail", "", "mail").read_only().for_audience(local_alone);
    agent.invoker.registry().register(mail, run).unwrap();
    agent.invoker.registry().register(Tool::new("ping", "", "test"), run).unwrap();

    let face = face_seeing(View::all(), agent);
    let listed = ask(&face, "/mcp", "tools/list").await;
    assert!(names(&listed).contains(&"ping"), "{listed}");
    assert!(!names(&listed).contains(&"read_mail"), "{listed}");
    let refused = call(&face, "/mcp", "read_mail").await;
    let absent = call(&face, "/mcp", "nothing").await;
    let expected = absent["error"]["message"].as_str().unwrap().replace("nothing", "read_mail");
    assert_eq!(refused["error"]["message"], expected, "{refused}");
}

/// One client asks for the list, and what it sees is nobody else's.
#[tokio::test]
async fn clients_of_one_path_each_see_their_own_part_of_the_list() {
    let (agent, bridge, _provider) = agent_with_bridge().await;
    let scope = |view| {
        let principal = toolbus_tools::Principal::claimed("test");
        let scope = Scope::new(toolbus_tools::Door::Mcp, principal, agent.agent.clone());
        Arc::new(scope.with_view(view))
    };
    let (narrow, wide) = (scope(view_without("mcp:notes/erase")), scope(View::all()));
    let offer = Offer::of_server(agent.clone(), "notes".to_owned());
    assert_eq!(offer.tools(&narrow).await.unwrap().len(), 1);
    bridge.stop(SECOND).await;

    // From what was listed for the other.
    assert!(offer.knows_tool(&wide, "erase") && offer.known_tool(&wide, "erase").is_some());
    let erase = async |scope| offer.resolve_call(scope, "erase".into(), json!({})).await;
    let target = erase(&wide).await.unwrap().expect("a target");
    let arguments =
        json!({"server_name": "notes", "tool_name": "erase", "arguments": {}, "exact": true});
    assert_eq!(target.arguments, arguments, "it is a call of this server and of no other");
    assert!(!offer.knows_tool(&narrow, "erase") && offer.known_tool(&narrow, "erase").is_none());
    assert!(offer.knows_tool(&narrow, "add"));
    assert!(erase(&narrow).await.unwrap().is_none());

    let own = Offer::of_agent(agent);
    assert!(own.knows_tool(&wide, "notes__erase"));
    assert!(!own.knows_tool(&narrow, "notes__erase"));
    assert!(own.known_tool(&narrow, "notes__erase").is_none());
}

#[tokio::test]
async fn a_server_that_a_view_does_not_see_is_mounted_nowhere() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let status = async |view| {
        let face = face_seeing(view, agent.clone());
        let request = newer_request("/mcp/notes", "tools/list", json!({}));
        face.router().oneshot(request).await.unwrap().status()
    };
    assert_eq!(status(View::all()).await, StatusCode::OK);
    assert_eq!(status(view_without("mcp:notes/*")).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn prompts_are_there_for_clients_that_see_them() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let prompts =
        async |view| ask(&face_seeing(view, agent.clone()), "/mcp/notes", "prompts/list").await;
    let listed = prompts(View::all()).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "review", "{listed}");
    let hidden = prompts(view_without("mcp:notes/prompts/*")).await;
    assert_eq!(hidden["error"]["code"], -32601, "{hidden}");
    // What is announced is seen, and the list of it is not.
    let refused = prompts(view_without("mcp:notes/prompts/list")).await;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("tool_not_found: "), "{refused}");
}

/// What a client of the newer era is answered.
async fn ask(face: &Face, path: &str, method: &str) -> Value {
    ask_with(face, path, method, json!({})).await
}

/// What it is answered to a call of this tool.
async fn call(face: &Face, path: &str, tool: &str) -> Value {
    ask_with(face, path, "tools/call", json!({"name": tool, "arguments": {}})).await
}

/// A body of many small values is refused before it is read: read, each of them would take fifty
/// times its bytes.
#[tokio::test]
async fn a_body_of_too_many_values_is_refused_in_little_memory() {
    let face = face_seeing(View::all(), agent().await);
    let zeros = "0,".repeat((limits::BODY_BYTES_MAX - 1_000) / 2);
    let requests = ["initialize", "tools/call", "server/discover"].map(|method| {
        let body = format!(
            r#"{{"jsonrpc": "2.0", "id": 1, "method": "{method}", "params": {{"x": [{zeros}0]}}}}"#
        );
        let request = Request::post("/mcp").extension(here()).header(HOST, "localhost");
        let request = request.header(ACCEPT, "application/json, text/event-stream");
        request.header(CONTENT_TYPE, "application/json").body(Body::from(body)).unwrap()
    });
    drop(zeros);

    let before = peak_bytes();
    for request in requests {
        let response = face.router().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
    let grown = peak_bytes() - before;
    assert!(grown <= 4 * limits::BODY_BYTES_MAX as u64, "{} MiB more", grown >> 20);
}

fn newer_request(path: &str, method: &str, mut params: Value) -> Request<Body> {
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    params["_meta"] = meta;
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = Request::post(path)
        .extension(here())
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method);
    let request = if name.is_empty() { request } else { request.header("mcp-name", name) };
    request.body(Body::from(body.to_string())).unwrap()
}

async fn ask_with(face: &Face, path: &str, method: &str, params: Value) -> Value {
    let request = newer_request(path, method, params);
    let response = face.router().oneshot(request).await.unwrap();
    answer_in(response.into_body()).await
}

/// The answer to the request 1.
async fn answer_in(body: Body) -> Value {
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let lines = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
    let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.find(|message| message["id"] == 1).unwrap_or_else(|| panic!("{text}"))
}

/// The tools of a server are asked for over the bus, which is as much work as a call.
#[tokio::test]
async fn a_list_that_is_asked_for_over_the_bus_takes_a_slot() {
    let face = Face::new(&FaceSettings::default(), agent().await);
    let all: Vec<_> = (0..CALLS_MAX).map(|_| face.calls.try_take().unwrap()).collect();
    let refused = ask(&face, "/mcp/notes", "tools/list").await;
    assert_eq!(refused["error"]["message"], "busy: too many calls are running", "{refused}");

    // The agent's own are known here.
    let listed = ask(&face, "/mcp", "tools/list").await;
    assert!(listed["result"]["tools"].is_array(), "{listed}");
    drop(all);
    let refused = ask(&face, "/mcp/notes", "tools/list").await;
    let message = refused["error"]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("unroutable: "), "the bridge is gone: {refused}");
    assert!(face.calls.try_take().is_some());
    face.drain(SECOND).await;
    face.close().await;
}

/// Any change of the registry is one for clients, whoever made it.
#[tokio::test]
async fn a_tool_that_no_bridge_has_announced_changes_the_list() {
    let agent = agent().await;
    let offer = Offer::of_agent(agent.clone());
    let known = offer.lists();
    let registering = async {
        let registry = agent.invoker.registry();
        let run = |_| std::future::ready(Ok(Output::text("")));
        registry.register(Tool::new("new", "", "a toolkit"), run).unwrap();
    };
    let changed = async { tokio::join!(offer.changed_lists(known), registering).0 };
    let changed = tokio::time::timeout(SECOND, changed).await.expect("it is told");
    assert_ne!(changed, known);
    assert_eq!(changed, offer.lists());
}

/// A client of the older era, which has a session from its handshake on.
struct SessionClient<'a> {
    face: &'a Face,
    session: String,
}

impl<'a> SessionClient<'a> {
    async fn connect(face: &'a Face) -> Self {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": ERA, "capabilities": {}, "clientInfo": client});
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
        let response = face.router().oneshot(post(None, &hello)).await.unwrap();
        let session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        answer_in(response.into_body()).await;

        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        face.router().oneshot(post(Some(&session), &ready)).await.unwrap();
        Self { face, session }
    }

    /// The text that a tool answers with.
    async fn call(&self, tool: &str) -> String {
        let params = json!({"name": tool, "arguments": {}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let response = self.face.router().oneshot(post(Some(&self.session), &call)).await.unwrap();
        let answer = answer_in(response.into_body()).await;
        answer["result"]["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

/// The protocol of [`SessionClient`].
const ERA: &str = "2025-11-25";

fn post(session: Option<&str>, body: &Value) -> Request<Body> {
    let request = Request::post("/mcp")
        .extension(here())
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", ERA);
    let request = match session {
        Some(session) => request.header("mcp-session-id", session),
        None => request,
    };
    request.body(Body::from(body.to_string())).unwrap()
}

/// What a tool keeps for a session is its client's own.
#[tokio::test]
async fn each_client_has_a_session_of_its_own() {
    let agent = agent().await;
    let run = |call: Invocation| {
        let session = call.scope.session.as_ref().map_or("none", SessionId::as_str).to_owned();
        std::future::ready(Ok(Output::text(session)))
    };
    agent.invoker.registry().register(Tool::new("session", "", "test"), run).unwrap();
    let face = Face::new(&FaceSettings::default(), agent);

    let (one, other) = tokio::join!(SessionClient::connect(&face), SessionClient::connect(&face));
    let of_one = one.call("session").await;
    let of_other = other.call("session").await;
    assert!(of_one.starts_with("mcp/") && of_other.starts_with("mcp/"), "{of_one} {of_other}");
    assert_ne!(of_one, of_other);
    assert_eq!(one.call("session").await, of_one, "a client keeps its own");
    face.close().await;
}

/// A session for which there is no room is refused with an error that says so.
#[tokio::test]
async fn a_session_too_many_is_refused_with_an_error_of_the_protocol() {
    let face = Face::new(&FaceSettings::default(), agent().await);
    for _ in 0..limits::SESSIONS_MAX {
        SessionClient::connect(&face).await;
    }

    let hello = json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let refused = face.router().oneshot(post(None, &hello)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key("retry-after"));
    let body = to_bytes(refused.into_body(), 1 << 20).await.unwrap();
    let error: Value = serde_json::from_slice(&body).unwrap();
    let limit = limits::SESSIONS_MAX;
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(7), &json!(-32000)));
    assert_eq!(error["error"]["data"], json!({"reason": "too_many_sessions", "limit": limit}));
    face.close().await;
}

/// What a browser is told of a request that a page of this origin makes, or is about to make.
async fn from_page(face: &Face, method: &str, origin: &str) -> axum::response::Response {
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"},
    }});
    let mut request = post(None, &hello);
    *request.method_mut() = method.parse().unwrap();
    let headers = request.headers_mut();
    headers.insert("origin", origin.parse().unwrap());
    headers.insert("access-control-request-method", "POST".parse().unwrap());
    face.router().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn pages_of_allowed_origins_are_shown_answers_where_that_is_set() {
    const PAGE: &str = "https://chat.example.com";
    let api = ApiSettings { allowed_origins: vec![PAGE.to_owned()], ..ApiSettings::default() };
    let settings = FaceSettings { api, cors: true, ..FaceSettings::default() };
    let face = Face::new(&settings, agent().await);
    for origin in [PAGE, "http://localhost:6274"] {
        let asked = from_page(&face, "OPTIONS", origin).await;
        assert_eq!(asked.status(), StatusCode::NO_CONTENT, "{origin}");
        assert_eq!(asked.headers()["access-control-allow-methods"], "GET, POST, DELETE");
        // The star alone would leave out the header that tokens are in.
        assert_eq!(asked.headers()["access-control-allow-headers"], "*, authorization");
        assert_eq!(asked.headers()["access-control-allow-origin"], origin);
        let answered = from_page(&face, "POST", origin).await;
        assert_eq!(answered.status(), StatusCode::OK, "{origin}");
        assert!(answered.headers().contains_key("mcp-session-id"), "{origin}");
        let exposed = answered.headers()["access-control-expose-headers"].to_str().unwrap();
        assert!(exposed.contains("mcp-session-id"), "{exposed}");
        assert_eq!(answered.headers()["access-control-allow-origin"], origin);
        assert_eq!(answered.headers()["vary"], "origin");
    }
    for method in ["OPTIONS", "POST"] {
        let refused = from_page(&face, method, "https://evil.example.com").await;
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{method}");
        assert!(!refused.headers().contains_key("access-control-allow-origin"), "{method}");
    }
    face.close().await;

    // Without the setting, browsers are told nothing.
    let silent = FaceSettings { cors: false, ..settings };
    let face = Face::new(&silent, agent().await);
    for method in ["OPTIONS", "POST"] {
        let answered = from_page(&face, method, PAGE).await;
        assert!(!answered.headers().contains_key("access-control-allow-origin"), "{method}");
    }
    face.close().await;
}
