//! A small OTLP collector: takes protobuf over HTTP and keeps what it was sent.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message;
use tokio::task::JoinSet;

/// A collector that answers every request with one status.
pub(crate) struct Collector {
    url: String,
    shared: Arc<Shared>,
    _server: JoinSet<()>,
}

struct Shared {
    status: StatusCode,
    received: Mutex<Received>,
    requests: Mutex<usize>,
}

/// What was exported, of all requests.
#[derive(Clone, Default)]
pub(crate) struct Received {
    pub(crate) spans: Vec<Span>,
    pub(crate) logs: Vec<Log>,
    pub(crate) metrics: BTreeMap<String, i64>,
    pub(crate) resource: BTreeMap<String, String>,
    pub(crate) authorizations: Vec<String>,
    /// Whether the last request was.
    pub(crate) compressed: bool,
}

/// A log line.
#[derive(Clone)]
pub(crate) struct Log {
    pub(crate) body: String,
    pub(crate) target: String,
    pub(crate) trace_id: Vec<u8>,
}

impl Collector {
    pub(crate) async fn start(status: u16) -> Self {
        Self::start_at("127.0.0.1:0", status).await
    }

    pub(crate) async fn start_at(address: &str, status: u16) -> Self {
        let status = StatusCode::from_u16(status).unwrap();
        let shared =
            Arc::new(Shared { status, received: Mutex::default(), requests: Mutex::default() });
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router =
            Router::new().route("/v1/{signal}", post(take)).with_state(Arc::clone(&shared));
        let mut server = JoinSet::new();
        server.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, _server: server }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn received(&self) -> Received {
        self.shared.received.lock().clone()
    }

    pub(crate) fn requests(&self) -> usize {
        *self.shared.requests.lock()
    }
}

async fn take(
    State(shared): State<Arc<Shared>>,
    Path(signal): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    *shared.requests.lock() += 1;
    let mut received = shared.received.lock();
    assert_eq!(headers["content-type"], "application/x-protobuf");
    if let Some(value) = headers.get("authorization") {
        received.authorizations.push(value.to_str().unwrap().to_owned());
    }
    received.compressed = headers.get("content-encoding").is_some_and(|value| value == "gzip");
    let body = if received.compressed { unpacked(&body) } else { body };
    match signal.as_str() {
        "traces" => received.take_traces(ExportTraceServiceRequest::decode(body).unwrap()),
        "metrics" => received.take_metrics(ExportMetricsServiceRequest::decode(body).unwrap()),
        "logs" => received.take_logs(ExportLogsServiceRequest::decode(body).unwrap()),
        other => panic!("{other} is no signal"),
    }
    shared.status
}

impl Received {
    fn take_traces(&mut self, request: ExportTraceServiceRequest) {
        for part in request.resource_spans {
            self.take_resource(part.resource);
            self.spans.extend(part.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }

    fn take_metrics(&mut self, request: ExportMetricsServiceRequest) {
        for part in request.resource_metrics {
            self.take_resource(part.resource);
            for metric in part.scope_metrics.into_iter().flat_map(|scope| scope.metrics) {
                let Some(Data::Sum(sum)) = metric.data else { continue };
                let Some(Number::AsInt(value)) = sum.data_points[0].value else { continue };
                self.metrics.insert(metric.name, value);
            }
        }
    }

    fn take_logs(&mut self, request: ExportLogsServiceRequest) {
        for part in request.resource_logs {
            self.take_resource(part.resource);
            for scope in part.scope_logs {
                let target = scope.scope.map(|scope| scope.name).unwrap_or_default();
                self.logs.extend(scope.log_records.into_iter().map(|record| Log {
                    body: text(record.body),
                    target: target.clone(),
                    trace_id: record.trace_id,
                }));
            }
        }
    }

    fn take_resource(&mut self, resource: Option<Resource>) {
        let attributes = resource.into_iter().flat_map(|resource| resource.attributes);
        self.resource.extend(attributes.map(|KeyValue { key, value, .. }| (key, text(value))));
    }
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        other => format!("{other:?}"),
    }
}

fn unpacked(body: &[u8]) -> Bytes {
    let mut unpacked = Vec::new();
    GzDecoder::new(body).read_to_end(&mut unpacked).unwrap();
    unpacked.into()
}
