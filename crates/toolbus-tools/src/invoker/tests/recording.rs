//! Every call is one span and one metric point.

use std::collections::BTreeMap;

use opentelemetry::KeyValue;
use opentelemetry::metrics::MeterProvider as _;
use opentelemetry::trace::Status;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use toolbus_testkit::spans::Spans;

use super::*;

/// An invoker whose metrics can be looked at.
struct Measured {
    invoker: Invoker,
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Measured {
    fn new<F, Fut>(work: F) -> Self
    where
        F: Fn(Invocation) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let invoker = builder(work).meter(provider.meter("test")).build();
        Self { invoker, provider, exporter }
    }

    /// Each metric point by its metric and labels, with how many calls it counts.
    fn points(&self) -> BTreeMap<String, u64> {
        self.provider.force_flush().unwrap();
        let mut points = BTreeMap::new();
        for resource in self.exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
                let name = format!("{} [{}]", metric.name(), metric.unit());
                let mut point = |labels: Vec<&KeyValue>, count| {
                    let labels: BTreeMap<_, _> =
                        labels.iter().map(|kv| (kv.key.as_str(), kv.value.as_str())).collect();
                    points.insert(format!("{name} {labels:?}"), count);
                };
                match metric.data() {
                    AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                        assert!(sum.is_monotonic());
                        for data in sum.data_points() {
                            point(data.attributes().collect(), data.value());
                        }
                    }
                    AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                        for data in histogram.data_points() {
                            point(data.attributes().collect(), data.count());
                        }
                    }
                    other => panic!("{name}: {other:?}"),
                }
            }
        }
        points
    }

    fn check(&self, expected: &[(&str, u64)]) {
        let mut all = BTreeMap::new();
        for (status, count) in expected {
            let labels = if *status == "tool_not_found" {
                format!("{{\"rockbot.tool.status\": \"{status}\"}}")
            } else {
                format!(
                    "{{\"rockbot.tool.name\": \"work\", \"rockbot.tool.status\": \"{status}\"}}"
                )
            };
            if *status != "tool_not_found" {
                all.insert(format!("rockbot.tool.invoke.duration [ms] {labels}"), *count);
            }
            all.insert(format!("rockbot.tool.invocations [{{invocation}}] {labels}"), *count);
        }
        assert_eq!(self.points(), all);
    }
}

#[tokio::test]
async fn every_outcome_is_counted_once() {
    let measured = Measured::new(|call: Invocation| async move {
        match call.arguments.get("n").and_then(Value::as_u64) {
            Some(1) => Ok(Output::error("it says so itself")),
            Some(2) => Err(CallError::execution_failed("it broke")),
            Some(3) => panic!("on request"),
            Some(4) => pending().await,
            Some(5) => Err(CallError::new(ErrorCode::from("any text of a peer"), "")),
            _ => Ok(Output::text("fine")),
        }
    });
    let invoke = |arguments| measured.invoker.invoke(call(arguments));
    assert!(invoke(json!({"n": 1})).await.is_ok());
    // An alias is the same tool.
    let by_alias = Call { tool: name("Work"), ..call(json!({})) };
    assert!(measured.invoker.invoke(by_alias).await.is_ok());
    for failing in [json!({"n": 2}), json!({"n": 3}), json!({"n": 5}), json!([])] {
        assert!(invoke(failing).await.is_err());
    }
    let late = Call { time: CallTime::within(Duration::from_millis(1)), ..call(json!({"n": 4})) };
    assert!(measured.invoker.invoke(late).await.is_err());
    for missing in ["missing", "any other"] {
        let missing = Call { tool: name(missing), ..call(json!({})) };
        assert!(measured.invoker.invoke(missing).await.is_err());
    }
    measured.check(&[
        ("ok", 2),
        ("execution_failed", 2),
        ("invalid_arguments", 1),
        ("other", 1),
        ("timeout", 1),
        ("tool_not_found", 2),
    ]);
}

#[tokio::test]
async fn a_call_that_is_dropped_is_counted_as_cancelled() {
    let measured = Measured::new(|_| pending());
    assert!(measured.invoker.invoke(call(json!({}))).now_or_never().is_none());
    measured.check(&[("cancelled", 1)]);
}

#[tokio::test]
async fn every_call_is_a_span() {
    let spans = Spans::here();
    let invoker = invoker(|_| ready(Ok(Output::text("fine"))));
    assert!(invoker.invoke(call(json!({}))).await.is_ok());
    assert!(invoker.invoke(call(json!([]))).await.is_err());
    drop(invoker.invoke(Call { tool: name("missing"), ..call(json!({})) }).await);

    let spans = spans.ended();
    let attribute = |index: usize, key: &str| {
        let attributes = &spans[index].attributes;
        attributes.iter().find(|kv| kv.key.as_str() == key).map(|kv| kv.value.to_string())
    };
    let names: Vec<_> = spans.iter().map(|span| span.name.as_ref()).collect();
    assert_eq!(names, ["tool.invoke work", "tool.invoke work", "tool.invoke missing"]);
    for index in 0..3 {
        assert_eq!(attribute(index, "rockbot.tool.call_id").as_deref(), Some("call_1"));
    }
    assert_eq!(attribute(0, "rockbot.tool.name").as_deref(), Some("work"));
    assert_eq!(attribute(0, "toolbus.tool.subject").as_deref(), Some("test/work"));
    assert_eq!(attribute(2, "toolbus.tool.subject"), None);
    assert_eq!(attribute(0, "gen_ai.operation.name").as_deref(), Some("execute_tool"));
    assert_eq!(attribute(0, "gen_ai.tool.name").as_deref(), Some("work"));
    assert_eq!(attribute(0, "gen_ai.tool.call.id").as_deref(), Some("call_1"));
    assert_eq!(attribute(0, "rockbot.tool.error_code"), None);
    assert_eq!(attribute(0, "error.type"), None);
    assert_eq!(attribute(1, "error.type").as_deref(), Some("invalid_arguments"));
    assert_eq!(spans[0].status, Status::Unset);
    assert_eq!(attribute(1, "rockbot.tool.error_code").as_deref(), Some("invalid_arguments"));
    assert_eq!(attribute(2, "rockbot.tool.error_code").as_deref(), Some("tool_not_found"));
    assert!(matches!(spans[1].status, Status::Error { .. }));
}
