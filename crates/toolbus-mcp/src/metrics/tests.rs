//! What is counted of servers, and under which names.

use std::collections::BTreeMap;

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use super::*;

#[test]
fn connections_are_counted_by_what_became_of_them() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let metrics = Metrics::of(&provider.meter("test"));
    let server = ServerName::parse("s").unwrap();
    metrics.count_connect(&server);
    metrics.count_failed_connect(&server);
    metrics.count_failed_connect(&server);
    metrics.count_lost(&metrics.label_of(&server));
    metrics.count_hung(&server);
    metrics.count_circuit_change(&server, true);
    metrics.count_circuit_change(&server, false);
    metrics.count_circuit_change(&server, true);

    provider.force_flush().unwrap();
    let mut counted = BTreeMap::new();
    let finished = exporter.get_finished_metrics().unwrap();
    for metric in finished.iter().flat_map(|of| of.scope_metrics()).flat_map(|of| of.metrics()) {
        let AggregatedMetrics::U64(MetricData::Sum(sum)) = metric.data() else { continue };
        for point in sum.data_points() {
            let labels: BTreeMap<_, _> = point
                .attributes()
                .map(|label| (label.key.as_str(), label.value.as_str()))
                .collect();
            let labels: Vec<_> = labels.into_values().collect();
            counted.insert(format!("{} {}", metric.name(), labels.join(" ")), point.value());
        }
    }
    let expected = [
        ("toolbus.mcp.server.circuit.changes s closed", 1),
        ("toolbus.mcp.server.circuit.changes s opened", 2),
        ("toolbus.mcp.server.connections.hung s", 1),
        ("toolbus.mcp.server.connections.lost s", 1),
        ("toolbus.mcp.server.connects s failed", 2),
        ("toolbus.mcp.server.connects s ok", 1),
    ];
    assert_eq!(counted, BTreeMap::from(expected.map(|(name, count)| (name.to_owned(), count))));
}
