//! Clients over HTTP: the official one, and those that mean ill or go away.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use toolbus_a2a::{
    A2aConfig, ApiSettings, HTTP_BODY_BYTES_MAX, HttpServer, HttpServerConfig, RPC_PATH, TaskEnd,
    TaskIntake,
};
use toolbus_testkit::{a2a_sdk, eventually, quiet_for};
use toolbus_tools::scope::Proof;
use toolbus_wire::message::a2a::AgentErrorCode;

use crate::interrupted::Process;
use crate::support::*;

/// What a server of a test is reached by.
pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    pub(crate) server: HttpServer,
    serving: TaskTracker,
    stop: tokio_util::sync::CancellationToken,
}

impl Door {
    pub(crate) async fn open(config: HttpServerConfig, intake: TaskIntake) -> Self {
        let server = HttpServer::new(config, intake);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (serving, stop) = (TaskTracker::new(), tokio_util::sync::CancellationToken::new());
        // As the server of an agent says it.
        let here = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let (router, stopped) = (server.router().layer(axum::Extension(here)), stop.clone());
        serving.spawn(async move {
            let served = axum::serve(listener, router).into_future();
            let _ = stopped.run_until_cancelled(served).await;
        });
        Self { address, server, serving, stop }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn close(self) {
        self.server.drain(Duration::from_secs(1)).await;
        self.stop.cancel();
        self.serving.close();
        self.serving.wait().await;
    }

    /// The answer to a request of version 1.0.
    async fn ask(&self, token: &str, method: &str, params: Value) -> Value {
        let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let response = self.post(token, body.to_string()).await;
        let answer: Value = serde_json::from_str(&response.1).expect("JSON");
        assert_eq!(answer["id"], 7);
        answer
    }

    async fn post(&self, token: &str, body: impl Into<reqwest::Body>) -> (StatusCode, String) {
        let request = http().post(format!("{}{RPC_PATH}", self.url())).body(body);
        let request = request.header("content-type", "application/json").bearer_auth(token);
        let response = request.header("a2a-version", "1.0").send().await.expect("an answer");
        let status = response.status();
        (status, response.text().await.expect("a text"))
    }

    /// Sends a message without waiting, and says which task it is.
    async fn send(&self, token: &str, message_id: &str, text: &str) -> String {
        let answer = self.ask(token, "SendMessage", message(message_id, text)).await;
        answer["result"]["task"]["id"].as_str().expect("a task").to_owned()
    }

    async fn state(&self, token: &str, id: &str) -> String {
        let answer = self.ask(token, "GetTask", json!({"id": id})).await;
        answer["result"]["status"]["state"].as_str().unwrap_or_default().to_owned()
    }

    async fn eventually_is(&self, token: &str, id: &str, state: &str) {
        eventually(PATIENCE, async || {
            let now = self.state(token, id).await;
            if now == state { Ok(()) } else { Err(now) }
        })
        .await;
    }
}

fn http() -> reqwest::Client {
    // The process-wide provider, which reqwest wants even where there is no TLS.
    let _ = toolbus_mcp::HttpClients::new();
    toolbus_testkit::http_client_builder().timeout(PATIENCE).build().expect("a client")
}

fn message(message_id: &str, text: &str) -> Value {
    json!({
        "message": {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}]},
        "configuration": {"returnImmediately": true},
    })
}

fn with_tokens() -> HttpServerConfig {
    let token = |name: &str| (name.to_owned(), format!("{name}-token"));
    let api = ApiSettings { tokens: vec![token("alice"), token("bob")], ..ApiSettings::default() };
    HttpServerConfig { api, ..HttpServerConfig::default() }
}

/// Does what it is told to in words.
fn obedient() -> Arc<Work> {
    Work::new(|task, stop| {
        async move {
            let parts = &task.request.message.parts;
            let text = parts[0].text.clone().unwrap_or_default();
            match text.split(' ').next().unwrap_or_default() {
                "wait" => {
                    stop.cancelled().await;
                    TaskEnd::Canceled
                }
                "slow" => {
                    // sleeps: a client in a process of its own watches it being worked on.
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    done(&format!("{} {text}", task.request.skill))
                }
                "ask" => TaskEnd::InputRequired { text: "which color?".to_owned() },
                "fail" => TaskEnd::Failed {
                    code: AgentErrorCode::ExecutionFailed,
                    message: "it broke".to_owned(),
                    is_retryable: false,
                },
                "data" => done(parts[1].data.as_deref().unwrap_or_default()),
                _ => done(&format!("{} {text}", task.request.skill)),
            }
        }
        .boxed()
    })
}

