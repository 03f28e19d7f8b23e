//! What a collector is sent of the requests of the face's clients: a trace that begins in a client
//! goes on through the fleet, in both eras of the protocol.

use anyhow::ensure;
use toolbus_telemetry::mcp::{SERVER, SERVER_OPERATION_DURATION, SERVER_SESSION_DURATION};
use toolbus_testkit::eventually;
use toolbus_testkit::otlp::{Collector, Span};

use super::*;
use crate::telemetry::servers::{attribute, exporting, points};
use crate::telemetry::spans::is_on_the_page;

/// The span of the client that each call is made in.
const PARENT: &str = "b7ad6b7169203331";

/// The trace that a client of an era begins.
fn trace(era: &str) -> &'static str {
    match era {
        "legacy" => "0af7651916cd43dd8448eb211c803190",
        _ => "0af7651916cd43dd8448eb211c803191",
    }
}

fn has(span: &Span, expected: &[(&str, &str)]) -> bool {
    let value = |key: &str| span.attributes.get(key).map(String::as_str);
    expected.iter().all(|(key, expected)| value(key) == Some(expected))
}

/// The trace of a call that asked its client, as far as it is the face's.
fn goes_on(spans: &[Span], era: &str, protocol: &str) -> anyhow::Result<()> {
    let of_trace: Vec<_> = spans.iter().filter(|span| span.trace_id == trace(era)).collect();
    let named = |service: &str, name: &str| {
        let is_it = |span: &&&Span| span.service == service && span.name == name;
        of_trace.iter().copied().filter(|span| is_it(&span)).collect::<Vec<_>>()
    };

    let served = named("agent-host", "tools/call ask");
    ensure!(!served.is_empty(), "{era}: nothing yet: {of_trace:#?}");
    // A client of the newer era asks again with its answers.
    ensure!((era == "legacy") == (served.len() == 1), "{served:#?}");

    for span in &served {
        ensure!(span.parent_id.as_deref() == Some(PARENT), "{span:#?}");
        ensure!(!span.is_error, "{span:#?}");
        ensure!(span.attributes.contains_key("jsonrpc.request.id"), "{span:#?}");
        // Only the older era has sessions.
        ensure!(span.attributes.contains_key("mcp.session.id") == (era == "legacy"), "{span:#?}");
        let expected = [
            (SERVER, "asker"),
            ("mcp.method.name", "tools/call"),
            ("mcp.protocol.version", protocol),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "ask"),
            ("network.transport", "tcp"),
        ];
        ensure!(has(span, &expected), "{span:#?}");
    }

    // It runs once, for the first request, in one trace down to the server.
    let invoked = named("agent-host", "tool.invoke mcp_invoke_tool");
    let [invoked] = invoked[..] else { anyhow::bail!("{era}: {invoked:#?}") };
    let parents: Vec<_> = served.iter().map(|span| &span.span_id).collect();
    ensure!(invoked.parent_id.as_ref().is_some_and(|id| parents.contains(&id)), "{invoked:#?}");
    let asked = named("mcp-bridge", "tools/call ask");
    ensure!(asked.len() == 1, "{era}: {asked:#?}");

    Ok(())
}

/// Every request is a span, whatever became of it, and is what the page says.
fn recorded(spans: &[Span]) -> anyhow::Result<()> {
    let served: Vec<_> =
        spans.iter().filter(|s| s.service == "agent-host" && s.kind == 2).collect();
    served.iter().try_for_each(|span| is_on_the_page(span))?;
    for method in ["initialize", "server/discover", "tools/list"] {
        ensure!(served.iter().any(|span| span.name == method), "{method}: {served:#?}");
    }
    let unknown = [("gen_ai.tool.name", "made_up"), ("error.type", "-32602")];
    let refused: Vec<_> = served.iter().filter(|span| has(span, &unknown)).collect();
    ensure!(refused.len() == ERAS.len(), "{served:#?}");
    // Its name is the client's own.
    ensure!(refused.iter().all(|span| span.name == "tools/call" && span.is_error), "{refused:#?}");
    Ok(())
}

/// What the metrics have of it.
fn measured(requests: &[Value]) -> anyhow::Result<()> {
    let operations = points(requests, SERVER_OPERATION_DURATION.name);
    for (_, protocol) in ERAS {
        let has = |point: &Value, key, value: &str| attribute(point, key) == Some(&json!(value));
        let calls: Vec<_> = operations
            .iter()
            .filter(|point| has(point, "mcp.method.name", "tools/call"))
            .filter(|point| has(point, "mcp.protocol.version", protocol))
            .collect();
        ensure!(calls.iter().any(|point| has(point, "gen_ai.tool.name", "ask")), "{operations:#?}");
        let refused: Vec<_> =
            calls.iter().filter(|point| has(point, "error.type", "-32602")).collect();
        ensure!(!refused.is_empty(), "{operations:#?}");
        let unnamed = |point: &&&Value| attribute(point, "gen_ai.tool.name").is_none();
        ensure!(refused.iter().all(unnamed), "{refused:#?}");
        ensure!(calls.iter().all(|point| attribute(point, "mcp.session.id").is_none()));
    }

    let sessions = points(requests, SERVER_SESSION_DURATION.name);
    let protocols: Vec<_> =
        sessions.iter().filter_map(|point| attribute(point, "mcp.protocol.version")).collect();
    ensure!(!protocols.is_empty(), "no session has ended yet");
    ensure!(protocols.iter().all(|protocol| **protocol == "2025-11-25"), "{sessions:#?}");

    Ok(())
}

#[tokio::test]
async fn a_trace_of_a_client_goes_on_through_the_face() {
    let Some(collector) = Collector::start().await else { return };
    let so = |launch| exporting(launch, &collector);
    let Some((host, _servers)) = Host::with_asker_in(json!({}), so).await else { return };

    for (era, _) in ERAS {
        let mut ask = host.call("/asker", "ask", json!({}));
        ask["answers"] = json!({"form": {"name": "Ada"}, "word": "ok", "roots": []});
        ask["meta"] = json!({"traceparent": format!("00-{}-{PARENT}-01", trace(era))});
        let list = host.step("/asker", json!({"do": "list"}));
        let made_up = host.call("/asker", "made_up", json!({}));
        let [told, _, refused] = host.does(era, [ask, list, made_up]).await;
        assert_eq!(told["content"], json!([{"type": "text", "text": "Ada: ok"}]), "{told}");
        assert_eq!(refused["error"], -32602, "{refused}");
    }

    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        for (era, protocol) in ERAS {
            goes_on(&spans, era, protocol)?;
        }
        recorded(&spans)
    })
    .await;
    eventually(LIMIT, async || measured(&collector.requests()?)).await;
}
