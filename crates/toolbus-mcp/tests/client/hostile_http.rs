//! HTTP servers that do something wrong: every call and every attempt to connect ends, typed.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_bus::{CallContext, Deadline};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, ServerState};
use toolbus_wire::ErrorCode;

use crate::support::*;

struct Server(Script);

impl Server {
    fn start(kind: &str) -> Self {
        Self(Script::start("hostile_http.py", kind))
    }

    fn entry(&self) -> Value {
        json!({
            "url": self.0.url("/s3cret-path-to-it?key=s3cret-query"),
            "headers": {"Authorization": "Bearer s3cret-token"},
        })
    }

    /// The tools that were called.
    async fn called(&self) -> Value {
        self.0.ask("/called", None).await
    }

    /// How many TCP connections to it are open, of anybody.
    fn connections(&self) -> usize {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("/proc/net/tcp");
        let server = format!("0100007F:{:04X}", self.0.port);
        let is_open = |line: &&str| {
            let mut columns = line.split_whitespace().skip(2);
            // State 01 is an established connection.
            columns.next() == Some(server.as_str()) && columns.next() == Some("01")
        };
        table.lines().filter(is_open).count()
    }
}

async fn check_connect(kind: &str, mut entry_changes: impl FnMut(&mut Value), expected: &str) {
    let server = Server::start(kind);
    let mut options = options();
    if kind == "silent" {
        options.connect_timeout = Duration::from_millis(2_000);
    }
    let mut entry = server.entry();
    entry_changes(&mut entry);
    let set = start_with(json!({"h": entry}), options).await;
    match state(&set, "h") {
        ServerState::Failed { failure, .. } => {
            assert!(failure.to_string().starts_with(expected), "{kind}: {failure}");
            assert!(!failure.to_string().contains("s3cret"), "{kind}: {failure}");
        }
        other => panic!("{kind}: {other:?}"),
    }
    set.close(Duration::ZERO).await;
    toolbus_testkit::eventually(PATIENCE, async || match server.connections() {
        0 => Ok(()),
        open => Err(format!("{kind}: {open} connections are open")),
    })
    .await;
}

#[tokio::test]
async fn attempts_to_connect_end_with_their_reason() {
    let as_it_is = |_: &mut Value| {};
    let newer = "it does not take streamable HTTP (HTTP 405 Method Not Allowed)";
    let older = &format!(
        "{newer}, and not the older HTTP with server-sent events: unexpected server response: the \
         event stream ended before it named an address"
    );
    let newer = &format!("{newer}; if it speaks the older HTTP with server-sent events, its type");
    tokio::join!(
        check_connect("silent", as_it_is, "it did not finish connecting within 2000 ms"),
        check_connect("page", as_it_is, "Unexpected content type: Some(\"text/html\")"),
        check_connect("broken", as_it_is, "HTTP 500"),
        check_connect("unauthorized", as_it_is, "it asks for authorization"),
        check_connect("unauthorized-silently", as_it_is, "it asks for authorization"),
        check_connect("unknown-token", as_it_is, "unexpected server response: HTTP 400 Bad Reque"),
        check_connect("older", |entry| entry["type"] = json!("sse"), older),
        check_connect("older", as_it_is, older),
        check_connect("older", |entry| entry["type"] = json!("http"), newer),
        check_connect("elsewhere", as_it_is, "unexpected server response: HTTP 307"),
    );
}