async fn worker(place: &Arc<toolbus_testkit::state::StatePlace>, work: &Arc<Work>) -> Host {
    setup(place, work).start().await
}

fn setup(place: &Arc<toolbus_testkit::state::StatePlace>, work: &Arc<Work>) -> Setup {
    let setup = Setup::new(&Broker::memory(), place, "ResearchAgent").working(work);
    let config = A2aConfig { tasks_max: 4.try_into().expect("not zero"), ..setup.config };
    Setup { config, ..setup }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_official_client_has_its_tasks_done() {
    for version in ["1.0", "0.3"] {
        for [_, place] in places().await {
            let work = obedient();
            let host = worker(&place, &work).await;
            let door = Door::open(with_tokens(), host.intake()).await;
            let Some(mut python) = a2a_sdk::python() else { return };
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/a2a/sdk_client.py");
            python.arg(script).args([&door.url(), "alice-token", version]);
            let run = tokio::task::spawn_blocking(move || python.output());
            let output = run.await.expect("it runs").expect("it starts");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let seen = serde_json::to_string_pretty(&seen).expect("a text");
            let name = format!("sdk_client_{}", version.replace('.', "_"));
            insta::allow_duplicates! { insta::assert_snapshot!(name, seen) }

            // Who asks is known by its token.
            let ran = work.ran.lock().clone();
            assert!(ran.iter().all(|task| task.caller == "http:token:http/alice"));
            let client = ran[0].client.clone().expect("a client");
            assert_eq!(&*client.name, "alice");
            assert_eq!(client.proof, Proof::Token { issuer: "http".into(), id: None });
            door.close().await;
            host.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn only_its_client_sees_a_task() {
    for [_, place] in places().await {
        let work = obedient();
        let host = worker(&place, &work).await;
        let door = Door::open(with_tokens(), host.intake()).await;
        let id = door.send("alice-token", "m1", "wait").await;
        let code = |answer: &Value| answer["error"]["code"].as_i64();
        for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
            let answer = door.ask("bob-token", method, json!({"id": id})).await;
            assert_eq!(code(&answer), Some(-32001), "{method}: {answer}");
        }
        let mut more = message("m2", "more");
        more["message"]["taskId"] = json!(id);
        assert_eq!(code(&door.ask("bob-token", "SendMessage", more).await), Some(-32001));
        let listed = door.ask("bob-token", "ListTasks", json!({})).await;
        assert_eq!(listed["result"]["totalSize"], 0);
        assert_eq!(listed["result"]["tasks"], json!([]));

        // The same message of another is another task.
        let other = door.send("bob-token", "m1", "wait").await;
        assert_ne!(id, other);
        assert_eq!(door.send("alice-token", "m1", "wait").await, id);
        door.eventually_is("alice-token", &id, "TASK_STATE_WORKING").await;
        eventually(PATIENCE, async || if work.count() == 2 { Ok(()) } else { Err(()) }).await;

        for (token, status) in [("", 401), ("alice", 401), ("carol-token", 401)] {
            let (said, _) = door.post(token, message("m", "x").to_string()).await;
            assert_eq!(said.as_u16(), status, "{token}");
        }
        door.close().await;
        host.close().await;
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_the_error_that_it_is() {
    let place = Arc::new(toolbus_testkit::state::StatePlace::sqlite());
    let work = obedient();
    let host = worker(&place, &work).await;
    let door = Door::open(HttpServerConfig::default(), host.intake()).await;

    let rpc = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let with = |change: &dyn Fn(&mut Value)| {
        let mut params = message("m", "x");
        change(&mut params["message"]);
        rpc("SendMessage", params)
    };
    let many: Vec<_> = (0..65).map(|_| json!({"text": "x"})).collect();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let bodies = [
        ("{".to_owned(), -32700),
        (String::new(), -32700),
        ("\u{0}".to_owned(), -32700),
        (nested, -32700),
        ("[]".to_owned(), -32600),
        ("7".to_owned(), -32600),
        (json!({"id": 1, "method": "GetTask"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "GetTask"}).to_string(), -32600),
        (json!({"jsonrpc": "2.0", "id": 1, "method": 7}).to_string(), -32600),
        (rpc("DropTables", json!({})), -32601),
        (rpc("tasks/list", json!({})), -32601),
        (rpc("tasks/get", json!({"id": "1"})), -32009),
        (rpc("GetTask", json!([])), -32602),
        (rpc("GetTask", json!({})), -32602),
        (rpc("GetTask", json!({"id": 7})), -32602),
        (rpc("GetTask", json!({"id": "1", "historyLength": -1})), -32602),
        (rpc("GetTask", json!({"id": ""})), -32001),
        (rpc("GetTask", json!({"id": "\u{0}"})), -32001),
        (rpc("GetTask", json!({"id": "x".repeat(10_000)})), -32001),
        (rpc("ListTasks", json!({"pageSize": 101})), -32602),
        (rpc("ListTasks", json!({"pageSize": -1})), -32602),
        (rpc("ListTasks", json!({"pageToken": "x"})), -32602),
        (rpc("ListTasks", json!({"status": "TASK_STATE_HAPPY"})), -32602),
        (rpc("ListTasks", json!({"statusTimestampAfter": "yesterday"})), -32602),
        (rpc("GetExtendedAgentCard", json!({})), -32004),
        (rpc("CreateTaskPushNotificationConfig", json!({})), -32003),
        (rpc("DeleteTaskPushNotificationConfig", json!({})), -32003),
        (rpc("SendMessage", json!({})), -32602),
        (with(&|message| message["messageId"] = json!("")), -32602),
        (with(&|message| message["messageId"] = json!("a\nb")), -32602),
        (with(&|message| message["contextId"] = json!("a\u{0}b")), -32602),
        (with(&|message| message["taskId"] = json!("nothing")), -32001),
        (with(&|message| message["role"] = json!("ROLE_AGENT")), -32602),
        (with(&|message| message["parts"] = json!([])), -32602),
        (with(&|message| message["parts"] = json!([{}])), -32602),
        (with(&|message| message["parts"] = json!(many)), -32602),
        (with(&|message| message["parts"] = json!([{"raw": "eA=="}])), -32005),
        (with(&|message| message["metadata"] = json!({"skill": "cooking"})), -32602),
    ];
    for (body, code) in bodies {
        let shown: String = body.chars().take(200).collect();
        let (status, answer) = door.post("", body).await;
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["error"]["code"], code, "{shown}: {answer}");
        assert_eq!((status.as_u16(), &answer["jsonrpc"]), (200, &json!("2.0")));
    }

    assert_eq!(work.count(), 0);
    assert_eq!(host.count("SELECT COUNT(*) FROM a2a_tasks").await, 0);
    door.close().await;
    host.close().await;
}

#[tokio::test]
async fn requests_that_are_none_are_refused_before_they_are_read() {
    let place = Arc::new(toolbus_testkit::state::StatePlace::sqlite());
    let host = worker(&place, &obedient()).await;
    let door = Door::open(HttpServerConfig::default(), host.intake()).await;
    let huge = "x".repeat(HTTP_BODY_BYTES_MAX + 1);
    assert_eq!(door.post("", huge).await.0, 413);
    let plain = http().post(format!("{}{RPC_PATH}", door.url())).body("{}").send().await;
    assert_eq!(plain.expect("an answer").status(), 415);
    let from = |name: &str, value: &str| {
        http().get(format!("{}/.well-known/agent-card.json", door.url())).header(name, value)
    };
    for (name, value) in [("host", "evil.example.com"), ("origin", "https://evil.example.com")] {
        let response = from(name, value).send().await.expect("an answer");
        assert_eq!(response.status(), 403, "{name}");
    }
    door.close().await;
    host.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_has_so_many_tasks_open_and_no_more() {
    for [_, place] in places().await {
        let work = obedient();
        let host = worker(&place, &work).await;
        let config = HttpServerConfig { client_open_max: 5, open_max: 6, ..with_tokens() };
        let door = Door::open(config, host.intake()).await;
        let mut ids = Vec::new();
        for number in 0..5 {
            ids.push(door.send("alice-token", &format!("m{number}"), "wait").await);
        }
        let refused = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message("m6", "x"),
        });
        let (status, answer) = door.post("alice-token", refused.to_string()).await;
        assert_eq!(status, 429);
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(answer["error"]["code"], -32000);
        // What is there is not refused.
        assert_eq!(door.send("alice-token", "m0", "wait").await, ids[0]);
        door.send("bob-token", "m0", "wait").await;
        let (status, _) = door.post("bob-token", refused.to_string()).await;
        assert_eq!(status, 429, "of all");

        // Four are worked on at a time; one that waits is cancelled at once.
        eventually(PATIENCE, async || if work.count() == 4 { Ok(()) } else { Err(()) }).await;
        quiet_for(A_WHILE, async || match work.count() {
            4 => Ok(()),
            count => Err(count),
        })
        .await;
        assert_eq!(door.state("alice-token", &ids[4]).await, "TASK_STATE_SUBMITTED");
        let cancelled = door.ask("alice-token", "CancelTask", json!({"id": ids[4]})).await;
        assert_eq!(cancelled["result"]["status"]["state"], "TASK_STATE_CANCELED");
        // Room that becomes free is taken.
        door.ask("alice-token", "CancelTask", json!({"id": ids[0]})).await;
        eventually(PATIENCE, async || if work.count() == 5 { Ok(()) } else { Err(()) }).await;
        assert_eq!(work.most_at_a_time.load(std::sync::atomic::Ordering::SeqCst), 4);
        door.close().await;
        host.close().await;
    }
}

/// A host that stops leaves its task to another, whose client can get it there.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_goes_on_in_another_process() {
    for [_, place] in places().await {
        let hanging = Work::new(|_, _| std::future::pending().boxed());
        let first = worker(&place, &hanging).await;
        let door = Door::open(with_tokens(), first.intake()).await;
        let id = door.send("alice-token", "m1", "hello").await;
        eventually(PATIENCE, async || if hanging.count() == 1 { Ok(()) } else { Err(()) }).await;
        door.server.drain(Duration::from_millis(50)).await;
        first.close().await;

        let work = obedient();
        let second = worker(&place, &work).await;
        let door = Door::open(with_tokens(), second.intake()).await;
        door.eventually_is("alice-token", &id, "TASK_STATE_COMPLETED").await;
        assert_eq!(work.count(), 1);
        assert!(work.ran.lock()[0].is_resumed);
        let task = door.ask("alice-token", "GetTask", json!({"id": id})).await;
        assert_eq!(task["result"]["artifacts"][0]["parts"][0]["text"], "research hello");
        // The same message still is that task.
        assert_eq!(door.send("alice-token", "m1", "hello").await, id);
        assert_eq!(work.count(), 1);
        door.close().await;
        second.close().await;
    }
}

/// A host that is killed does, once its lease is over, and the client that waited asks again.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_process_is_killed_goes_on_in_another() {
    for [_, place] in places().await {
        let hanging = Work::new(|_, _| std::future::pending().boxed());
        let killed = Process::start(&setup(&place, &hanging)).await;
        let intake = killed.host().intake();
        let open = async move { Door::open(with_tokens(), intake).await };
        let door = killed.run(open).await;
        let (url, waiting) = (door.url(), TaskTracker::new());
        let stream = waiting.spawn(async move {
            let mut params = message("m1", "hello");
            params["configuration"] = json!({});
            let body = json!({
                "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params,
            });
            let request = http().post(format!("{url}{RPC_PATH}")).body(body.to_string());
            let request = request.header("content-type", "application/json");
            let request = request.header("a2a-version", "1.0").bearer_auth("alice-token");
            request.send().await.is_err()
        });
        eventually(PATIENCE, async || if hanging.count() == 1 { Ok(()) } else { Err(()) }).await;
        killed.kill().await;
        assert!(stream.await.expect("it ends"), "the connection broke");

        let work = obedient();
        let second = worker(&place, &work).await;
        let door = Door::open(with_tokens(), second.intake()).await;
        let mut again = message("m1", "hello");
        again["configuration"] = json!({});
        let answer = door.ask("alice-token", "SendMessage", again).await;
        let task = &answer["result"]["task"];
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "research hello");
        assert_eq!((hanging.count(), work.count()), (1, 1));
        door.close().await;
        second.close().await;
    }
}

