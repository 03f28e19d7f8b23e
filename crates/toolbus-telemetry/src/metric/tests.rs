//! An instrument is what its definition says.

use opentelemetry::metrics::MeterProvider as _;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, SdkMeterProvider};

use super::*;

const BASE: Metric = Metric {
    name: "test.calls",
    kind: Kind::Counter,
    unit: "{call}",
    description: "Calls",
    attributes: &[],
};

#[test]
fn an_instrument_has_the_name_unit_and_bounds_of_its_definition() {
    let exporter = InMemoryMetricExporter::default();
    let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter.clone()).build();
    let meter = provider.meter("test");
    let duration =
        Metric { name: "test.duration", kind: Kind::Histogram(&[1.0, 2.0]), unit: "s", ..BASE };
    BASE.counter(&meter).add(3, &[]);
    duration.histogram(&meter).record(1.5, &[]);
    let up = Metric { name: "test.up", kind: Kind::ObservedGauge, unit: "1", ..BASE };
    let _up = up.observed_gauge(&meter, |observer| observer.observe(1, &[]));
    provider.force_flush().unwrap();

    let finished = exporter.get_finished_metrics().unwrap();
    let mut seen: Vec<String> = Vec::new();
    for metric in
        finished.iter().flat_map(|resource| resource.scope_metrics()).flat_map(|s| s.metrics())
    {
        let value = match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                format!("{}", sum.data_points().next().unwrap().value())
            }
            AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
                format!("{}", gauge.data_points().next().unwrap().value())
            }
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                let point = histogram.data_points().next().unwrap();
                format!("{:?}", point.bounds().collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        };
        seen.push(format!("{} {} {value}", metric.name(), metric.unit()));
    }
    seen.sort();
    assert_eq!(seen, ["test.calls {call} 3", "test.duration s [1.0, 2.0]", "test.up 1 1"]);
}

#[test]
#[should_panic(expected = "test.calls is no histogram")]
fn a_definition_makes_no_instrument_of_another_kind() {
    let _ = BASE.histogram(&SdkMeterProvider::default().meter("test"));
}
