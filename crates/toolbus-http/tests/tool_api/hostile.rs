//! Clients that mean harm, at a real port: each is bounded and answered clearly, and others are
//! served meanwhile.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use toolbus_http::tool_api::CONNECTIONS_MAX;
use toolbus_runtime::http::{Limits, Server, Timeouts, serve_within};
use toolbus_testkit::state::StatePlace;

use crate::bench::{Bench, CLIENT, LIMIT, until};

/// Far longer than a client of this machine takes, and short for a test.
const TIMEOUTS: Timeouts = Timeouts {
    head: Duration::from_secs(3),
    body_idle: Duration::from_secs(2),
    body_total: Duration::from_secs(3),
    write: Duration::from_secs(1),
};

/// How long a client waits who means no harm.
const PATIENCE: Duration = Duration::from_secs(20);

/// The interface at a port.
struct Port {
    bench: Bench,
    server: Server,
}

impl Port {
    async fn open() -> Self {
        let bench = Bench::new(&StatePlace::sqlite());
        let limits = Limits { connections_max: CONNECTIONS_MAX, lifetime: None };
        let address = "127.0.0.1:0".parse().unwrap();
        let served = serve_within(&address, bench.router.clone(), limits, TIMEOUTS).await;
        let port = Self { bench, server: served.unwrap() };
        port.assert_serves().await;
        port
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.server.address()).await.unwrap()
    }

    /// Connects and sends this.
    async fn send(&self, text: impl AsRef<[u8]>) -> TcpStream {
        let mut client = self.connect().await;
        // The server may have had enough before the end.
        let _ = client.write_all(text.as_ref()).await;
        client
    }

    /// Asserts that a client who means no harm is served in time.
    async fn assert_serves(&self) {
        let asking = async {
            let body = json!({"tool_name": "echo", "params": {"text": "hi"}}).to_string();
            let head = head("POST", "/v1/execute_tool");
            let length = body.len();
            let text = format!("{head}content-length: {length}\r\nconnection: close\r\n\r\n{body}");
            read_all(self.send(text).await).await
        };
        let answer = tokio::time::timeout(PATIENCE, asking).await.expect("others are served");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        assert!(answer.contains(r#""result":"hi""#), "{answer}");
    }

    async fn close(self) {
        self.bench.api.drain(LIMIT).await;
        let closing = tokio::time::timeout(LIMIT, self.server.close());
        closing.await.expect("nothing keeps the server");
    }
}

fn head(method: &str, path: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {CLIENT}\r\n\
         content-type: application/json\r\n"
    )
}