#[tokio::test]
async fn calls_end_with_their_error() {
    let server = Server::start("good");
    let set = start(json!({"h": server.entry()})).await;
    let check = async |tool: &str, code: ErrorCode, expected: &str| {
        let began = Instant::now();
        let is_without_end = matches!(tool, "silent" | "silent-stream" | "endless" | "resumed");
        let limit = if is_without_end { Duration::from_secs(3) } else { PATIENCE };
        let deadline = Deadline::after(limit);
        let call = call_of("h", tool, json!({})).with_context(CallContext::until(deadline));
        let error = set.call(call).await.expect_err(tool);
        assert_eq!(error.code(), code, "{tool}: {error}");
        assert!(error.to_string().contains(expected), "{tool}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{tool}: {error}");
        assert!(error.to_string().len() < 1_000, "{tool}: {} bytes", error.to_string().len());
        assert!(began.elapsed() < PATIENCE, "{tool}: {:?}", began.elapsed());
        works(&set).await;
    };
    let timeout = "MCP server 'h' timed out after 3000ms";
    let lost = "MCP server 'h' was lost during the call";
    let broken_off = "its answer broke off";
    tokio::join!(
        check("silent", ErrorCode::Timeout, timeout),
        check("silent-stream", ErrorCode::Timeout, timeout),
        check("broken", ErrorCode::ExecutionFailed, "HTTP 503"),
        check("limited", ErrorCode::RateLimited, "HTTP 429"),
        check("unauthorized", ErrorCode::AuthRequired, "asks for authorization"),
        check("page", ErrorCode::ExecutionFailed, "Unexpected content type"),
        check("no-json", ErrorCode::ExecutionFailed, "not a valid MCP message"),
        check("huge", ErrorCode::ExecutionFailed, "maximum size of 16777216 bytes"),
        check("huge-event", ErrorCode::ExecutionFailed, "more than 16777216"),
        check("cut", ErrorCode::OutcomeUnknown, lost),
        check("cut-stream", ErrorCode::OutcomeUnknown, broken_off),
        check("endless", ErrorCode::Timeout, timeout),
        check("resumed", ErrorCode::Timeout, timeout),
        // Taken for what it is, and not for what it would be unpacked.
        check("bomb", ErrorCode::ExecutionFailed, "not a valid MCP message"),
        check("headers", ErrorCode::OutcomeUnknown, lost),
        check("header", ErrorCode::OutcomeUnknown, lost),
        check("around", ErrorCode::OutcomeUnknown, "too many redirects"),
        check("forged", ErrorCode::ExecutionFailed, "the server says \"xxx"),
        check("batch-many", ErrorCode::ExecutionFailed, "has too many messages"),
    );

    // A machine that has little time for it opens few streams in one call.
    let mut streams = opened(&set).await;
    for _ in 0..10 {
        if streams.len() > PACED_MIN {
            break;
        }
        check("resumed", ErrorCode::Timeout, timeout).await;
        streams = opened(&set).await;
    }
    assert_paced(&streams);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_batch_is_read_in_an_answer_and_in_an_event() {
    let server = Server::start("good");
    let set = start(json!({"h": server.entry()})).await;
    for tool in ["batch", "batch-stream"] {
        let answer = call(&set, "h", tool, json!({})).await.expect(tool);
        assert_eq!(answer.text.as_deref(), Some("in a batch"), "{tool}");
    }
    set.close(Duration::ZERO).await;
}

/// From how many streams on it shows that they are opened with pauses.
const PACED_MIN: usize = 32;

/// How long a server says to wait reaches the caller, over the bus, and so does what is left of it.
/// Meanwhile the server is left alone.
#[tokio::test]
async fn a_server_that_asks_for_a_pause_is_left_alone_for_it() {
    let check = async |status: u16, code: ErrorCode, asked: u64| {
        let server = Server::start("good");
        let agent = crate::direct::agent(start(json!({"h": server.entry()})).await).await;
        agent.until_served().await;
        let call = async |tool: &str, arguments: Value| {
            let call = json!({"server_name": "h", "tool_name": tool, "arguments": arguments});
            agent.call("mcp_invoke_tool", call).await.unwrap_err()
        };

        let first = call("pause", json!({"status": status, "seconds": asked})).await;
        let wait = Some(Duration::from_secs(asked));
        assert_eq!((&first.code, first.retry_after), (&code, wait), "{status}: {first}");

        let held = call("echo", json!({})).await;
        assert_eq!(held.code, ErrorCode::RateLimited, "{status}: {held}");
        let left = held.retry_after.expect("what is left");
        assert!(left <= Duration::from_secs(asked.min(60)), "{status}: {left:?}");
        assert!(held.message.contains("MCP server 'h' has asked for a pause"), "{held}");
        assert_eq!(server.called().await, json!(["pause"]), "{status}: it was sent nothing else");
        agent.end().await;
    };
    tokio::join!(
        check(429, ErrorCode::RateLimited, 50),
        check(503, ErrorCode::ExecutionFailed, 50),
        // More than a minute is for the caller to wait, not to be kept from trying.
        check(429, ErrorCode::RateLimited, 3_600),
    );
}

/// An answer that is an error of the protocol asks for a pause as much as one that is not.
#[tokio::test]
async fn a_pause_beside_an_error_of_the_protocol_is_kept() {
    for status in [429, 503] {
        let server = Server::start("good");
        let set = start(json!({"h": server.entry()})).await;
        let asks = json!({"status": status, "seconds": 50, "json": true});
        call(&set, "h", "pause", asks).await.unwrap_err();
        let held = call(&set, "h", "echo", json!({})).await.unwrap_err();
        assert!(matches!(held, CallError::Paused { .. }), "{status}: {held}");
        assert_eq!(server.called().await, json!(["pause"]), "{status}: it was sent nothing else");
        set.close(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn a_pause_ends() {
    let server = Server::start("good");
    let set = start(json!({"h": server.entry()})).await;
    call(&set, "h", "pause", json!({"status": 429, "seconds": 1})).await.unwrap_err();
    toolbus_testkit::eventually(PATIENCE, async || call(&set, "h", "echo", json!({})).await).await;
    assert_eq!(server.called().await, json!(["pause", "echo"]));

    // Other errors ask for none, whatever stands beside them.
    call(&set, "h", "pause", json!({"status": 500, "seconds": 50})).await.unwrap_err();
    works(&set).await;
    set.close(Duration::ZERO).await;
}

/// When event streams were opened at the server, in seconds of its clock.
async fn opened(set: &ServerPool) -> Vec<f64> {
    let answer = call(set, "h", "opened", json!({})).await.expect("an answer");
    serde_json::from_str(&answer.text.expect("a text")).expect("a list")
}

/// They were opened again and again, with pauses.
fn assert_paced(opened: &[f64]) {
    assert!(opened.len() > PACED_MIN, "{opened:?}");
    // The seconds that are counted begin when they like.
    let most = opened
        .iter()
        .map(|begin| opened.iter().filter(|at| (*begin..begin + 1.0).contains(*at)).count())
        .max();
    assert!(most <= Some(2 * PACED_MIN), "{most:?} in a second: {opened:?}");
}

/// An event stream that ends or breaks off as soon as it is opened is opened again for as long as
/// the connection holds.
#[tokio::test]
async fn a_stream_that_ends_at_once_is_not_opened_without_a_pause() {
    for kind in ["closing", "breaking"] {
        let server = Server::start(kind);
        let set = start(json!({"h": server.entry()})).await;
        let opened = toolbus_testkit::eventually(PATIENCE, async || {
            let opened = opened(&set).await;
            let took = opened.last().zip(opened.first()).map(|(last, first)| last - first);
            // Long enough to tell a rate.
            if took > Some(2.0) { Ok(opened) } else { Err(format!("{kind}: {took:?}")) }
        })
        .await;
        assert_paced(&opened);
        set.close(Duration::ZERO).await;
    }
}

async fn works(set: &ServerPool) {
    let echo = call(set, "h", "echo", json!({})).await.expect("an answer");
    assert_eq!(echo.text.as_deref(), Some("here"));
}
