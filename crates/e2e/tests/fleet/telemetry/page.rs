//! `docs/telemetry.md` says what is really recorded: it is made from the tables that instruments
//! are made from.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use toolbus_telemetry::{Kind, Metric, Span, SpanKind, mcp};

const HEAD: &str = "\
# Telemetry

Made from the definitions in the code; `UPDATE_DOCS=1 cargo test -p e2e telemetry` writes it anew.

Every program exports traces, metrics and logs by OTLP (protobuf over HTTP) as soon as it is told
where to: `telemetry.endpoint` in its settings, or `OTEL_EXPORTER_OTLP_ENDPOINT`. The standard
variables of OpenTelemetry are honoured (sampler, headers, intervals, resource attributes). A
collector that cannot be reached costs one warning: work goes on, what is not exported is dropped
once its queue is full (2048 spans, 2048 log lines), and the end of a program waits at most a few
seconds for it.

* The resource of everything is `service.name` (the program, unless the settings say otherwise),
  `service.version`, `service.instance.id` (new for each process) and `toolbus.name`.
* One call is one trace through all processes. The context travels in the header `rb-traceparent`
  on the bus, and in `_meta` of a request to an MCP server or from an MCP client.
  A task for another agent over the bus is in the trace of the call that asks for it, and so is the
  turn that does it; a subagent has a trace of its own, linked to the call that has spawned it.
* A log line that is written during a call has its `trace_id` and `span_id`, on standard error
  (`log.format = \"json\"`) as by OTLP.
* The number of time series is bounded where they begin: topics are counted without the names in
  them (`tool.result.{agent}`), and of agents, servers and tools the first 100, 200 and 500 that a
  process meets are told apart, the rest being `other`.
* No attribute holds arguments, results, or credentials.

The dashboards and alerts in `deploy/dashboards` are made of the metrics below, of `target_info`, by
which Prometheus keeps the resource of each process, and of the broker's own: RabbitMQ's plugin
`rabbitmq_prometheus` gives `rabbitmq_global_messages_redelivered_total` at `/metrics`, and
`rabbitmq_detailed_queue_messages_ready`, `rabbitmq_detailed_queue_messages_unacked` and
`rabbitmq_detailed_queue_consumers` at
`/metrics/detailed?family=queue_coarse_metrics&family=queue_consumer_count`.

";

/// Who records them, and what.
const TABLES: [(&str, &[Metric], &[Span]); 15] = [
    ("Calls of tools", toolbus_tools::metrics::METRICS, toolbus_tools::metrics::SPANS),
    ("The agent", &[], toolbus_agent::spans::SPANS),
    ("Tasks between agents", toolbus_a2a::metrics::METRICS, &[]),
    ("Subagents", toolbus_subagents::metrics::METRICS, toolbus_subagents::metrics::SPANS),
    ("Wisps", toolbus_wisps::metrics::METRICS, &[]),
    ("Discovery of tools", toolbus_discovery::metrics::METRICS, &[]),
    ("Schedules", toolbus_schedule::metrics::METRICS, &[]),
    ("Models", toolbus_models::metrics::METRICS, toolbus_models::metrics::SPANS),
    ("The bus", toolbus_bus::metrics::METRICS, toolbus_bus::metrics::SPANS),
    ("The connection to RabbitMQ", toolbus_rabbitmq::metrics::METRICS, &[]),
    ("MCP servers, in the bridge", toolbus_mcp::metrics::METRICS, toolbus_mcp::metrics::SPANS),
    ("Scripts", toolbus_scripts::metrics::METRICS, toolbus_scripts::metrics::SPANS),
    ("Scripts in pods", toolbus_pods::metrics::METRICS, &[]),
    ("MCP clients, in `agent-host` and `openrouter-mcp`", mcp::METRICS, mcp::SPANS),
    ("Telemetry itself", toolbus_runtime::telemetry::METRICS, &[]),
];

/// Every metric that our programs record.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    TABLES.iter().flat_map(|(_, metrics, _)| *metrics)
}

/// Every span that our programs make.
pub(crate) fn spans() -> impl Iterator<Item = &'static Span> {
    TABLES.iter().flat_map(|(_, _, spans)| *spans)
}

/// What Prometheus calls a metric that it takes by OTLP.
pub(crate) fn prometheus_name(metric: &Metric) -> String {
    let unit = match metric.unit {
        "s" => "_seconds",
        "ms" => "_milliseconds",
        "By" => "_bytes",
        braces if braces.starts_with('{') => "",
        other => panic!("{} has the unit {other}, whose name is not known here", metric.name),
    };
    let total = match metric.kind {
        Kind::Counter | Kind::ObservedCounter => "_total",
        Kind::UpDownCounter | Kind::Histogram(_) | Kind::ObservedGauge => "",
    };
    format!("{}{unit}{total}", metric.name.replace('.', "_"))
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    page.push_str("## Metrics\n");
    for (title, metrics, _) in TABLES {
        writeln!(page, "\n### {title}\n").unwrap();
        page.push_str(
            "| metric | in Prometheus | kind | attributes | what |\n|---|---|---|---|---|\n",
        );
        for metric in metrics {
            let kind = match metric.kind {
                Kind::Counter | Kind::ObservedCounter => "counter",
                Kind::UpDownCounter => "up-down counter",
                Kind::Histogram(_) => "histogram",
                Kind::ObservedGauge => "gauge",
            };
            let Metric { name, unit, description, .. } = metric;
            let (prometheus, attributes) = (prometheus_name(metric), list(metric.attributes));
            let row = format!("| `{name}` | `{prometheus}` | {kind}, `{unit}` | {attributes} |");
            writeln!(page, "{row} {description} |").unwrap();
        }
    }

    page.push_str("\n## Spans\n\n| span | kind | attributes | what |\n|---|---|---|---|\n");
    for span in spans() {
        let kind = match span.kind {
            SpanKind::Internal => "internal",
            SpanKind::Producer => "producer",
            SpanKind::Consumer => "consumer",
            SpanKind::Client => "client",
            SpanKind::Server => "server",
        };
        let Span { name, description, .. } = span;
        let attributes = list(span.attributes);
        writeln!(page, "| `{name}` | {kind} | {attributes} | {description} |").unwrap();
    }

    page.push_str(
        "\nOne that failed has the status ERROR and says why in `error.type`. Signs of life make no \
         spans.\n",
    );

    page
}

fn list(attributes: &[&str]) -> String {
    let quoted: Vec<String> = attributes.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[test]
fn the_page_of_telemetry_is_true() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/telemetry.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == page, "docs/telemetry.md is stale: UPDATE_DOCS=1 cargo test -p e2e telemetry");
}

#[test]
fn definitions_are_in_order() {
    let mut names = BTreeSet::new();
    for metric in metrics() {
        assert!(names.insert(metric.name), "{} is defined twice", metric.name);
        let is_fragment = !metric.description.ends_with('.') && !metric.description.is_empty();
        assert!(is_fragment, "{}: {}", metric.name, metric.description);
        prometheus_name(metric);
    }
}
