//! What is told of warm pods.

use std::collections::BTreeMap;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

use super::*;

#[test]
fn claims_and_refills_are_counted_by_what_became_of_them_and_pods_as_they_wait() {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let record = WarmMetrics::new(3, &provider.meter("test"));
    for claim in [
        ClaimOutcome::Hit,
        ClaimOutcome::Hit,
        ClaimOutcome::None,
        ClaimOutcome::Lost,
        ClaimOutcome::Unsuited,
    ] {
        record.count_claim(claim);
    }
    for refill in [RefillOutcome::Made, RefillOutcome::Failed, RefillOutcome::Made] {
        record.count_refill(refill);
    }
    record.set_waiting(5);
    record.set_waiting(2);
    assert_eq!(record.status(), WarmStatus { size: 3, waiting: 2, hits: 2, misses: 3 });

    provider.force_flush().expect("an exporter in memory takes everything");
    let mut points = BTreeMap::new();
    for resource in exporter.get_finished_metrics().expect("metrics") {
        for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
            let mut point = |labels: Vec<&KeyValue>, value: u64| {
                let label = labels.first().map(|label| format!(" {}", label.value));
                let name = format!("{} [{}]", metric.name(), metric.unit());
                points.insert(name + &label.unwrap_or_default(), value);
            };
            match metric.data() {
                AggregatedMetrics::U64(MetricData::Sum(sum)) => sum
                    .data_points()
                    .for_each(|data| point(data.attributes().collect(), data.value())),
                AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                    for data in sum.data_points() {
                        let value = u64::try_from(data.value()).expect("none is negative");
                        point(data.attributes().collect(), value);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let expected = [
        ("toolbus.scripts.warm.claims [{script}] hit", 2),
        ("toolbus.scripts.warm.claims [{script}] lost", 1),
        ("toolbus.scripts.warm.claims [{script}] none", 1),
        ("toolbus.scripts.warm.claims [{script}] unsuited", 1),
        ("toolbus.scripts.warm.pods [{pod}]", 2),
        ("toolbus.scripts.warm.refills [{attempt}] failed", 1),
        ("toolbus.scripts.warm.refills [{attempt}] ok", 2),
        ("toolbus.scripts.warm.size [{pod}]", 3),
    ];
    assert_eq!(points, expected.map(|(name, value)| (name.to_owned(), value)).into());
}