/// A stream of one process follows a task that another does.
#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_followed_from_another_process() {
    for [_, place] in places().await {
        let work = obedient();
        let host = worker(&place, &work).await;
        let door = Door::open(with_tokens(), host.intake()).await;
        let other = worker(&place, &obedient()).await;
        let other_door = Door::open(with_tokens(), other.intake()).await;
        let id = door.send("alice-token", "m1", "wait").await;
        door.eventually_is("alice-token", &id, "TASK_STATE_WORKING").await;

        for door in [&door, &other_door] {
            let stream = json!({
                "jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": id},
            });
            let request = http().post(format!("{}{RPC_PATH}", door.url()));
            let request = request.header("content-type", "application/json");
            let request = request.header("a2a-version", "1.0").bearer_auth("alice-token");
            let mut response = request.body(stream.to_string()).send().await.expect("a stream");
            let first = response.chunk().await.expect("an event").expect("an event");
            assert!(String::from_utf8_lossy(&first).contains("TASK_STATE_WORKING"));
            // It goes away, which harms nobody.
        }
        let ended = tokio::join!(
            other_door.ask("alice-token", "CancelTask", json!({"id": id})),
            door.ask("alice-token", "GetTask", json!({"id": id})),
        );
        assert_eq!(ended.0["result"]["status"]["state"], "TASK_STATE_CANCELED");
        door.close().await;
        other_door.close().await;
        host.close().await;
        other.close().await;
    }
}

