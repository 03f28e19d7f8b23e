//! What a collector is sent of the requests of clients.

use std::collections::BTreeMap;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::{SpanId, Status};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SpanData;
use serde_json::json;
use toolbus_testkit::spans::Spans;

use super::*;
use crate::mcp::{PROMPT, REQUEST, RESOURCE, SESSION, TOOL, TOOL_ERROR};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A recorder, and what came of it.
struct Stage {
    recorder: Recorder,
    metrics: (SdkMeterProvider, InMemoryMetricExporter),
    spans: Spans,
}

impl Stage {
    fn new() -> Self {
        global::set_text_map_propagator(TraceContextPropagator::new());
        let spans = Spans::here();
        let exporter = InMemoryMetricExporter::default();
        let meters = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        let recorder = Recorder::new(&meters.meter("test"), Transport::Tcp);
        Self { recorder, metrics: (meters, exporter), spans }
    }

    /// The spans that have ended.
    fn spans(&self) -> Vec<SpanData> {
        self.spans.ended()
    }

    /// The attributes of each point, under the name of its metric.
    fn points(&self) -> Vec<(String, BTreeMap<String, String>)> {
        let (meters, exporter) = &self.metrics;
        meters.force_flush().unwrap();
        let mut points = Vec::new();
        for resource in exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
                let AggregatedMetrics::F64(MetricData::Histogram(histogram)) = metric.data() else {
                    panic!("{metric:?}");
                };
                for point in histogram.data_points() {
                    assert_eq!(point.count(), 1);
                    points.push((metric.name().to_owned(), texts(point.attributes())));
                }
            }
        }
        points
    }
}

fn texts<'a>(attributes: impl IntoIterator<Item = &'a KeyValue>) -> BTreeMap<String, String> {
    attributes.into_iter().map(|kv| (kv.key.to_string(), kv.value.to_string())).collect()
}

fn map<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn meta(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

const TOOL_OF_CALLER: About<'_> = About::Tool { name: "mark", is_listed: false };

#[test]
fn a_request_is_a_span_and_a_point() {
    let stage = Stage::new();
    let recorder = stage.recorder.about_server("Marks");
    let parent = meta(json!({"traceparent": format!("00-{TRACE}-{SPAN}-01"), "other": 1}));
    let mut operation = recorder.begin("tools/call", TOOL_OF_CALLER, &parent);
    operation.speaks("2025-11-25");
    operation.tell(SESSION, || Some("s-1"));
    operation.tell(REQUEST, || Some("7"));
    operation.is_listed("mark");
    operation.end(None);

    let spans = stage.spans();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.name, "tools/call mark");
    assert_eq!(span.span_context.trace_id().to_string(), TRACE);
    assert_eq!(span.parent_span_id.to_string(), SPAN);
    assert_eq!(span.span_kind, opentelemetry::trace::SpanKind::Server);
    assert_eq!(span.status, Status::Unset);
    let common = [
        (SERVER, "Marks"),
        (TRANSPORT, "tcp"),
        (METHOD, "tools/call"),
        (PROTOCOL, "2025-11-25"),
        (OPERATION, EXECUTE_TOOL),
        (TOOL, "mark"),
    ];
    let mut expected = map(common);
    assert_eq!(stage.points(), [(SERVER_OPERATION_DURATION.name.to_owned(), expected.clone())]);
    expected.extend(map([(SESSION, "s-1"), (REQUEST, "7")]));
    let told = texts(&span.attributes);
    for (key, value) in &expected {
        assert_eq!(told.get(key), Some(value), "{key} of {told:?}");
    }
}