/// All that the server says until the connection ends, however it does.
async fn read_all(mut client: TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = client.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(LIMIT, reading).await.expect("the connection ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Asserts that an answer has the envelope, and gives its code.
fn code_of(answer: &str) -> String {
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.contains("x-ratelimit-limit: "), "{head}");
    assert!(head.contains("connection: close"), "{head}");
    let body: Value = serde_json::from_str(body).expect("JSON");
    assert_eq!(body["success"], false);
    body["error"]["code"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn bodies_that_trickle_or_stall_are_answered_with_408() {
    let port = Port::open().await;
    let opening = format!("{}content-length: 1000\r\n\r\n{{", head("POST", "/v1/execute_tool"));
    let stalled = port.send(&opening).await;
    let (reader, mut writer) = port.send(&opening).await.into_split();
    let trickle = async {
        // As "a byte a second", by the clocks of this test.
        while writer.write_all(b" ").await.is_ok() {
            // sleeps: the pace of the trickle.
            tokio::time::sleep(TIMEOUTS.body_idle / 4).await;
        }
    };
    let trickled = async {
        let (mut reader, mut bytes) = (reader, vec![0; 4 << 10]);
        let length = tokio::time::timeout(LIMIT, reader.read(&mut bytes)).await.unwrap().unwrap();
        String::from_utf8_lossy(&bytes[..length]).into_owned()
    };

    let began = Instant::now();
    port.assert_serves().await;
    let trickled = tokio::select! {
        trickled = trickled => trickled,
        () = trickle => panic!("the connection ended without an answer"),
    };
    for answer in [read_all(stalled).await, trickled] {
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert_eq!(code_of(&answer), "INVALID_REQUEST");
    }
    assert!(began.elapsed() >= TIMEOUTS.body_total);
    port.close().await;
}

#[tokio::test]
async fn a_body_without_end_is_answered_with_413() {
    let port = Port::open().await;
    let opening = head("POST", "/v1/execute_tool");
    let endless = port.send(format!("{opening}transfer-encoding: chunked\r\n\r\n")).await;
    let (mut reader, mut writer) = endless.into_split();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x1_0000));
    let mut answer = vec![0; 4 << 10];
    let sending = async { while writer.write_all(chunk.as_bytes()).await.is_ok() {} };
    let reading = tokio::time::timeout(LIMIT, reader.read(&mut answer));
    let (length, ()) = tokio::join!(reading, sending);
    let length = length.expect("it is cut off").unwrap();
    let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(code_of(&answer), "INVALID_REQUEST");

    // Without a key nothing of a body is read.
    let nobody = "POST /v1/execute_tool HTTP/1.1\r\nhost: localhost\r\n\
                  content-type: application/json\r\ncontent-length: 1000000\r\n\r\n{";
    let answer = read_all(port.send(nobody).await).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
    assert_eq!(code_of(&answer), "UNAUTHORIZED");
    port.assert_serves().await;
    port.close().await;
}

#[tokio::test]
async fn heads_that_are_huge_or_never_end_are_answered() {
    let port = Port::open().await;
    let opening = head("GET", "/v1/tools");
    let unfinished = port.send(&opening).await;
    let long = format!("{opening}x-long: {}\r\n\r\n", "x".repeat(64 << 10));
    let many: String = (0..500).map(|number| format!("x-{number}: y\r\n")).collect();
    for huge in [long, format!("{opening}{many}\r\n")] {
        let answer = read_all(port.send(huge).await).await;
        assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    }
    let path = format!("GET /v1/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(64 << 10));
    let answer = read_all(port.send(path).await).await;
    assert!(answer.starts_with("HTTP/1.1 4"), "{answer}");
    port.assert_serves().await;

    let answer = read_all(unfinished).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    port.close().await;
}

#[tokio::test]
async fn garbage_behind_a_request_ends_its_connection() {
    let port = Port::open().await;
    let request = format!("{}\r\n", head("GET", "/v1/servers"));
    for garbage in [&b"\x00\xff\xfe\x16\x03\x01 nonsense\r\n\r\n"[..], b"{}{}{}\r\n\r\n"] {
        let answers = read_all(port.send([request.as_bytes(), garbage].concat()).await).await;
        assert!(answers.starts_with("HTTP/1.1 200 "), "{answers}");
        assert_eq!(answers.matches("HTTP/1.1 400 ").count(), 1, "{answers}");
    }
    // Two lengths are one request to some, and two to others.
    let twice =
        format!("{}content-length: 2\r\ncontent-length: 7\r\n\r\n{{}}", head("POST", "/v1/jobs"));
    let answer = read_all(port.send(twice).await).await;
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    port.assert_serves().await;
    port.close().await;
}

#[tokio::test]
async fn a_thousand_idle_connections_keep_nobody_out() {
    let port = Port::open().await;
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let connecting = tokio::time::timeout(PATIENCE, port.connect());
        let mut client = connecting.await.expect("there is room to connect");
        if number % 2 == 0 {
            let _ = client.write_all(b"GET /v1/to").await;
        }
        idle.push(client);
    }
    let began = Instant::now();
    port.assert_serves().await;
    port.assert_serves().await;
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    // None of them stays.
    let last = idle.pop().unwrap();
    read_all(last).await;
    port.close().await;
}

#[tokio::test]
async fn clients_that_do_not_read_their_events_hold_up_nobody() {
    let port = Port::open().await;
    let body = json!({"tool_name": "flood"});
    let job = port.bench.post(CLIENT, "/v1/jobs", body).await.data();
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    until(async || port.bench.get(CLIENT, &path).await.data()["status"] == "running").await;

    // As many as there is room for, and then more.
    let mut deaf = Vec::new();
    for _ in 0..CONNECTIONS_MAX / 2 {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4 << 10).unwrap();
        let mut client = socket.connect(port.server.address()).await.unwrap();
        let request = format!("{}\r\n", head("GET", &format!("{path}/events")));
        client.write_all(request.as_bytes()).await.unwrap();
        // It looks at the beginning, and no further.
        let mut beginning = [0; 12];
        client.read_exact(&mut beginning).await.unwrap();
        assert_eq!(&beginning, b"HTTP/1.1 200");
        deaf.push(client);
    }
    port.assert_serves().await;

    // Those that take nothing lose their connections, and make room for one that reads.
    let events = format!("{path}/events");
    until(async || {
        let request = format!("{}\r\n", head("GET", &events));
        let mut client = port.send(request).await;
        let mut beginning = [0; 12];
        client.read_exact(&mut beginning).await.is_ok() && &beginning == b"HTTP/1.1 200"
    })
    .await;
    port.bench.gate.add_permits(1);
    until(async || port.bench.get(CLIENT, &path).await.data()["status"] == "completed").await;
    port.close().await;
}
