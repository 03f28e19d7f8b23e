//! Turns over HTTP, of an agent whose model is a script.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, BodyDataStream, to_bytes};
use axum::http::{Request, Response, StatusCode};
use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_agent::{Agent, AgentDeps, ContextBuilder, Sessions, TurnLimits};
use toolbus_http::{ApiDeps, ApiSettings, BODY_BYTES_MAX, TurnApi};
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Completion, Model, ModelCall, ModelError,
    ModelEvent, ModelRequest, OnEvent, StopReason, TokenUsage,
};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Invoker, Registry, Tool};
use toolbus_wire::name::AgentName;
use tower::ServiceExt as _;

const LIMIT: Duration = Duration::from_secs(120);

/// A model that says this, calls `look` where there is a question mark, and never ends where there
/// are dots.
#[derive(Default)]
struct Script {
    answers: Mutex<VecDeque<&'static str>>,
    asked: Mutex<usize>,
}

impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn complete<'a>(
        &'a self,
        _: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        *self.asked.lock() += 1;
        let text = self.answers.lock().pop_front().unwrap_or("over");
        async move {
            for word in text.split_inclusive(' ') {
                on_event(ModelEvent::Text { delta: word.to_owned() });
            }
            if text.ends_with('…') {
                std::future::pending::<()>().await;
            }
            let mut parts = vec![AssistantPart::Text { text: text.to_owned() }];
            let mut stop = StopReason::End;
            if text.ends_with('?') {
                parts.push(AssistantPart::Call(ModelCall {
                    id: "1".to_owned(),
                    name: "look".to_owned(),
                    arguments: CallArguments::Json { value: json!({"at": "it"}) },
                    written: None,
                }));
                stop = StopReason::ToolCalls;
            }
            let usage = TokenUsage { input: 3, output: 2, ..TokenUsage::default() };
            let message = AssistantMessage { parts };
            Ok(Completion { message, stop, usage, model: "script".to_owned() })
        }
        .boxed()
    }
}

struct Bench {
    api: TurnApi,
    router: Router,
    agent: Agent,
    script: Arc<Script>,
    _place: StatePlace,
}

