//! Results as long as a message may be: how much memory they take on their way.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::body::Bytes;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use e2e::bench::{Goal, Report, Rounds, Row, process};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit;

use crate::hop::{Fleet, READY_TIMEOUT};

/// Length of a result, in bytes: what the rest of its message takes is left of 16 MiB.
const RESULT_BYTES: usize = (16 << 20) - 1024;
const ROUNDS: usize = 3;
/// Until an allocator has given back what was freed.
const SETTLE: Duration = Duration::from_secs(12);
const VERSION: &str = "2025-11-25";
const SERVER: &str = "large";
/// A result of this tool is one array of zeros, and one of the other a text.
const ZEROS: &str = "zeros";
const LETTERS: &str = "letters";

/// Answers what clients ask the server of the long results, which are written and never values.
pub(crate) async fn answer(body: Bytes) -> Response {
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &request["id"];
    if id.is_null() {
        return axum::http::StatusCode::ACCEPTED.into_response();
    }

    let tool = |name| json!({"name": name, "inputSchema": {"type": "object"}});
    let result = match (request["method"].as_str(), request["params"]["name"].as_str()) {
        (Some("initialize"), _) => json!({
            "protocolVersion": VERSION,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": SERVER, "version": "1"},
        })
        .to_string(),
        (Some("tools/list"), _) => json!({"tools": [tool(ZEROS), tool(LETTERS)]}).to_string(),
        (Some("tools/call"), Some(ZEROS)) => {
            let zeros = "0,".repeat(RESULT_BYTES / 2 - 30);
            format!(r#"{{"content":[],"structuredContent":{{"a":[{zeros}0]}}}}"#)
        }
        (Some("tools/call"), Some(LETTERS)) => {
            let text = "x".repeat(RESULT_BYTES - 60);
            format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#)
        }
        _ => {
            let error = json!({"code": -32601, "message": "no such method"});
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
            return ([(CONTENT_TYPE, "application/json")], answer).into_response();
        }
    };
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
    ([(CONTENT_TYPE, "application/json")], answer).into_response()
}

pub(crate) fn measure(report: &mut Report, runtime: &Runtime, server: &str) -> anyhow::Result<()> {
    let Some(vhost) = runtime.block_on(rabbit::vhost()) else { return Ok(()) };
    let broker = vhost.amqp_url();
    let folder = tempfile::tempdir()?;
    let entry = json!({SERVER: {"type": "http", "url": format!("{server}/large")}});
    let mut fleet = runtime.block_on(Fleet::with(&broker, entry, folder.path()))?;
    let mut face = runtime.block_on(Face::start(&broker))?;

    let rounds = crate::rounds(ROUNDS);
    for tool in [ZEROS, LETTERS] {
        let [mut growth, mut length] = std::array::from_fn(|_| Rounds::new());
        for _ in 0..rounds {
            let processes = [fleet.bridge.process().id(), face.service.process().id()];
            std::thread::sleep(SETTLE);
            let before = sum(processes, process::resident_mib)?;
            for process in processes {
                process::forget_peak(process)?;
            }

            let bytes = runtime.block_on(face.call(tool))?;
            growth.add(sum(processes, process::peak_mib)? - before);
            length.add(bytes as f64 / f64::from(1 << 20));
        }
        report.add(
            Row::new(format!("memory for a result of {tool}, peer its length"), "MiB", growth)
                .beside(length)
                .with_goal(Goal::RatioAtMost(3.0)),
        );
    }

    runtime.block_on(fleet.toolbus.close());
    report.note(format!(
        "Memory: a result of 16 MiB, one array of zeros or one text, from a server over HTTP through \
         `mcp-bridge`, RabbitMQ and the MCP endpoint of `agent-host` to a client; how far the most \
         resident memory of both processes rises above what they had before, {} s after the result \
         before. {rounds} rounds each.",
        SETTLE.as_secs()
    ));
    Ok(())
}

fn sum(processes: [u32; 2], memory_mib: fn(u32) -> anyhow::Result<f64>) -> anyhow::Result<f64> {
    processes.into_iter().map(memory_mib).sum()
}

/// `agent-host` with its MCP endpoint, and a client of it with a session.
struct Face {
    service: Service,
    http: reqwest::Client,
    url: String,
    session: String,
}

impl Face {
    async fn start(broker: &str) -> anyhow::Result<Self> {
        // reqwest panics without a process-wide provider. Another's stays if there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let serve = ["--bus", broker, "serve", "--mcp", "127.0.0.1:0"];
        let mut service = Launch::new("agent-host").args(serve).start()?;
        service.ready(READY_TIMEOUT).await?;
        let http = toolbus_testkit::http_client_builder().build()?;
        let mut face = Self { service, http, url: String::new(), session: String::new() };
        toolbus_testkit::eventually(READY_TIMEOUT, async || {
            let (_, status) = face.service.look("/status").await?;
            ensure!(status.contains(&format!("\"{SERVER}\"")), "{status}");
            Ok(())
        })
        .await;

        let (_, status) = face.service.look("/status").await?;
        let status: Value = serde_json::from_str(&status)?;
        let address = status["details"]["mcpFace"].as_str().context("no MCP endpoint")?;
        face.url = format!("http://{address}/mcp/{SERVER}");
        let hello = json!({
            "protocolVersion": VERSION,
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        let welcome = face.post("initialize", hello).await?;
        face.session = welcome.headers()["mcp-session-id"].to_str()?.to_owned();
        Ok(face)
    }

    async fn post(&self, method: &str, params: Value) -> anyhow::Result<reqwest::Response> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", VERSION)
            .body(body.to_string());
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        Ok(request.send().await?.error_for_status()?)
    }

    /// Calls a tool, and returns how long the answer is. What comes is not kept.
    async fn call(&self, tool: &str) -> anyhow::Result<usize> {
        let mut answer = self.post("tools/call", json!({"name": tool, "arguments": {}})).await?;
        let mut bytes = 0;
        while let Some(chunk) = answer.chunk().await? {
            bytes += chunk.len();
        }
        ensure!(bytes >= RESULT_BYTES, "the result has {bytes} bytes");
        Ok(bytes)
    }
}