#[test]
fn what_nobody_lists_is_in_no_metric() {
    let stage = Stage::new();
    let operation = stage.recorder.begin("tools/call", TOOL_OF_CALLER, &Map::new());
    operation.end(Some(Failure::Code(-32602)));

    let spans = stage.spans();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert_eq!(span.name, "tools/call");
    assert_eq!(span.parent_span_id, SpanId::INVALID);
    assert!(matches!(span.status, Status::Error { .. }), "{:?}", span.status);
    let told = texts(&span.attributes);
    assert_eq!(told.get(TOOL).map(String::as_str), Some("mark"));
    for key in [ERROR, STATUS] {
        assert_eq!(told.get(key).map(String::as_str), Some("-32602"), "{told:?}");
    }
    let expected = map([
        (TRANSPORT, "tcp"),
        (METHOD, "tools/call"),
        (OPERATION, EXECUTE_TOOL),
        (ERROR, "-32602"),
        (STATUS, "-32602"),
    ]);
    assert_eq!(stage.points(), [(SERVER_OPERATION_DURATION.name.to_owned(), expected)]);
}

#[test]
fn a_request_that_is_given_up_is_cancelled() {
    let stage = Stage::new();
    drop(stage.recorder.begin("prompts/get", About::Prompt("p"), &Map::new()));

    let spans = stage.spans();
    let [span] = &spans[..] else { panic!("{spans:?}") };
    assert!(matches!(span.status, Status::Error { .. }), "{:?}", span.status);
    assert_eq!(texts(&span.attributes).get(PROMPT).map(String::as_str), Some("p"));
    let expected = map([(TRANSPORT, "tcp"), (METHOD, "prompts/get"), (ERROR, "cancelled")]);
    assert_eq!(stage.points(), [(SERVER_OPERATION_DURATION.name.to_owned(), expected)]);
}

#[test]
fn a_session_is_a_point_at_its_end() {
    let stage = Stage::new();
    let session = stage.recorder.session("2025-06-18");
    assert_eq!(stage.points(), []);
    drop(session);
    let expected = map([(TRANSPORT, "tcp"), (PROTOCOL, "2025-06-18")]);
    assert_eq!(stage.points(), [(SERVER_SESSION_DURATION.name.to_owned(), expected)]);
}

#[test]
fn what_clients_send_as_a_context_is_checked() {
    let traceparent = format!("00-{TRACE}-{SPAN}-01");
    let long = "a=".to_owned() + &"b".repeat(600);
    for (context, is_child, state) in [
        (json!({"traceparent": traceparent, "tracestate": "a=b"}), true, "a=b"),
        (json!({"traceparent": traceparent, "tracestate": long}), true, ""),
        (json!({"traceparent": "00-nothing"}), false, ""),
        (json!({"traceparent": {"is": "none"}}), false, ""),
        (json!({"tracestate": "a=b"}), false, ""),
    ] {
        let stage = Stage::new();
        let context = meta(context);
        stage.recorder.begin("ping", About::Nothing, &context).end(None);
        let spans = stage.spans();
        let [span] = &spans[..] else { panic!("{spans:?}") };
        assert_eq!(span.parent_span_id != SpanId::INVALID, is_child, "{context:?}");
        assert_eq!(span.span_context.trace_state().header(), state, "{context:?}");
    }
}

#[test]
fn texts_of_others_are_shortened_and_what_is_asked_of_a_resource_is_left_out() {
    let stage = Stage::new();
    let name = "ä".repeat(1_000);
    let tool = About::Tool { name: &name, is_listed: true };
    let operation = stage.recorder.begin("tools/call", tool, &Map::new());
    operation.tell(REQUEST, || Some(&name));
    operation.end(Some(Failure::Because(TOOL_ERROR)));
    let uri = "file:///a?token=hunter2";
    stage.recorder.begin("resources/read", About::Resource(uri), &Map::new()).end(None);

    let spans = stage.spans();
    let [call, read] = &spans[..] else { panic!("{spans:?}") };
    assert!(call.name.len() <= "tools/call ".len() + 256, "{}", call.name.len());
    let told = texts(&call.attributes);
    assert!(told.values().all(|text| text.len() <= 256), "{told:?}");
    assert_eq!(texts(&read.attributes).get(RESOURCE).map(String::as_str), Some("file:///a"));
    let tools: Vec<_> =
        stage.points().into_iter().filter_map(|(_, mut p)| p.remove(TOOL)).collect();
    assert_eq!(tools, [crate::OTHER]);
}
