//! What is recorded, and that each point has the attributes of its definition and no others.

use std::collections::BTreeMap;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use super::*;

/// A meter, and what was recorded with it.
struct Store {
    provider: SdkMeterProvider,
    exporter: InMemoryMetricExporter,
}

impl Store {
    fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
        Self { provider, exporter }
    }

    fn meter(&self) -> opentelemetry::metrics::Meter {
        self.provider.meter("test")
    }

    /// Each point by its metric and its attributes' values in the order of the names: a sum's
    /// value, a histogram's count.
    fn points(&self) -> BTreeMap<String, i64> {
        self.provider.force_flush().unwrap();
        let mut points = BTreeMap::new();
        let finished = self.exporter.get_finished_metrics().unwrap();
        for metric in finished.iter().flat_map(|of| of.scope_metrics()).flat_map(|of| of.metrics())
        {
            let definition = METRICS.iter().find(|known| known.name == metric.name()).unwrap();
            let mut point = |attributes: Vec<&opentelemetry::KeyValue>, value: i64| {
                for attribute in &attributes {
                    assert!(
                        definition.attributes.contains(&attribute.key.as_str()),
                        "{} of {}",
                        attribute.key,
                        definition.name
                    );
                }

                let values: BTreeMap<_, _> =
                    attributes.iter().map(|a| (a.key.as_str(), a.value.as_str())).collect();
                let values: Vec<_> = values.values().map(AsRef::as_ref).collect();
                points.insert(format!("{} {}", metric.name(), values.join(" ")), value);
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                    .data_points()
                    .for_each(|p| point(p.attributes().collect(), p.value().cast_signed())),
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    sum.data_points().for_each(|p| point(p.attributes().collect(), p.value()));
                }
                AggregatedMetrics::F64(MetricData::Histogram(all)) => all
                    .data_points()
                    .for_each(|p| point(p.attributes().collect(), p.count().cast_signed())),
                other => panic!("{other:?}"),
            }
        }

        points
    }

    fn check(&self, expected: &[(&str, i64)]) {
        let expected: BTreeMap<_, _> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        assert_eq!(self.points(), expected);
    }
}

#[test]
fn what_is_moved_is_counted_with_how_it_went() {
    let store = Store::new();
    let traffic = Traffic::of_meter("rabbitmq", &store.meter());
    drop(traffic.publishing("mcp.manage"));
    traffic.publishing("mcp.manage").error = Some("unroutable");
    drop(traffic.record_process("tool.invoke", true));
    traffic.record_process("tool.invoke", false).error = Some("panic");
    traffic.dead_letter("tool.invoke", DeadLetterReason::Expired);
    store.check(&[
        ("messaging.client.sent.messages mcp.manage publish rabbitmq", 1),
        ("messaging.client.sent.messages unroutable mcp.manage publish rabbitmq", 1),
        ("messaging.client.operation.duration mcp.manage publish send rabbitmq", 1),
        ("messaging.client.operation.duration unroutable mcp.manage publish send rabbitmq", 1),
        ("messaging.client.consumed.messages tool.invoke process rabbitmq", 2),
        ("messaging.process.duration tool.invoke process process rabbitmq", 1),
        ("messaging.process.duration panic tool.invoke process process rabbitmq", 1),
        ("toolbus.bus.redeliveries tool.invoke", 1),
        ("toolbus.bus.dead_letters tool.invoke expired", 1),
    ]);
}

#[test]
fn a_request_waits_until_its_end_and_one_that_is_dropped_was_cancelled() {
    let store = Store::new();
    let asked = Asked::of_meter("RockBot", &store.meter());
    asked.wait("script.invoke").end(None);
    asked.wait("script.invoke").end(Some("timeout"));
    drop(asked.wait("script.invoke"));
    let _waits = asked.wait("script.invoke");
    asked.record_dropped("late");
    store.check(&[
        ("toolbus.bus.requests.waiting script.invoke RockBot", 1),
        ("toolbus.bus.request.duration script.invoke RockBot", 1),
        ("toolbus.bus.request.duration timeout script.invoke RockBot", 1),
        ("toolbus.bus.request.duration cancelled script.invoke RockBot", 1),
        ("toolbus.bus.replies.dropped RockBot late", 1),
    ]);
}

#[test]
fn calls_are_counted_by_their_caller_and_callers_are_bounded() {
    let store = Store::new();
    let answered = Answered::of_meter("tool.invoke.mcp", &store.meter());
    answered.work("one").end(None);
    answered.work("one").end(Some("timeout"));
    drop(answered.work("one"));
    let repeated = answered.work("two");
    repeated.mark_repeat();
    let points = store.points();
    assert_eq!(points["toolbus.bus.calls tool.invoke.mcp one ok"], 1);
    assert_eq!(points["toolbus.bus.calls tool.invoke.mcp one timeout"], 1);
    assert_eq!(points["toolbus.bus.calls tool.invoke.mcp one dropped"], 1);
    assert_eq!(points["toolbus.bus.calls.running tool.invoke.mcp one"], 0);
    assert_eq!(points["toolbus.bus.calls.running tool.invoke.mcp two"], 1);
    assert_eq!(points["toolbus.bus.calls.repeated tool.invoke.mcp two"], 1);

    for caller in 0..1_000 {
        answered.work(&format!("agent-{caller}")).end(None);
    }

    let points = store.points();
    let of_calls = points.keys().filter(|point| point.starts_with("toolbus.bus.calls tool"));
    assert!(of_calls.count() <= 104, "{points:?}");
    assert_eq!(points["toolbus.bus.calls tool.invoke.mcp other ok"], 902);
}

#[test]
fn a_difference_of_clocks_is_recorded_by_the_agent_of_the_call() {
    let store = Store::new();
    let skew = ClockSkew::of_meter(&store.meter());
    skew.record("one", std::time::Duration::from_secs(120));
    skew.record("one", std::time::Duration::ZERO);
    skew.record("two", std::time::Duration::ZERO);
    store.check(&[("toolbus.bus.clock_skew one", 2), ("toolbus.bus.clock_skew two", 1)]);
}