/// A client that asks for streams and reads none of them has its places, and others theirs.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_harms_nobody() {
    let place = Arc::new(toolbus_testkit::state::StatePlace::sqlite());
    let work = Work::new(|task, stop| {
        async move {
            let text = task.request.message.parts[0].text.clone().unwrap_or_default();
            if text == "wait" {
                stop.cancelled().await;
                return TaskEnd::Canceled;
            }
            done(&"long ".repeat(200_000))
        }
        .boxed()
    });
    let host = worker(&place, &work).await;
    let config = HttpServerConfig { client_waiting_max: 2, waiting_max: 3, ..with_tokens() };
    let door = Door::open(config, host.intake()).await;
    let mut deaf = Vec::new();
    for number in 0..2 {
        let body = json!({
            "jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage",
            "params": message(&format!("m{number}"), "wait"),
        })
        .to_string();
        let mut stream = TcpStream::connect(door.address).await.expect("a connection");
        let head = format!(
            "POST {RPC_PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer alice-token\r\n\
             A2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).await.expect("it is sent");
        deaf.push(stream);
    }
    eventually(PATIENCE, async || if work.count() == 2 { Ok(()) } else { Err(()) }).await;

    let mut blocking = message("m9", "wait");
    blocking["configuration"] = json!({});
    let answer = door.ask("alice-token", "SendMessage", blocking).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    // Others have places, and are answered.
    let mut theirs = message("m1", "long");
    theirs["configuration"] = json!({});
    let answer = door.ask("bob-token", "SendMessage", theirs).await;
    assert_eq!(answer["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED");

    // One that goes away gives its place back.
    let mut first = [0; 64];
    deaf[0].read_exact(&mut first).await.expect("a beginning");
    drop(deaf);
    eventually(PATIENCE, async || {
        let mut again = message("m2", "long");
        again["configuration"] = json!({});
        let answer = door.ask("alice-token", "SendMessage", again).await;
        if answer["result"].is_object() { Ok(()) } else { Err(answer) }
    })
    .await;
    door.close().await;
    host.close().await;
}

/// A name on the bus is never that of a client over HTTP.
#[tokio::test]
async fn nobody_on_the_bus_has_the_name_of_a_client() {
    use toolbus_bus::Envelope;
    use toolbus_wire::message::a2a::{AgentMessage, AgentTaskError, AgentTaskRequest, ROLE_USER};
    use toolbus_wire::{Topic, topic};

    let place = Arc::new(toolbus_testkit::state::StatePlace::sqlite());
    let broker = Broker::memory();
    let work = obedient();
    let host = Setup::new(&broker, &place, "ResearchAgent").working(&work).start().await;
    let stranger = Stranger::hearing(&broker, "stranger.response").await;
    let request = AgentTaskRequest {
        task_id: "t1".to_owned(),
        context_id: None,
        skill: "research".to_owned(),
        message: AgentMessage::of_text(ROLE_USER, "x"),
    };
    let envelope = Envelope::of(&request, "http:token:http/alice")
        .with_reply_to(Topic::parse("stranger.response").expect("a topic"));
    stranger.publish(&topic::agent_task(&agent("ResearchAgent")), envelope).await;
    let errors: Vec<AgentTaskError> = stranger.heard(1).await;
    assert_eq!(errors[0].code, AgentErrorCode::InvalidRequest);
    assert_eq!(work.count(), 0);
    host.close().await;
}
