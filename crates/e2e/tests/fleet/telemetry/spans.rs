//! The trace of one call, span by span, as a collector received it: names, kinds, parents and
//! attributes are what `docs/telemetry.md` says, and nothing in it is a secret.

use anyhow::{Context as _, ensure};
use serde_json::json;
use toolbus_telemetry::SpanKind;
use toolbus_testkit::otlp::{Collector, Span};
use toolbus_testkit::{eventually, rabbit};

use super::{exporting, page};
use crate::support::*;

/// What must be nowhere in what is exported: a text of a script, an argument, a result, and the
/// broker's password.
const SECRETS: [&str; 3] = ["hunter2-in-a-script", "hunter2-in-an-argument", "guest:guest"];

/// A span that a trace must have.
struct Expected {
    service: &'static str,
    name: &'static str,
    /// Which of the spans before it in the list is its parent; the first has none.
    parent: usize,
    attributes: &'static [(&'static str, &'static str)],
}

const fn span(
    service: &'static str,
    name: &'static str,
    parent: usize,
    attributes: &'static [(&'static str, &'static str)],
) -> Expected {
    Expected { service, name, parent, attributes }
}

const TEMPLATE: &str = "messaging.destination.template";
const RABBITMQ: (&str, &str) = ("messaging.system", "rabbitmq");

/// A call of an MCP server's tool.
const MCP: [Expected; 6] = [
    span(
        "agent-host",
        "tool.invoke mcp_invoke_tool",
        0,
        &[
            ("rockbot.tool.name", "mcp_invoke_tool"),
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "mcp_invoke_tool"),
        ],
    ),
    span(
        "agent-host",
        "publish",
        0,
        &[RABBITMQ, (TEMPLATE, "tool.invoke.mcp"), ("messaging.operation.type", "send")],
    ),
    span(
        "mcp-bridge",
        "process",
        1,
        &[RABBITMQ, (TEMPLATE, "tool.invoke.mcp"), ("messaging.result", "ack")],
    ),
    span("mcp-bridge", "publish", 2, &[RABBITMQ, (TEMPLATE, "tool.result.{agent}")]),
    span(
        "agent-host",
        "process",
        3,
        &[RABBITMQ, (TEMPLATE, "tool.result.{agent}"), ("messaging.result", "ack")],
    ),
    span(
        "mcp-bridge",
        "tools/call mark",
        2,
        &[("mcp.method.name", "tools/call"), ("gen_ai.tool.name", "mark")],
    ),
];

/// A script.
const SCRIPT: [Expected; 6] = [
    span(
        "agent-host",
        "tool.invoke execute_python_script",
        0,
        &[
            ("rockbot.tool.name", "execute_python_script"),
            ("gen_ai.operation.name", "execute_tool"),
        ],
    ),
    span("agent-host", "publish", 0, &[RABBITMQ, (TEMPLATE, "script.invoke")]),
    span(
        "scripts-manager",
        "process",
        1,
        &[RABBITMQ, (TEMPLATE, "script.invoke"), ("messaging.result", "ack")],
    ),
    span(
        "scripts-manager",
        "script.run",
        2,
        &[("toolbus.reason", "exit_code"), ("process.exit.code", "3"), ("error.type", "exit_code")],
    ),
    span("scripts-manager", "publish", 2, &[RABBITMQ, (TEMPLATE, "tool.result.{agent}")]),
    span("agent-host", "process", 4, &[RABBITMQ, (TEMPLATE, "tool.result.{agent}")]),
];

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

/// The trace has exactly these spans.
fn check(trace: &[Span], expected: &[Expected]) -> anyhow::Result<()> {
    let mut found: Vec<&Span> = Vec::new();
    for wanted in expected {
        let parent = found.get(wanted.parent).map(|parent| &parent.span_id);
        let is_it = |span: &&Span| {
            let has = |(name, value): &(&str, &str)| {
                span.attributes.get(*name).is_some_and(|own| own == value)
            };
            (&*span.service, &*span.name) == (wanted.service, wanted.name)
                && span.parent_id.as_ref() == parent
                && wanted.attributes.iter().all(has)
        };
        let mut those = trace.iter().filter(is_it);
        let one = those
            .next()
            .with_context(|| format!("no {} {} yet: {trace:#?}", wanted.service, wanted.name))?;
        ensure!(those.next().is_none(), "two {} {}: {trace:#?}", wanted.service, wanted.name);
        found.push(one);
    }
    ensure!(trace.len() == found.len(), "{} spans: {trace:#?}", trace.len());
    trace.iter().try_for_each(is_on_the_page)
}

/// Waits until the call of this tool is a trace of exactly these spans.
async fn traced(collector: &Collector, expected: &[Expected]) -> Vec<Span> {
    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let is_root = |span: &&Span| span.name == expected[0].name && span.parent_id.is_none();
        let root = spans.iter().find(is_root).context("no trace yet")?.trace_id.clone();
        let trace: Vec<_> = spans.into_iter().filter(|span| span.trace_id == root).collect();
        check(&trace, expected)?;
        anyhow::Ok(trace)
    })
    .await
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
    traced(&collector, &MCP).await;

    let arguments = json!({"script": "print('hunter2-in-a-script'); raise SystemExit(3)"});
    let call = exporting(invocation(&bus, "execute_python_script", &arguments), &collector);
    call.run(LIMIT).await.unwrap();
    let trace = traced(&collector, &SCRIPT).await;
    let run = trace.iter().find(|span| span.name == "script.run").unwrap();
    assert_eq!(run.attributes["toolbus.scripts.runner"], "bubblewrap");
    no_secrets(&collector);
}
