//! Agents that are asked over HTTP: the official server, and those that mean ill or go away.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::{get, post};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_a2a::{
    AgentHeader, AgentHeaderValue, CancelAsked, HttpAgent, HttpAgentError, HttpCaller,
    HttpCallerDeps, HttpServerConfig, TaskChange,
};
use toolbus_bus::Envelope;
use toolbus_testkit::a2a_sdk::SdkServer;
use toolbus_testkit::state::StatePlace;
use toolbus_testkit::{eventually, quiet_for};
use toolbus_tools::CredentialSource;
use toolbus_tools::credentials::UnreadableCredential;
use toolbus_wire::message::a2a::{AgentMessage, AgentTaskResult, AgentTaskState, ROLE_AGENT};
use toolbus_wire::topic;
use zeroize::Zeroizing;

use crate::http_server::Door;
use crate::interrupted::Process;
use toolbus_tools::Scope;

use crate::support::*;

const NAME: &str = "Remote";
const CARD: &str = "/.well-known/agent-card.json";

fn remote(url: &str) -> HttpAgent {
    let card_url = format!("{url}{CARD}");
    HttpAgent { name: agent(NAME), card_url, header: None, is_internal: true }
}

fn start(host: &Host, agents: Vec<HttpAgent>) -> HttpCaller {
    let deps = HttpCallerDeps { agents, credentials: Some(Arc::new(Vault)) };
    HttpCaller::start(&host.tasks, deps).expect("it starts")
}

async fn asker(place: &Arc<StatePlace>) -> Host {
    Setup::new(&Broker::memory(), place, "RockBot").handing_over_soon().start().await
}

/// A vault with one credential.
struct Vault;

impl CredentialSource for Vault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>> {
        let is_it = (provider, name) == ("a2a:Remote", "key");
        let found = is_it.then(|| Zeroizing::new("key of ours".to_owned()));
        std::future::ready(Ok(found)).boxed()
    }
}

type Answers = Box<dyn Fn(&str, &Value) -> BoxFuture<'static, Response> + Send + Sync>;

/// A server that answers as a test says.
struct Scripted {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
    headers: Arc<Mutex<Vec<HeaderMap>>>,
    _stop: DropGuard,
}

impl Scripted {
    /// Answers requests so; its card leads to itself.
    async fn start(
        answers: impl Fn(&str, &Value) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        Self::with_card(None, answers).await
    }

    async fn with_card(
        card: Option<Value>,
        answers: impl Fn(&str, &Value) -> BoxFuture<'static, Response> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let card = card.unwrap_or_else(|| card_to(&format!("http://{address}/rpc")));
        let (asked, headers) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<Vec<_>>>::default());
        let (note, note_headers) = (Arc::clone(&asked), Arc::clone(&headers));
        let answers: Arc<Answers> = Arc::new(Box::new(answers));
        let rpc = move |headers: HeaderMap, body: Bytes| {
            let (answers, note) = (Arc::clone(&answers), Arc::clone(&note));
            note_headers.lock().push(headers);
            async move {
                let body: Value = serde_json::from_slice(&body).expect("JSON");
                let method = body["method"].as_str().expect("a method").to_owned();
                note.lock().push(method.clone());
                answers(&method, &body).await
            }
        };
        let router = Router::new()
            .route(CARD, get(move || std::future::ready(axum::Json(card.clone()))))
            .route("/rpc", post(rpc));
        let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
        let stopped = stop.clone();
        tasks.spawn(async move {
            let served = axum::serve(listener, router).into_future();
            let _ = stopped.run_until_cancelled(served).await;
        });
        Self { address, asked, headers, _stop: stop.drop_guard() }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    fn count(&self, method: &str) -> usize {
        self.asked.lock().iter().filter(|asked| *asked == method).count()
    }
}