impl Bench {
    fn new(tokens: &[(&str, &str)]) -> Self {
        let place = StatePlace::sqlite();
        let location: Location = place.location.parse().unwrap();
        let store = LazyStore::new(location, &[toolbus_agent::MIGRATIONS]);
        let registry = Registry::new();
        let look = Tool::new("look", "Looks.", "test").read_only();
        registry
            .register(look, |_: Invocation| std::future::ready(Ok(Output::text("seen"))))
            .unwrap();
        let script = Arc::new(Script::default());
        let agent = Agent::new(AgentDeps {
            invoker: Invoker::new(Arc::new(registry)),
            model: Arc::clone(&script) as Arc<dyn Model>,
            sessions: Sessions::new(store, TurnLimits::default(), "bench"),
            context: ContextBuilder::new("You are a test.").into(),
        });
        let tokens = tokens.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned()));
        let settings = ApiSettings { tokens: tokens.collect(), ..ApiSettings::default() };
        let api = TurnApi::new(settings, deps_of(&agent));
        Self { router: api.router(), api, agent, script, _place: place }
    }

    fn answers(&self, answers: &[&'static str]) {
        self.script.answers.lock().extend(answers);
    }

    async fn post(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> Response<Body> {
        let here = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let mut request = Request::post("/v1/turns").extension(here).header("host", "localhost");
        if !headers.iter().any(|(name, _)| *name == "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Says something, and gives the status and the answer.
    async fn say(&self, headers: &[(&str, &str)], body: Value) -> (StatusCode, Value) {
        let response = self.post(headers, body.to_string()).await;
        let status = response.status();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, serde_json::from_slice(&body).unwrap())
    }
}

fn deps_of(agent: &Agent) -> ApiDeps {
    ApiDeps { name: AgentName::standard(), agent: agent.clone(), turns_max: 2 }
}

const EVENTS: (&str, &str) = ("accept", "text/event-stream");

/// The next event: its name and its data.
async fn next(body: &mut BodyDataStream) -> (String, Value) {
    let chunk = tokio::time::timeout(LIMIT, body.next()).await.unwrap().unwrap().unwrap();
    let text = String::from_utf8(chunk.to_vec()).unwrap();
    let (event, data) = text.trim_end().split_once('\n').unwrap();
    let data = serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap();
    (event.strip_prefix("event: ").unwrap().to_owned(), data)
}

#[tokio::test]
async fn a_turn_is_answered_with_its_end() {
    let bench = Bench::new(&[]);
    bench.answers(&["Hi there.", "Again."]);
    let (status, answer) = bench.say(&[], json!({"text": "hello", "session": "mine"})).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(answer["end"], "answered");
    assert_eq!((&answer["text"], &answer["session"]), (&json!("Hi there."), &json!("mine")));
    assert_eq!(answer["usage"]["input"], 3);

    let (_, answer) = bench.say(&[], json!({"text": "hello"})).await;
    assert!(answer["session"].as_str().unwrap().starts_with("session/"), "{answer}");
}

#[tokio::test]
async fn what_happens_is_told_by_events() {
    let bench = Bench::new(&[]);
    bench.answers(&["Shall I look?", "Done."]);
    let response = bench.post(&[EVENTS], json!({"text": "go", "session": "s"}).to_string()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body().into_data_stream();
    let mut told = Vec::new();
    loop {
        let (event, data) = next(&mut body).await;
        let is_end = event == "end";
        told.push((event, data));
        if is_end {
            break;
        }
    }
    assert!(body.next().await.is_none(), "it is the last");

    assert_eq!(told[0], ("session".to_owned(), json!({"session": "s"})));
    let text = |of: &str| -> String {
        let deltas = told.iter().filter(|(event, _)| event == of);
        deltas.map(|(_, data)| data["delta"].as_str().unwrap()).collect()
    };
    assert_eq!(text("text"), "Shall I look?Done.");
    let call = json!({"id": "1", "tool": "look", "arguments": {"at": "it"}});
    assert!(told.contains(&("call_begun".to_owned(), call)), "{told:?}");
    let (_, ended) = told.iter().find(|(event, _)| event == "call_ended").unwrap();
    assert_eq!((&ended["text"], &ended["is_error"]), (&json!("seen"), &json!(false)));
    let (_, end) = told.last().unwrap();
    assert_eq!((&end["text"], &end["session"]), (&json!("Done."), &json!("s")));
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_turn() {
    let bench = Bench::new(&[]);
    bench.answers(&["I think…", "Then."]);
    let said = json!({"text": "go", "session": "s"});
    let response = bench.post(&[EVENTS], said.to_string()).await;
    let mut body = response.into_body().into_data_stream();
    while next(&mut body).await.0 != "text" {}
    drop(body);
    // The session is free again, and the turn before is over.
    let (status, answer) = bench.say(&[], said).await;
    assert_eq!((status, &answer["text"]), (StatusCode::OK, &json!("Then.")));
}

#[tokio::test]
async fn a_request_with_a_key_is_one_turn_however_often_it_is_sent() {
    let bench = Bench::new(&[]);
    bench.answers(&["Once."]);
    let said = || json!({"text": "go", "session": "s"});
    let key = ("idempotency-key", "k1");
    for _ in 0..3 {
        let (status, answer) = bench.say(&[key], said()).await;
        assert_eq!((status, &answer["text"]), (StatusCode::OK, &json!("Once.")));
    }
    assert_eq!(*bench.script.asked.lock(), 1);
    let long = "k".repeat(201);
    let (status, _) = bench.say(&[("idempotency-key", &long)], said()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn more_turns_than_there_are_places_are_refused_and_a_stop_leaves_them() {
    let bench = Bench::new(&[]);
    bench.answers(&["a…", "b…"]);
    let mut open = Vec::new();
    for session in ["a", "b"] {
        let said = json!({"text": "go", "session": session}).to_string();
        let mut body = bench.post(&[EVENTS], said).await.into_body().into_data_stream();
        while next(&mut body).await.0 != "text" {}
        open.push(body);
    }
    let (status, answer) = bench.say(&[], json!({"text": "me too"})).await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::TOO_MANY_REQUESTS, &json!("busy")));

    bench.api.drain(Duration::from_millis(50)).await;
    for body in &mut open {
        assert!(body.next().await.is_none(), "the client is told that nothing more comes");
    }
    let (status, answer) = bench.say(&[], json!({"text": "and now?"})).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer["error"]["code"], "stopping");

    // The turn goes on when its session is used.
    let api = TurnApi::new(ApiSettings::default(), deps_of(&bench.agent));
    let again = Bench { router: api.router(), api, ..bench };
    again.answers(&["Went on.", "New."]);
    let (_, answer) = again.say(&[], json!({"text": "go on", "session": "a"})).await;
    assert_eq!(answer["text"], "New.");
    assert_eq!(*again.script.asked.lock(), 4);
}

#[tokio::test]
async fn clients_without_a_token_are_refused_and_others_have_their_own_sessions() {
    let bench = Bench::new(&[("alice", "s3cret"), ("bob", "other")]);
    let said = || json!({"text": "go", "session": "s"});
    let (status, answer) = bench.say(&[], said()).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(answer["error"]["code"], "unauthorized");
    for token in ["Bearer s3cret", "Bearer other"] {
        let (status, _) = bench.say(&[("authorization", token)], said()).await;
        assert_eq!(status, StatusCode::OK);
    }
    let origin = ("origin", "https://evil.example.com");
    let (status, _) = bench.say(&[("authorization", "Bearer s3cret"), origin], said()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn what_is_no_request_is_told_so() {
    let bench = Bench::new(&[]);
    let cases = [
        ("{", StatusCode::BAD_REQUEST),
        ("[]", StatusCode::BAD_REQUEST),
        (r#"{"text": "  "}"#, StatusCode::BAD_REQUEST),
        (r#"{"text": "a", "sesion": "b"}"#, StatusCode::BAD_REQUEST),
        (r#"{"text": "a", "session": "../b"}"#, StatusCode::BAD_REQUEST),
    ];
    for (body, expected) in cases {
        let response = bench.post(&[], body).await;
        assert_eq!(response.status(), expected, "{body}");
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["error"]["code"], "invalid_request", "{answer}");
    }
    let response = bench.post(&[], vec![b' '; BODY_BYTES_MAX + 1]).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let form = ("content-type", "text/plain");
    let response = bench.post(&[form], r#"{"text": "a"}"#).await;
    assert_eq!(response.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
    assert_eq!(*bench.script.asked.lock(), 0);
}
