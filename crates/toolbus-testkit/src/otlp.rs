//! A telemetry collector that nobody here wrote: the OpenTelemetry collector, which writes what it
//! receives to a file, one JSON object a line.

use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running collector, for OTLP over HTTP. Killed at drop.
#[derive(Debug)]
pub struct Collector {
    process: Process,
    address: SocketAddr,
    received: PathBuf,
    _folder: TempDir,
}

/// A span as the collector received it.
#[derive(Debug, Clone)]
pub struct Span {
    /// 32 hexadecimal digits.
    pub trace_id: String,
    /// 16 hexadecimal digits.
    pub span_id: String,
    /// The parent's id, or `None` for the root of a trace.
    pub parent_id: Option<String>,
    /// Its name.
    pub name: String,
    /// Its kind as OTLP numbers it: 1 internal, 2 server, 3 client, 4 producer, 5 consumer.
    pub kind: u64,
    /// Whether its status is an error.
    pub is_error: bool,
    /// The `service.name` of the resource it came with.
    pub service: String,
    /// Its attributes, each value as text.
    pub attributes: BTreeMap<String, String>,
}

impl Collector {
    /// Starts a collector and waits until it listens. `None` where it has not been fetched and may
    /// be missing.
    ///
    /// # Panics
    /// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start() -> Option<Self> {
        let program = crate::parts::folder("otelcol")?.join("otelcol");
        Some(Self::launch(program).await.unwrap_or_else(|error| panic!("no collector: {error:?}")))
    }

    async fn launch(program: PathBuf) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-otlp-")?;
        let received = folder.path().join("received.jsonl");
        let settings = folder.path().join("settings.json");
        let pipeline = json!({"receivers": ["otlp"], "exporters": ["file"]});
        // JSON is YAML, which is what the collector reads.
        let text = json!({
            "receivers": {"otlp": {"protocols": {"http": {"endpoint": address.to_string()}}}},
            "exporters": {"file": {"path": received, "flush_interval": "50ms"}},
            "service": {
                "telemetry": {"metrics": {"level": "none"}},
                "pipelines": {"traces": pipeline, "metrics": pipeline, "logs": pipeline},
            },
        });

        fs::write(&settings, text.to_string())?;
        let mut command = Command::new(program);
        command.arg("--config").arg(&settings).stdin(Stdio::null());
        let process =
            Process::spawn_with("otelcol", &mut command, folder.path(), Some(folder.path()))?;
        let mut collector = Self { process, address, received, _folder: folder };
        collector.wait_until_listening().await?;

        Ok(collector)
    }

    async fn wait_until_listening(&mut self) -> anyhow::Result<()> {
        let end = Instant::now() + START_TIMEOUT;
        while TcpStream::connect(self.address).await.is_err() {
            let status = self.process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", self.process.logs());
            ensure!(
                Instant::now() < end,
                "not ready in {START_TIMEOUT:?}\n{}",
                self.process.logs()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// What `OTEL_EXPORTER_OTLP_ENDPOINT` is to be for OTLP over HTTP.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests received so far, as OTLP's own JSON: objects with `resourceSpans`,
    /// `resourceMetrics` or `resourceLogs`.
    ///
    /// # Errors
    /// When what the collector wrote is not JSON.
    pub fn requests(&self) -> anyhow::Result<Vec<Value>> {
        // There is no file before the first request.
        requests_in(&fs::read_to_string(&self.received).unwrap_or_default())
    }

    /// The spans received so far.
    ///
    /// # Errors
    /// As [`Collector::requests`].
    pub fn spans(&self) -> anyhow::Result<Vec<Span>> {
        Ok(self.requests()?.iter().flat_map(spans_of).collect())
    }

    /// The process, to be paused and read.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }
}

/// The requests in what a collector wrote to a file.
fn requests_in(text: &str) -> anyhow::Result<Vec<Value>> {
    // A line without an end is still being written.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).context("a received line")).collect()
}

/// The spans in what another collector wrote to a file, one JSON object a line.
///
/// # Errors
/// When that is not JSON.
pub fn spans_in(text: &str) -> anyhow::Result<Vec<Span>> {
    Ok(requests_in(text)?.iter().flat_map(spans_of).collect())
}

fn spans_of(request: &Value) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource in list_of(&request["resourceSpans"]) {
        let service =
            read_attributes(&resource["resource"]).remove("service.name").unwrap_or_default();
        for scope in list_of(&resource["scopeSpans"]) {
            spans.extend(list_of(&scope["spans"]).iter().map(|span| Span {
                trace_id: text_of(&span["traceId"]),
                span_id: text_of(&span["spanId"]),
                parent_id: Some(text_of(&span["parentSpanId"])).filter(|id| !id.is_empty()),
                name: text_of(&span["name"]),
                kind: span["kind"].as_u64().unwrap_or_default(),
                is_error: span["status"]["code"] == 2,
                service: service.clone(),
                attributes: read_attributes(span),
            }));
        }
    }

    spans
}

/// The attributes of a span or a resource. A value is an object with one member named by its type.
fn read_attributes(of: &Value) -> BTreeMap<String, String> {
    let value = |attribute: &Value| {
        attribute["value"].as_object().and_then(|value| value.values().next()).map(text_of)
    };
    list_of(&of["attributes"])
        .iter()
        .map(|attribute| (text_of(&attribute["key"]), value(attribute).unwrap_or_default()))
        .collect()
}

fn list_of(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(
        || if value.is_null() { String::new() } else { value.to_string() },
        str::to_owned,
    )
}
