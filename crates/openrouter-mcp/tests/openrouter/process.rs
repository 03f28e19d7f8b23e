//! The process around the tools: its key, its ports, who may come, how it starts and how it stops.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::process::Launch;

use crate::support::*;
use crate::upstream::*;

async fn status(program: &Program) -> Value {
    let (_, status) = program.service.look("/status").await.unwrap();
    serde_json::from_str(&status).unwrap()
}

#[tokio::test]
async fn without_a_key_every_tool_says_so() {
    let upstream = Upstream::by_the_book().await;
    let program = Program::start(keyless(&upstream.url).env("OPENROUTER_API_KEY", "")).await;
    let calls = [
        ("get_credits", json!({})),
        ("get_api_key_info", json!({})),
        ("list_models", json!({})),
        ("list_api_keys", json!({})),
        ("get_api_key", json!({ "keyHash": HASH })),
        ("get_generation", json!({ "generationId": GENERATION })),
    ];
    for (tool, arguments) in calls {
        let ended = program.call(tool, arguments).await;
        assert_eq!(ended.error["code"], "no_api_key", "{tool}");
        assert!(ended.text.contains("OPENROUTER_API_KEY"), "{}", ended.text);
    }
    assert_eq!(upstream.asked(), [], "nothing is sent without a key");
    let status = status(&program).await;
    assert_eq!(status["ready"], true);
    assert_eq!(status["components"]["openrouter"]["state"], "degraded", "{status}");
}

#[tokio::test]
async fn a_key_that_is_rotated_holds_from_the_next_call_on() {
    let upstream = Upstream::by_the_book().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    let launch = keyless(&upstream.url).env("OPENROUTER_API_KEY_FILE", &file);
    let mut program = Program::start(launch).await;
    let code = async || program.call("get_credits", json!({})).await.error["code"].clone();
    assert_eq!(code().await, "no_api_key");
    std::fs::write(&file, "sk-or-v1-of-somebody-else\n").unwrap();
    assert_eq!(code().await, "unauthorized");
    assert_eq!(status(&program).await["components"]["openrouter"]["state"], "degraded");
    // As a volume of secrets does it: another file by the same name.
    let other = folder.path().join("other");
    std::fs::write(&other, format!("{KEY}\n")).unwrap();
    std::fs::rename(&other, &file).unwrap();
    assert_eq!(code().await, Value::Null);
    assert_eq!(status(&program).await["components"]["openrouter"]["state"], "up");
    std::fs::write(&file, "two\nlines").unwrap();
    let ended = program.call("get_credits", json!({})).await;
    assert_eq!(ended.error["code"], "no_api_key");
    let file = file.to_str().unwrap();
    assert!(!ended.text.contains(file) && !ended.text.contains("two"), "{}", ended.text);
    let written = program.written();

    for secret in ["5ec2e7c0ffee", "of-somebody-else", "two\\nlines"] {
        assert!(!written.contains(secret), "{secret} is logged");
    }
}

#[tokio::test]
async fn the_key_is_not_in_what_it_prints_of_itself() {
    let launch = with_key("http://127.0.0.1:9/api/v1").arg("--print-config");
    let printed = launch.run(LIMIT).await.unwrap();
    assert!(printed.stdout.contains("api_key = \"***\""), "{}", printed.stdout);
    assert!(!printed.stdout.contains("5ec2e7c0ffee") && !printed.stderr.contains("5ec2e7c0ffee"));
}

