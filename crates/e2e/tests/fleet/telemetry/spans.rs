//! The trace of one call, span by span, as a collector received it: names, kinds, parents and
//! attributes are what `docs/telemetry.md` says, and nothing in it is a secret.

use anyhow::{Context as _, ensure};
use serde_json::json;
use toolbus_telemetry::SpanKind;
use toolbus_testkit::otlp::{Collector, Span};
use toolbus_testkit::trace::{Expected, Kind, check};
use toolbus_testkit::{eventually, rabbit};

use super::{exporting, page};
use crate::support::*;

/// What must be nowhere in what is exported: a text of a script, an argument, a result, and the
/// broker's password.
const SECRETS: [&str; 3] = ["hunter2-in-a-script", "hunter2-in-an-argument", "guest:guest"];

const REPLIES: &str = "tool.result.{agent}";

/// A call of an MCP server's tool.
fn mcp_call() -> Vec<Expected> {
    vec![
        Expected::new(Kind::Internal, "agent-host", "tool.invoke mcp_invoke_tool")
            .with("rockbot.tool.name", "mcp_invoke_tool")
            .with("gen_ai.operation.name", "execute_tool")
            .with("gen_ai.tool.name", "mcp_invoke_tool"),
        Expected::publish("agent-host", "mcp.server.{agent}").below(0),
        Expected::process("mcp-bridge", "mcp.server.{agent}").below(1),
        Expected::publish("mcp-bridge", REPLIES).below(2),
        Expected::process("agent-host", REPLIES).below(3),
        Expected::new(Kind::Client, "mcp-bridge", "tools/call mark")
            .below(2)
            .with("mcp.method.name", "tools/call")
            .with("gen_ai.tool.name", "mark"),
    ]
}

/// A script that ends with 3.
fn script() -> Vec<Expected> {
    vec![
        Expected::new(Kind::Internal, "agent-host", "tool.invoke execute_python_script")
            .with("rockbot.tool.name", "execute_python_script")
            .with("gen_ai.operation.name", "execute_tool"),
        Expected::publish("agent-host", "script.invoke").below(0),
        Expected::process("scripts-manager", "script.invoke").below(1),
        Expected::new(Kind::Internal, "scripts-manager", "script.run")
            .below(2)
            .with("toolbus.scripts.runner", "bubblewrap")
            .with("toolbus.reason", "exit_code")
            .with("process.exit.code", "3")
            .failing("exit_code"),
        Expected::publish("scripts-manager", REPLIES).below(2),
        Expected::process("agent-host", REPLIES).below(4),
    ]
}

fn number(kind: SpanKind) -> u64 {
    match kind {
        SpanKind::Internal => 1,
        SpanKind::Server => 2,
        SpanKind::Client => 3,
        SpanKind::Producer => 4,
        SpanKind::Consumer => 5,
    }
}

/// A span is one of those on the page: its kind is, and it has no other attributes.
pub(crate) fn is_on_the_page(span: &Span) -> anyhow::Result<()> {
    let fits = |name: &str| match name.split_once('{') {
        // What is in braces may be left out.
        Some((beginning, _)) => span.name.starts_with(beginning.trim_end()),
        None => span.name == name,
    };
    let all: Vec<_> = page::spans().filter(|known| fits(known.name)).collect();
    let definition = all.iter().find(|known| number(known.kind) == span.kind);
    let definition = definition.with_context(|| format!("not on the page: {span:#?}"))?;
    for attribute in span.attributes.keys() {
        ensure!(
            definition.attributes.contains(&attribute.as_str()),
            "{attribute} of {} is not on the page",
            span.name
        );
    }
    ensure!(span.is_error == span.attributes.contains_key("error.type"), "{span:#?}");
    Ok(())
}

/// Waits until the trace that begins with this name has exactly these spans.
async fn traced(collector: &Collector, name: &str, expected: &[Expected]) {
    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let is_root = |span: &&Span| span.name == name && span.parent_id.is_none();
        let root = spans.iter().find(is_root).context("no trace yet")?.trace_id.clone();
        let trace: Vec<_> = spans.into_iter().filter(|span| span.trace_id == root).collect();
        check(&trace, expected)?;
        trace.iter().try_for_each(is_on_the_page)
    })
    .await;
}

fn no_secrets(collector: &Collector) {
    let all = collector.requests().unwrap().iter().map(ToString::to_string).collect::<String>();
    for secret in SECRETS {
        assert!(!all.contains(secret), "{secret} is exported");
    }
}

#[tokio::test]
async fn a_call_is_traced_span_by_span() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(collector) = Collector::start().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let service = |program| exporting(launch(program, &bus), &collector);
    let (_bridge, _manager) = tokio::join!(
        start(service("mcp-bridge").arg("--mcp-config").arg(servers.file())),
        start(service("scripts-manager")),
    );

    let arguments = json!({
        "server_name": "marks",
        "tool_name": "mark",
        "arguments": {"key": "hunter2-in-an-argument"},
    });

    let call = exporting(invocation(&bus, "mcp_invoke_tool", &arguments), &collector);
    assert_eq!(Outcome::of(call.run(LIMIT).await.unwrap()).content(), "mark: done");
    traced(&collector, "tool.invoke mcp_invoke_tool", &mcp_call()).await;

    let arguments = json!({"script": "print('hunter2-in-a-script'); raise SystemExit(3)"});
    let call = exporting(invocation(&bus, "execute_python_script", &arguments), &collector);
    call.run(LIMIT).await.unwrap();
    traced(&collector, "tool.invoke execute_python_script", &script()).await;
    no_secrets(&collector);
}
