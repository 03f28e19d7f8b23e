//! What no suite asks of a gateway, across the whole hop: client → face → RabbitMQ → bridge →
//! server, each a process of its own.

use anyhow::{Context as _, ensure};
use toolbus_testkit::eventually;
use toolbus_testkit::process::Process;

use super::*;

/// How long the calls of the waiting tool may take, by its server's entry: longer than any call may
/// take that nothing is said of.
const GRANTED_MS: u64 = 300_000;
/// How long those of the same tool may take at another server.
const SHORT_MS: u64 = 3_000;

/// A server over HTTP, of those that the bridge's client is tested with.
struct HttpServer {
    process: Process,
    folder: TempDir,
    port: u16,
}

impl HttpServer {
    async fn start(name: &str, argument: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolbus-mcp/tests/servers");
        let mut command = Command::new("python3");
        command.args(["-E", "-s", "-B"]).arg(script.join(name)).arg(argument);
        let process = Process::spawn("server", &mut command, folder.path()).unwrap();
        let port = eventually(LIMIT, async || {
            let written = process.stdout();
            anyhow::Ok(written.strip_suffix('\n').context("no port yet")?.parse::<u16>()?)
        });
        let port = port.await;
        Self { process, folder, port }
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn entry(&self) -> Value {
        json!({"type": "http", "url": self.url("/mcp")})
    }

    /// Has it do something.
    async fn order(&self, what: Value) {
        let client = toolbus_testkit::http_client_builder().build().unwrap();
        let url = self.url("/control");
        client.post(url).body(what.to_string()).send().await.unwrap();
    }
}

impl Host {
    /// A fleet on a broker, whose bridge has these servers.
    pub(super) async fn with_servers(servers: &Servers, names: &[&str]) -> Option<Self> {
        let (kit, vhost) = (servers::time()?, rabbit::vhost().await?);
        let bus = vhost.amqp_url();
        let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
        let bridge = start(bridge).await;
        let agent = launch("agent-host", &bus);
        let host = Self::serve(agent, kit.command, Some((bridge, vhost))).await;
        host.wait_for(names).await;
        Some(host)
    }
}

fn late(folder: &TempDir) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/late.py");
    json!({"command": "python3", "args": [script, folder.path()], "toolTimeoutMs": {"ask": 1500}})
}

fn marks_in(folder: &TempDir) -> Vec<String> {
    let text = std::fs::read_to_string(folder.path().join("marks")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_question_for_a_call_that_has_ended_reaches_nobody() {
    let folder = TempDir::new().unwrap();
    let servers = Servers::with(&[("late", late(&folder))]);
    let Some(host) = Host::with_servers(&servers, &["late"]).await else { return };

    // Its own caller has said that it answers, and so has the one who calls meanwhile.
    let call = |tool: &str| {
        let answers = json!({"form": {"yes": true}});
        let what = json!({"do": "call", "tool": tool, "arguments": {}, "answers": answers});
        host.step("/late", what)
    };
    let [ended] = host.does("legacy", [call("ask")]).await;
    assert_eq!(ended["isError"], true, "{ended}");
    let [other] = host.does("legacy", [call("work")]).await;

    assert_eq!(other["asked"], json!([]), "{other}");
    assert_eq!(other["content"], json!([{"type": "text", "text": "done"}]), "{other}");
    let marks = marks_in(&folder);
    assert_eq!(marks, ["asked", "cancelled", "answered cancel"]);
}

#[tokio::test]
async fn a_call_may_take_as_long_as_its_server_is_granted() {
    let servers = Servers::with(&[]);
    let mut granted = servers.marking("good");
    granted["toolTimeoutMs"] = json!({"wait": GRANTED_MS});
    let mut short = servers.marking("good");
    short["timeoutMs"] = json!(SHORT_MS);
    let config = json!({"mcpServers": {"granted": granted, "marks": short}});
    std::fs::write(servers.file(), config.to_string()).unwrap();
    let Some(host) = Host::with_servers(&servers, &["granted", "marks"]).await else { return };
    let (_, vhost) = host.fleet.as_ref().unwrap();
    vhost.declare_queue("tap", json!({"durable": true})).await.unwrap();
    vhost.bind("rockbot", "tap", "mcp.server.#").await.unwrap();

    let waiting = host.does("auto", [host.call("/granted", "wait", json!({}))]);
    let ended_and_opened = async {
        servers.wait_for_marks(&["wait"]).await;
        let [ended] = host.does("auto", [host.call("/marks", "wait", json!({}))]).await;
        servers.open_gate();
        ended
    };
    let ([waited], ended) = tokio::join!(waiting, ended_and_opened);

    // The one with less time began later, and has ended before.
    let text = ended["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("MCP server 'marks' timed out after 3000ms"), "{text}");
    assert_eq!(waited["content"], json!([{"type": "text", "text": "wait: done"}]), "{waited}");

    let sent = vhost.take("tap", 100).await.unwrap();
    let deadline = sent.iter().find_map(deadline_of_wait).expect("a call with a deadline");
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    assert!(deadline > now + GRANTED_MS / 2, "{deadline} at {now}");
}

/// When the waiting call that was granted its time ends, in milliseconds since 1970.
fn deadline_of_wait(sent: &toolbus_testkit::rabbit::Message) -> Option<u64> {
    let body: Value = serde_json::from_slice(&sent.body).ok()?;
    if body["serverName"] != "granted" || body["method"] != "tools/call" {
        return None;
    }
    let deadline = &sent.properties["headers"]["rb-rb-deadline-ms"];
    deadline.as_u64().or_else(|| deadline.as_str()?.parse().ok())
}

#[tokio::test]
async fn a_subscription_goes_on_in_a_new_session_of_its_server() {
    let server = HttpServer::start("streams.py", "200").await;
    let servers = Servers::with(&[("streams", server.entry())]);
    let Some(host) = Host::with_servers(&servers, &["streams"]).await else { return };
    for (era, _) in ERAS {
        let file = server.folder.path().join(era);
        let mut step = host.step(
            "/streams",
            json!({"do": "hear", "uri": "a://1", "tools": [], "expected": ["a://1"]}),
        );
        step["file"] = json!(file);

        let changes = async {
            eventually(LIMIT, async || {
                ensure!(file.exists(), "the subscription does not hold yet");
                Ok(())
            })
            .await;
            server.order(json!({"do": "forget"})).await;
            // A request finds out that the session is gone, with HTTP 404.
            host.does("auto", [host.call("/streams", "echo", json!({}))]).await;
            loop {
                server.order(json!({"do": "update", "uri": "a://1"})).await;
                // sleeps: the pace of the reports.
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let heard = tokio::select! {
            [heard] = host.does(era, [step]) => heard,
            () = changes => unreachable!("it reports changes until they are heard"),
        };
        assert_eq!(heard, json!(["a://1"]), "{era}: {}", server.process.stderr());
    }
}

#[tokio::test]
async fn an_answer_in_a_batch_arrives() {
    let server = HttpServer::start("hostile_http.py", "good").await;
    let servers = Servers::with(&[("batches", server.entry())]);
    let Some(host) = Host::with_servers(&servers, &["batches"]).await else { return };
    for tool in ["batch", "batch-stream"] {
        let [answer] = host.does("auto", [host.call("/batches", tool, json!({}))]).await;
        let expected = json!([{"type": "text", "text": "in a batch"}]);
        assert_eq!(answer["content"], expected, "{tool}: {answer}");
    }
}