fn card_to(url: &str) -> Value {
    json!({
        "name": "x", "description": "A script", "version": "1",
        "supportedInterfaces": [
            {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        ],
        "capabilities": {}, "skills": [],
    })
}

fn result(body: &Value, result: &Value) -> Response {
    let answer = json!({"jsonrpc": "2.0", "id": body["id"], "result": result});
    axum::Json(answer).into_response()
}

fn task(id: &str, state: &str) -> Value {
    json!({"id": id, "contextId": "c", "status": {"state": state}})
}

/// A server whose task is in this state for ever.
async fn eternal(state: &'static str) -> Scripted {
    Scripted::start(move |method, body| {
        let answer = match method {
            "SendMessage" => result(body, &json!({"task": task("t1", state)})),
            "CancelTask" => result(body, &task("t1", "TASK_STATE_CANCELED")),
            _ => result(body, &task("t1", state)),
        };
        std::future::ready(answer).boxed()
    })
    .await
}

async fn ready(host: &Host) {
    host.eventually_knows(NAME).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_the_official_library_does_tasks() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/a2a/sdk_server.py");
    let Some(server) = SdkServer::start(&script).await else { return };
    for [place, _] in places().await {
        for path in ["", "/old"] {
            let host = asker(&place).await;
            let caller = start(&host, vec![remote(&format!("{}{path}", server.url()))]);
            ready(&host).await;
            let known = host.directory.find("remote").expect("it is known");
            assert_eq!(known.card.agent_name, NAME);
            assert_eq!(known.card.url, Some(format!("{}{path}/rpc", server.url())));
            assert_eq!(known.card.skills.expect("skills")[0].id, "research");

            let id = host.ask(NAME, "hello").await;
            assert_eq!(host.answer_to(&id).await, "## report\n\nresearch: hello", "{path}");
            let id = host.ask(NAME, "message").await;
            assert_eq!(host.answer_to(&id).await, "said at once");
            for (text, state, said) in [("fail", 4, "it broke"), ("ask", 2, "which color?")] {
                let id = host.ask(NAME, text).await;
                let what = TaskChange::Answered { state, text: said.to_owned() };
                assert_eq!(host.end_of(&id).await.what, what);
            }

            let id = host.ask(NAME, "wait").await;
            let progressed = |event: &toolbus_a2a::TaskEvent| {
                let TaskChange::Progress { text, .. } = &event.what else { return false };
                event.task_id == id && text == "thinking"
            };
            eventually(PATIENCE, async || {
                let events = host.listener.events.lock().clone();
                if events.iter().any(progressed) { Ok(()) } else { Err(events) }
            })
            .await;
            let cancelled = host.tasks.cancel(&owner(&host.name), &id).await.expect("it is asked");
            assert_eq!(cancelled, CancelAsked::Sent);
            let TaskChange::Answered { state: 5, .. } = host.end_of(&id).await.what else {
                panic!("it is cancelled: {}", server.logs());
            };
            eventually(PATIENCE, async || {
                match host.count("SELECT COUNT(*) FROM a2a_sent").await {
                    0 => Ok(()),
                    left => Err(left),
                }
            })
            .await;
            caller.close().await;
            host.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_from_the_vault_is_sent_along() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/a2a/sdk_server.py");
    let Some(server) = SdkServer::start(&script).await else { return };
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let of_vault =
        |name: &str| AgentHeaderValue::Credential { name: name.to_owned(), scheme: None };
    let guarded = |value| {
        let header = Some(AgentHeader { name: "X-Key".to_owned(), value });
        HttpAgent { header, ..remote(&format!("{}/guarded", server.url())) }
    };
    let mistaken = HttpAgent { name: agent("Mistaken"), ..guarded(of_vault("key")) };
    let caller = start(&host, vec![guarded(of_vault("key")), mistaken]);
    ready(&host).await;
    let known = host.directory.find(NAME).expect("it is known");
    assert_eq!(known.card.auth_header_name.as_deref(), Some("x-key"));
    let id = host.ask(NAME, "hello").await;
    assert_eq!(host.answer_to(&id).await, "## report\n\nresearch: hello");

    let error = caller.read_card("mistaken").await.expect_err("no credential");
    assert!(matches!(error, HttpAgentError::Credential(_)), "{error}");
    let id = host.ask("Mistaken", "hello").await;
    let TaskChange::Failed { message, .. } = host.end_of(&id).await.what else { panic!() };
    assert!(message.contains("credential"), "{message}");
    caller.close().await;
    host.close().await;
}

/// Our own client and our own server, which speak to each other through a circle to its end.
#[tokio::test(flavor = "multi_thread")]
async fn our_own_agents_ask_each_other_over_http() {
    for [ours, theirs] in places().await {
        let work = Work::echo();
        let researcher =
            Setup::new(&Broker::memory(), &theirs, "ResearchAgent").working(&work).start().await;
        let door = Door::open(HttpServerConfig::default(), researcher.intake()).await;
        let host = asker(&ours).await;
        let caller = start(&host, vec![remote(&door.url())]);
        let id = host.ask(NAME, "x").await;
        assert_eq!(host.answer_to(&id).await, "## answer\n\nresearch: x");
        let came = work.ran.lock()[0].lineage;
        assert_eq!((came.depth, came.doors), (1, scope(&host.name).doors));
        let deep = Scope { depth: u8::MAX, ..scope(&host.name) };
        host.tasks.invoke(&deep, new_task(NAME, "x")).await.expect_err("too deep");
        caller.close().await;
        host.close().await;
        researcher.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_public_are_refused() {
    let server = eternal("TASK_STATE_COMPLETED").await;
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let port = server.address.port();
    let elsewhere =
        Scripted::with_card(Some(card_to("http://169.254.169.254/latest")), |_, body| {
            std::future::ready(result(body, &json!({}))).boxed()
        })
        .await;
    let of = |name: &str, url: &str, is_internal| HttpAgent {
        name: agent(name),
        is_internal,
        ..remote(url)
    };
    let header = AgentHeaderValue::Fixed(Zeroizing::new("Bearer x".to_owned()));
    let header = Some(AgentHeader { name: "Authorization".to_owned(), value: header });
    let agents = vec![
        of("Loopback", &server.url(), false),
        of("Named", &format!("http://localhost:{port}"), false),
        of("Mapped", &format!("http://[::ffff:127.0.0.1]:{port}"), false),
        of("Metadata", "http://169.254.169.254", false),
        of("Leading", &elsewhere.url(), true),
        HttpAgent { header, ..of("Leaking", &elsewhere.url(), true) },
    ];
    let caller = start(&host, agents);
    for name in ["Loopback", "Named", "Mapped", "Metadata"] {
        let error = caller.read_card(name).await.expect_err("not public");
        assert!(matches!(error, HttpAgentError::PrivateAddress), "{name}: {error}");
    }
    for name in ["Leading", "Leaking"] {
        let error = caller.read_card(name).await.expect_err("elsewhere");
        let HttpAgentError::OtherHost(host) = error else { panic!("{name}: {error}") };
        assert_eq!(host, "169.254.169.254");
    }
    let id = host.ask("Loopback", "x").await;
    let TaskChange::Failed { message, is_retryable, .. } = host.end_of(&id).await.what else {
        panic!("it failed");
    };
    assert!(message.contains("not a public one") && !is_retryable, "{message}");
    assert_eq!((server.asked.lock().len(), elsewhere.asked.lock().len()), (0, 0));
    caller.close().await;
    host.close().await;
}

/// Whoever answers at another port of the host may be somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_header_goes_to_the_origin_of_the_card_alone() {
    let other = eternal("TASK_STATE_COMPLETED").await;
    let leading = Scripted::with_card(Some(card_to(&format!("{}/rpc", other.url()))), |_, body| {
        std::future::ready(result(body, &json!({}))).boxed()
    })
    .await;
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let value = AgentHeaderValue::Fixed(Zeroizing::new("Bearer x".to_owned()));
    let header = Some(AgentHeader { name: "Authorization".to_owned(), value });
    let leaking = HttpAgent { name: agent("Leaking"), header, ..remote(&leading.url()) };
    let caller = start(&host, vec![remote(&leading.url()), leaking]);
    caller.read_card(NAME).await.expect("without a header any port of the host will do");
    let error = caller.read_card("Leaking").await.expect_err("another port");
    let HttpAgentError::OtherHost(there) = &error else { panic!("{error}") };
    assert_eq!(*there, other.address.to_string());

    let id = host.ask("Leaking", "x").await;
    let TaskChange::Failed { message, .. } = host.end_of(&id).await.what else { panic!() };
    assert!(message.contains("scheme, host and port"), "{message}");
    assert_eq!((leading.asked.lock().len(), other.asked.lock().len()), (0, 0));
    caller.close().await;
    host.close().await;
}

/// The address of a card may hold a key.
#[tokio::test(flavor = "multi_thread")]
async fn the_address_of_a_card_stands_in_no_error() {
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = closed.local_addr().expect("an address");
    drop(closed);
    let card_url = format!("http://{address}/card?key=canary");
    let caller = start(&host, vec![HttpAgent { card_url, ..remote("") }]);
    let error = caller.read_card(NAME).await.expect_err("nobody listens");
    assert!(matches!(error, HttpAgentError::Connect(_)), "{error:?}");
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    caller.close().await;

    let deps = |card_url: &str| HttpCallerDeps {
        agents: vec![HttpAgent { card_url: card_url.to_owned(), ..remote("") }],
        credentials: None,
    };
    let refused = HttpCaller::start(&host.tasks, deps("ftp://x/card?key=canary"));
    let error = refused.err().expect("it is refused").to_string();
    assert!(error.contains("no address") && !error.contains("canary"), "{error}");
    host.close().await;
}

/// What an agent says back of the secret that it was sent is not read by models.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_is_said_back_is_erased() {
    let said = "you are \"Bearer tok-en-9\"";
    let server = Scripted::start(move |_, body| {
        let message = json!({"messageId": "m", "parts": [{"text": said}]});
        std::future::ready(result(body, &json!({"message": message}))).boxed()
    })
    .await;
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let value = AgentHeaderValue::Fixed(Zeroizing::new("Bearer tok-en-9".to_owned()));
    let header = Some(AgentHeader { name: "Authorization".to_owned(), value });
    let caller = start(&host, vec![HttpAgent { header, ..remote(&server.url()) }]);
    let id = host.ask(NAME, "x").await;
    assert_eq!(host.answer_to(&id).await, "you are \"Bearer ***\"");
    assert_eq!(server.headers.lock()[0]["authorization"], "Bearer tok-en-9");
    caller.close().await;
    host.close().await;
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused() {
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let refused = |agents: Vec<HttpAgent>| {
        let deps = HttpCallerDeps { agents, credentials: None };
        HttpCaller::start(&host.tasks, deps).err().expect("it is refused").to_string()
    };
    let ftp = HttpAgent { card_url: "ftp://x/card".to_owned(), ..remote("") };
    assert!(refused(vec![ftp]).contains("no address"));
    let value = AgentHeaderValue::Fixed(Zeroizing::new("x".to_owned()));
    let header = Some(AgentHeader { name: "a b".to_owned(), value });
    assert!(refused(vec![HttpAgent { header, ..remote("http://x") }]).contains("header"));
    let value = AgentHeaderValue::Fixed(Zeroizing::new("x".to_owned()));
    let header = Some(AgentHeader { name: "X-Key".to_owned(), value });
    let public = HttpAgent { header, is_internal: false, ..remote("http://x") };
    assert!(refused(vec![public]).contains("https alone"));
    let twice = HttpAgent { name: agent("REMOTE"), ..remote("http://x") };
    assert!(refused(vec![remote("http://x"), twice]).contains("two agents"));
    host.close().await;
}

/// What a server answers to the message, and what the task ends with.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_answer_nonsense_end_the_task() {
    let elsewhere = eternal("TASK_STATE_COMPLETED").await;
    let target = format!("{}/rpc", elsewhere.url());
    let cases: Vec<(&str, Answers, &str)> = vec![
        ("no JSON", Box::new(|_, _| ready_with("nonsense")), "something else"),
        ("an empty body", Box::new(|_, _| ready_with("")), "something else"),
        ("no result", Box::new(|_, _| ready_with("{\"jsonrpc\": \"2.0\"}")), "something else"),
        (
            "another request's answer",
            Box::new(|_, _| {
                let answer = json!({"id": "other", "result": task("t", "TASK_STATE_COMPLETED")});
                std::future::ready(axum::Json(answer).into_response()).boxed()
            }),
            "something else",
        ),
        (
            "too much",
            Box::new(|_, _| ready_with("x".repeat(9 << 20))),
            "more than 8388608 bytes: it is not known whether",
        ),
        (
            "an error",
            Box::new(|_, body| {
                let error = json!({"code": -32602, "message": "bad words"});
                let answer = json!({"jsonrpc": "2.0", "id": body["id"], "error": error});
                std::future::ready(axum::Json(answer).into_response()).boxed()
            }),
            "bad words (-32602)",
        ),
        (
            "a redirect",
            Box::new(move |_, _| {
                std::future::ready(Redirect::temporary(&target).into_response()).boxed()
            }),
            "redirects",
        ),
        (
            "an error of HTTP",
            Box::new(|_, _| {
                let status = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
                std::future::ready(status.into_response()).boxed()
            }),
            "status 500: it is not known whether",
        ),
        (
            "a task without an id",
            Box::new(|_, body| {
                let answer = result(body, &json!({"task": task("", "TASK_STATE_WORKING")}));
                std::future::ready(answer).boxed()
            }),
            "something else",
        ),
    ];
    let place = Arc::new(StatePlace::sqlite());
    for (what, answers, said) in cases {
        let server = Scripted::start(answers).await;
        let host = asker(&place).await;
        let caller = start(&host, vec![remote(&server.url())]);
        let id = host.ask(NAME, "x").await;
        let TaskChange::Failed { message, .. } = host.end_of(&id).await.what else {
            panic!("{what} is no answer");
        };
        assert!(message.contains(said), "{what}: {message}");
        // What may have been sent is not sent again.
        assert_eq!(server.count("SendMessage"), 1, "{what}");
        caller.close().await;
        host.close().await;
    }
    assert_eq!(elsewhere.asked.lock().len(), 0, "the redirect was followed");
}

fn ready_with(body: impl Into<String>) -> BoxFuture<'static, Response> {
    std::future::ready(body.into().into_response()).boxed()
}

/// Says of another task that it is over, and then, late, of the one that is meant.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_about_another_task_is_none() {
    let polls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&polls);
    let server = Scripted::start(move |method, body| {
        let answer = match method {
            "SendMessage" => json!({"task": task("t1", "TASK_STATE_WORKING")}),
            _ if counted.fetch_add(1, Ordering::SeqCst) < 2 => task("t2", "TASK_STATE_COMPLETED"),
            _ => json!({
                "id": "t1",
                "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [{"artifactId": "a", "parts": [{"text": "mine"}, {"raw": "eA=="}]}],
            }),
        };
        std::future::ready(result(body, &answer)).boxed()
    })
    .await;
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let caller = start(&host, vec![remote(&server.url())]);
    let id = host.ask(NAME, "x").await;
    let text = host.answer_to(&id).await;
    assert_eq!(text, "## a\n\nmine\n[file \"\": its content is left out]");
    assert_eq!(polls.load(Ordering::SeqCst), 3);
    assert_eq!(host.listener.ends().len(), 1);
    caller.close().await;
    host.close().await;

    // One that never speaks of it.
    let server = Scripted::start(|method, body| {
        let answer = match method {
            "SendMessage" => json!({"task": task("t1", "TASK_STATE_WORKING")}),
            _ => task("t2", "TASK_STATE_COMPLETED"),
        };
        std::future::ready(result(body, &answer)).boxed()
    })
    .await;
    let host = asker(&place).await;
    let caller = start(&host, vec![remote(&server.url())]);
    let id = host.ask(NAME, "x").await;
    let end = host.end_of(&id).await.what;
    assert!(matches!(end, TaskChange::Failed { .. }), "{end:?}");
    assert_eq!(server.count("GetTask"), 5);
    caller.close().await;
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_never_answers_is_given_up() {
    for [place, _] in places().await {
        // Neither to the message, nor with an end.
        let silent = Scripted::start(|_, _| std::future::pending().boxed()).await;
        let host = asker(&place).await;
        let caller = start(&host, vec![remote(&silent.url())]);
        let id = host.ask_within(NAME, "x", Duration::from_millis(500)).await;
        assert_eq!(host.end_of(&id).await.what, TaskChange::TimedOut { seconds: 1 });
        caller.close().await;
        host.close().await;

        let working = eternal("TASK_STATE_WORKING").await;
        let host = asker(&place).await;
        let caller = start(&host, vec![remote(&working.url())]);
        let id = host.ask_within(NAME, "x", Duration::from_millis(800)).await;
        assert_eq!(host.end_of(&id).await.what, TaskChange::TimedOut { seconds: 1 });
        // It is asked to give up what nobody waits for.
        eventually(PATIENCE, async || match working.count("CancelTask") {
            1 => Ok(()),
            count => Err(count),
        })
        .await;
        quiet_for(A_WHILE, async || match working.count("CancelTask") {
            1 => Ok(()),
            count => Err(count),
        })
        .await;
        assert_eq!(host.count("SELECT COUNT(*) FROM a2a_sent").await, 0);
        assert_eq!(host.listener.ends().len(), 1);
        caller.close().await;
        host.close().await;
    }
}

/// One that is not there was not sent to, and is tried again.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_away_is_tried_again() {
    let place = Arc::new(StatePlace::sqlite());
    let host = asker(&place).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let caller = start(&host, vec![remote(&url)]);
    let id = host.ask(NAME, "x").await;
    let TaskChange::Failed { message, is_retryable, .. } = host.end_of(&id).await.what else {
        panic!("it failed");
    };
    assert!(message.contains("cannot be reached") && is_retryable, "{message}");
    caller.close().await;
    host.close().await;
}

