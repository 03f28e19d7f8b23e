//! The trace of a call goes on in the MCP server, and the bridge says by OpenTelemetry's names what
//! it asked of it.

use anyhow::{bail, ensure};
use serde_json::{Value, json};
use toolbus_mcp::metrics::{self, OPERATION_DURATION, SESSION_DURATION};
use toolbus_testkit::otlp::{Collector, Span};
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

/// Exports at once what it records.
pub(crate) fn exporting(launch: Launch, collector: &Collector) -> Launch {
    super::exporting(launch, collector).env("OTEL_METRIC_EXPORT_INTERVAL", "500")
}

/// Our MCP server that others' clients use, and that is instrumented, launched so. Its account is
/// nobody's.
pub(crate) async fn instrumented(so: impl FnOnce(Launch) -> Launch) -> (Service, String) {
    let launch = Launch::new("openrouter-mcp").args(["--listen", "127.0.0.1:0"]);
    let launch = launch.env("OPENROUTER_API_KEY", "sk-or-v1-of-nobody");
    let launch = launch.env("TOOLBUS_OPENROUTER__BASE_URL", "http://127.0.0.1:1");
    let service = start(so(launch)).await;
    let url = mcp_url(&service, "mcp").await;
    (service, url)
}

fn only<'a>(spans: &'a [Span], service: &str, name: &str) -> anyhow::Result<&'a Span> {
    let found: Vec<_> =
        spans.iter().filter(|span| span.service == service && span.name == name).collect();
    ensure!(found.len() == 1, "{} spans {service} {name}: {spans:#?}", found.len());
    Ok(found[0])
}

/// The points of a histogram, by their attributes.
pub(crate) fn points(requests: &[Value], metric: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for request in requests {
        for resource in request["resourceMetrics"].as_array().into_iter().flatten() {
            for scope in resource["scopeMetrics"].as_array().into_iter().flatten() {
                for one in scope["metrics"].as_array().into_iter().flatten() {
                    if one["name"] == metric {
                        let points = one["histogram"]["dataPoints"].as_array();
                        found.extend(points.into_iter().flatten().cloned());
                    }
                }
            }
        }
    }
    found
}

/// The value of an attribute of a point.
pub(crate) fn attribute<'a>(point: &'a Value, key: &str) -> Option<&'a Value> {
    let attributes = point["attributes"].as_array()?;
    let found = attributes.iter().find(|attribute| attribute["key"] == key)?;
    found["value"].as_object()?.values().next()
}

#[tokio::test]
async fn the_trace_goes_on_in_the_server() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(collector) = Collector::start().await else { return };
    let bus = vhost.amqp_url();
    let (_service, url) = instrumented(|launch| exporting(launch, &collector)).await;
    let echoing = Servers::with(&[]).marking("meta");
    let servers = Servers::with(&[("account", json!({"url": url})), ("echo", echoing)]);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let _bridge = start(exporting(bridge, &collector)).await;

    // The server of ours says what it was sent along with the call.
    let meta = mcp(&bus, "echo", "mark", json!({})).await;
    let meta: Value = serde_json::from_str(meta.content()).unwrap();
    let traceparent = meta["traceparent"].as_str().expect("a trace").to_owned();

    // A tool that it does not list is not asked for, and the name is the caller's own.
    let unlisted = mcp(&bus, "echo", "made_up", json!({})).await;
    assert_eq!(unlisted.code(), "tool_not_found");
    let dying = mcp(&bus, "marks", "die", json!({})).await;
    assert_eq!(dying.code(), "outcome_unknown");

    let called = mcp(&bus, "account", "get_credits", json!({})).await;
    assert_eq!(called.code(), "tool_error", "nobody is there to answer for the account");
    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let sent = only(&spans, "mcp-bridge", "tools/call mark")?;
        let expected = format!("00-{}-{}-01", sent.trace_id, sent.span_id);
        ensure!(traceparent == expected, "{traceparent} {expected}");

        let asked = only(&spans, "mcp-bridge", "tools/call get_credits")?;
        let served = only(&spans, "openrouter-mcp", "tools/call get_credits")?;
        ensure!(served.trace_id == asked.trace_id, "{served:?}");
        ensure!(served.parent_id.as_ref() == Some(&asked.span_id), "{served:?}");
        let taken = spans.iter().find(|span| Some(&span.span_id) == asked.parent_id.as_ref());
        ensure!(taken.is_some_and(|span| span.name == "process"), "{asked:?}");
        for (key, value) in [
            ("mcp.method.name", "tools/call"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "get_credits"),
            ("error.type", "tool_error"),
            ("network.transport", "tcp"),
            ("server.address", "127.0.0.1"),
            (metrics::SERVER, "account"),
        ] {
            ensure!(asked.attributes.get(key).map(String::as_str) == Some(value), "{asked:?}");
        }
        for key in ["mcp.protocol.version", "jsonrpc.request.id", "server.port"] {
            ensure!(asked.attributes.contains_key(key), "{key}: {asked:?}");
        }
        Ok(())
    })
    .await;
    eventually(LIMIT, async || measured(&collector.requests()?)).await;
}

/// What the metrics have of these calls.
fn measured(requests: &[Value]) -> anyhow::Result<()> {
    let points_of = |metric: &str| points(requests, metric);
    let operations = points_of(OPERATION_DURATION.name);
    let of = |server: &str, method: &str| -> Vec<&Value> {
        let has = |point: &&Value, key, value: &str| attribute(point, key) == Some(&json!(value));
        let all = operations.iter().filter(|point| has(point, metrics::SERVER, server));
        all.filter(|point| has(point, "mcp.method.name", method)).collect()
    };

    let [call, ..] = of("account", "tools/call")[..] else { bail!("{operations:#?}") };
    ensure!(attribute(call, "gen_ai.tool.name") == Some(&json!("get_credits")), "{call}");
    ensure!(attribute(call, "error.type") == Some(&json!("tool_error")), "{call}");
    ensure!(attribute(call, "mcp.session.id").is_none(), "{call}");
    let mut tools: Vec<_> = of("echo", "tools/call")
        .into_iter()
        .map(|point| attribute(point, "gen_ai.tool.name").and_then(Value::as_str))
        .collect();
    tools.sort_unstable();
    tools.dedup();
    ensure!(tools == [Some("mark")], "{tools:?}");
    ensure!(!of("echo", "tools/list").is_empty(), "{operations:#?}");
    ensure!(!of("echo", "initialize").is_empty(), "{operations:#?}");
    let dead = of("marks", "tools/call");
    let why = dead.iter().find_map(|point| attribute(point, "error.type"));
    ensure!(why == Some(&json!("connection_lost")), "{dead:#?}");
    let sessions = points_of(SESSION_DURATION.name);
    let lost: Vec<_> =
        sessions.iter().filter(|point| attribute(point, "error.type").is_some()).collect();
    ensure!(!lost.is_empty(), "{sessions:#?}");
    ensure!(
        lost.iter().all(|point| attribute(point, metrics::SERVER) == Some(&json!("marks"))),
        "{lost:#?}"
    );

    Ok(())
}