#[tokio::test]
async fn mistakes_are_told_all_at_once() {
    let launch = Launch::new("openrouter-mcp")
        .args(["--listen", ":8080"])
        .env("OPENROUTER_API_KEY", KEY)
        .env("OPENROUTER_API_KEY_FILE", "/nowhere")
        .env("OpenRouter__BaseUrl", "https://user:word@host/api?x=1")
        .env("TOOLBUS_OPENROUTER__TIMEOUT", "0s")
        .env("TOOLBUS_OPENROUTER__ANSWER_MAX", "1GiB");
    let finished = launch.run(LIMIT).await.unwrap();
    assert_eq!(finished.status.code(), Some(2));
    let address = ["http.address", "set http.allowed_hosts", "set http.anonymous"];
    for key in ["api_key_file", "base_url", "timeout", "answer_max"].into_iter().chain(address) {
        assert!(finished.stderr.contains(key), "{key}: {}", finished.stderr);
    }
    assert!(!finished.stderr.contains("5ec2e7c0ffee"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("word@"), "{}", finished.stderr);
}

#[tokio::test]
async fn it_knows_no_bus() {
    let launch = Launch::new("openrouter-mcp").args(["--bus", "amqp://user:word@host"]);
    let finished = launch.run(LIMIT).await.unwrap();
    assert_eq!(finished.status.code(), Some(2));
    assert!(finished.stderr.contains("unexpected argument '--bus'"), "{}", finished.stderr);
    assert!(!finished.stderr.contains("word@"), "{}", finished.stderr);
    let help = Launch::new("openrouter-mcp").arg("--help").run(LIMIT).await.unwrap().stdout;
    assert!(help.contains("--stdio") && !help.contains("--bus"), "{help}");
}

#[tokio::test]
async fn only_who_may_come_is_let_in() {
    let upstream = Upstream::by_the_book().await;
    let launch = with_key(&upstream.url)
        .env("TOOLBUS_HTTP__ALLOWED_HOSTS", r#"["router.example"]"#)
        .env("TOOLBUS_HTTP__ALLOWED_ORIGINS", r#"["https://chat.example"]"#);
    let program = Program::start(launch).await;
    let call = request("get_credits", json!({}));
    let check = async |headers: &[(&str, &str)], status: u16| {
        for path in ["/", "/mcp"] {
            let (told, body) = program.post(path, headers, &call).await;
            assert_eq!(told, status, "{path} {headers:?}: {body}");
        }
    };

    check(&[], 200).await;
    check(&[("host", "router.example")], 200).await;
    check(&[("host", "router.example:8080")], 200).await;
    check(&[("host", "evil.example")], 403).await;
    check(&[("origin", "https://chat.example")], 200).await;
    check(&[("origin", "http://localhost:3000")], 200).await;
    check(&[("origin", "https://evil.example")], 403).await;
    check(&[("origin", "null")], 403).await;
    assert_eq!(upstream.asked().len(), 10, "who is not let in asks nothing");

    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "x".repeat(300_000)});
    assert_eq!(program.post("/mcp", &[], &large).await.0, 413);
    assert_eq!(program.post("/elsewhere", &[], &call).await.0, 404);
    // There are no sessions, so there is nothing to listen to.
    assert_eq!(program.get("/mcp").await.0, 405);
}

/// An address of this machine beside its loopback, where it has one.
fn outer_address() -> Option<IpAddr> {
    // Nothing is sent: the system says which address it would send from.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// A program can write what it likes into `Host`.
#[tokio::test]
async fn who_comes_from_elsewhere_may_not_use_the_names_of_this_machine() {
    let Some(address) = outer_address() else { return };
    let launch = Launch::new("openrouter-mcp")
        .args(["--listen", &format!("{address}:0")])
        .env("TOOLBUS_HTTP__ANONYMOUS", "true")
        .env("TOOLBUS_HTTP__ALLOWED_HOSTS", r#"["router.example"]"#)
        .env("NO_PROXY", "*");
    let program = Program::start(launch).await;
    let call = request("get_credits", json!({}));
    for (host, status) in [("router.example", 200), ("localhost", 403), ("127.0.0.1:8080", 403)] {
        let (told, body) = program.post("/mcp", &[("host", host)], &call).await;
        assert_eq!(told, status, "{host}: {body}");
    }
}

#[tokio::test]
async fn it_says_that_it_lives() {
    let mut program = Program::start(keyless("http://127.0.0.1:9/api/v1")).await;
    let (status, body) = program.get("/health").await;
    assert_eq!((status, body.as_str()), (200, r#"{"alive":true}"#));
    for path in ["/healthz", "/readyz"] {
        assert_eq!(program.service.look(path).await.unwrap().0, 200, "{path}");
    }
    let ended = program.service.process().terminate(Duration::from_secs(5)).await.unwrap();
    assert_eq!(ended.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_waits_for_what_runs_and_takes_nothing_new() {
    let (sender, receiver) = std::sync::mpsc::sync_channel::<()>(1);
    let receiver = parking_lot::Mutex::new(receiver);
    let upstream = Upstream::saying(move |_| {
        // The one call is answered when the process has been told to stop.
        tokio::task::block_in_place(|| receiver.lock().recv_timeout(LIMIT).unwrap());
        Say::Bytes(json_answer(200, CREDITS))
    });

    let upstream = upstream.await;
    let mut program = Program::start(with_key(&upstream.url)).await;
    let client = program.client();
    let call = client.call("get_credits", json!({}));
    let stop = async {
        toolbus_testkit::eventually(LIMIT, async || {
            anyhow::ensure!(!upstream.asked().is_empty(), "not asked yet");
            Ok(())
        })
        .await;
        let process = program.service.process();
        let stopped = process.terminate(LIMIT);
        let answer = async {
            // sleeps: the process is told to stop first.
            tokio::time::sleep(Duration::from_millis(300)).await;
            sender.send(()).unwrap();
        };
        tokio::join!(stopped, answer).0.unwrap()
    };

    let (ended, status) = tokio::join!(call, stop);
    assert_eq!(ended, Ended::success(CREDITS));
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn over_stdio_it_ends_with_its_client_and_answers_first() {
    let upstream = Upstream::by_the_book().await;
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let call = request("get_credits", json!({}));
    let launch = Launch::new("openrouter-mcp")
        .arg("--stdio")
        .env("OPENROUTER_API_KEY", KEY)
        .env("OpenRouter__BaseUrl", &upstream.url)
        .env("NO_PROXY", "127.0.0.1");
    let finished = launch.stdin(format!("{hello}\n{ready}\n{call}\n")).run(LIMIT).await.unwrap();
    assert_eq!(finished.status.code(), Some(0), "{}", finished.stderr);
    let told: Vec<Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(told.len(), 2, "{}", finished.stdout);
    assert_eq!(Ended::read(&told[1]["result"]), Ended::success(CREDITS));
}