/// A process that stops leaves its tasks to the next, which asks after them and sends nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_asked_after_by_the_next_process() {
    for [place, _] in places().await {
        let is_done = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&is_done);
        let server = Scripted::start(move |method, body| {
            let state = match done.load(Ordering::SeqCst) {
                0 => "TASK_STATE_WORKING",
                _ => "TASK_STATE_COMPLETED",
            };
            let answer = match method {
                "SendMessage" => json!({"task": task("t1", state)}),
                _ => task("t1", state),
            };
            std::future::ready(result(body, &answer)).boxed()
        })
        .await;
        let first = asker(&place).await;
        let caller = start(&first, vec![remote(&server.url())]);
        let id = first.ask(NAME, "x").await;
        eventually(PATIENCE, async || if server.count("GetTask") > 0 { Ok(()) } else { Err(()) })
            .await;
        caller.close().await;
        first.close().await;

        is_done.store(1, Ordering::SeqCst);
        let next = asker(&place).await;
        let caller = start(&next, vec![remote(&server.url())]);
        assert_eq!(next.answer_to(&id).await, "");
        assert_eq!(server.count("SendMessage"), 1);
        caller.close().await;

        // One that was being sent when its process was killed.
        let server = eternal("TASK_STATE_WORKING").await;
        next.sabotage("DELETE FROM a2a_sent").await;
        next.close().await;
        let lost = asker(&place).await;
        let caller = start(&lost, vec![remote(&server.url())]);
        let id = lost.ask(NAME, "x").await;
        eventually(
            PATIENCE,
            async || {
                if server.count("SendMessage") > 0 { Ok(()) } else { Err(()) }
            },
        )
        .await;
        caller.close().await;
        lost.sabotage("UPDATE a2a_sent SET state = 'sending', remote_id = ''").await;
        lost.close().await;
        let next = asker(&place).await;
        let caller = start(&next, vec![remote(&server.url())]);
        let TaskChange::Failed { message, .. } = next.end_of(&id).await.what else {
            panic!("nobody knows");
        };
        assert!(message.contains("not known"), "{message}");
        assert_eq!(server.count("SendMessage"), 1);
        caller.close().await;
        next.close().await;
    }
}

