use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::http::header::{ACCEPT, CONTENT_TYPE, HOST};
use serde_json::{Value, json};
use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, Envelope, MemoryBus};
use toolbus_tools::call::Invocation;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Guides, Output, Registry, Tool};
use toolbus_wire::message::mcp::{McpServerSummary, McpServersIndexed};
use toolbus_wire::name::InstanceId;
use toolbus_wire::topic;
use tower::ServiceExt as _;

use super::*;
use crate::offer::Offer;

const SECOND: Duration = Duration::from_secs(1);

/// The agent of a face, on a bus where a bridge has announced the server `notes` and gone.
async fn agent() -> FaceDeps {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let (agent, instance) = (AgentName::standard(), InstanceId::random());
    let requester = Requester::start(Arc::clone(&bus), agent.clone(), &instance).await.unwrap();
    let registry = Arc::new(Registry::new());
    let guides = Guides::default();
    let directory =
        McpDirectory::start(&bus, requester, &instance, Arc::clone(&registry), guides).await;
    let directory = directory.unwrap();

    let notes = McpServerSummary { server_name: "notes".to_owned(), ..Default::default() };
    let indexed = McpServersIndexed { servers: vec![notes], ..Default::default() };
    let announcement = Envelope::of(&indexed, "bridge");
    bus.publish(&topic::tool_meta_mcp(&agent), announcement).await.unwrap();
    let known = directory.until(|servers| !servers.is_empty());
    tokio::time::timeout(SECOND, known).await.unwrap();
    FaceDeps { agent, invoker: Invoker::new(registry), directory }
}

/// What a client of the newer era is answered.
async fn ask(face: &Face, path: &str, method: &str) -> Value {
    let version = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
    let request = Request::post(path)
        .header(HOST, "localhost")
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("mcp-protocol-version", version)
        .header("mcp-method", method)
        .body(Body::from(body.to_string()))
        .unwrap();

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