/// A process that is killed leaves its tasks to another once its lease is over.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_is_killed_is_asked_after_by_another() {
    for [place, _] in places().await {
        let is_done = Arc::new(AtomicUsize::new(0));
        let done = Arc::clone(&is_done);
        let server = Scripted::start(move |method, body| {
            let state = match done.load(Ordering::SeqCst) {
                0 => "TASK_STATE_WORKING",
                _ => "TASK_STATE_COMPLETED",
            };
            let answer = match method {
                "SendMessage" => json!({"task": task("t1", state)}),
                _ => task("t1", state),
            };
            std::future::ready(result(body, &answer)).boxed()
        })
        .await;
        let setup = Setup::new(&Broker::memory(), &place, "RockBot").handing_over_soon();
        let killed = Process::start(&setup).await;
        let (tasks, url) = (killed.host().tasks.clone(), server.url());
        let ask = async move {
            let deps = HttpCallerDeps { agents: vec![remote(&url)], credentials: None };
            let caller = HttpCaller::start(&tasks, deps).expect("it starts");
            let asked = tasks.invoke(&scope(&agent("RockBot")), new_task(NAME, "x")).await;
            (asked.expect("it is sent").task_id, caller)
        };
        let (id, _caller) = killed.run(ask).await;
        eventually(PATIENCE, async || if server.count("GetTask") > 0 { Ok(()) } else { Err(()) })
            .await;
        killed.kill().await;

        is_done.store(1, Ordering::SeqCst);
        let next = setup.start().await;
        let caller = start(&next, vec![remote(&server.url())]);
        assert_eq!(next.answer_to(&id).await, "");
        assert_eq!(server.count("SendMessage"), 1);
        assert_eq!(next.listener.ends().len(), 1);
        caller.close().await;
        next.close().await;
    }
}

/// Nobody on the bus is, or answers for, an agent that is asked over HTTP.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_over_http_has_its_name_alone() {
    let place = Arc::new(StatePlace::sqlite());
    let broker = Broker::memory();
    let host = Setup::new(&broker, &place, "RockBot").start().await;
    let server = eternal("TASK_STATE_WORKING").await;
    let caller = start(&host, vec![remote(&server.url())]);
    ready(&host).await;

    let work = Work::echo();
    let impostor = Setup::new(&broker, &Arc::new(StatePlace::sqlite()), NAME).working(&work);
    let impostor = impostor.start().await;
    let stranger = Stranger::hearing(&broker, "nothing").await;
    let id = host.ask(NAME, "x").await;
    let answer = AgentTaskResult {
        task_id: id.clone(),
        context_id: None,
        state: AgentTaskState::Completed,
        artifacts: None,
        message: Some(AgentMessage::of_text(ROLE_AGENT, "false")),
    };
    let topic = topic::agent_response(&host.name);
    stranger.publish(&topic, Envelope::of(&answer, NAME)).await;
    host.tells_no_more_than(0).await;
    assert_eq!(work.count(), 0);
    assert!(host.directory.find(NAME).expect("known").card.url.is_some());
    assert_eq!(server.headers.lock()[0]["a2a-version"], "1.0");
    assert!(!server.headers.lock()[0].contains_key("authorization"));
    caller.close().await;
    impostor.close().await;
    host.close().await;
}
