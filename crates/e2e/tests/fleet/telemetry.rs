//! One call is one trace, through every process that it crosses.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toolbus_testkit::otlp::{Collector, Span};
use toolbus_testkit::process::Launch;
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

mod dashboards;
mod page;
pub(crate) mod servers;
pub(crate) mod spans;
mod turns;

/// The trace that the stranger's messages belong to, and its own span in it.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// Spans of one trace.
#[derive(Debug)]
struct Trace(Vec<Span>);

impl Trace {
    /// The one span of this name and service that is about this topic, if it is about one.
    fn find(&self, service: &str, name: &str, topic: Option<&str>) -> anyhow::Result<&Span> {
        let is_it = |span: &&Span| {
            let of = span.attributes.get("messaging.destination.name").map(String::as_str);
            span.service == service && span.name == name && topic.is_none_or(|t| of == Some(t))
        };
        let found: Vec<_> = self.0.iter().filter(is_it).collect();
        ensure!(found.len() == 1, "{} spans {service} {name} {topic:?}: {self:#?}", found.len());
        Ok(found[0])
    }
}

fn exporting(launch: Launch, collector: &Collector) -> Launch {
    launch
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
        // Spans leave the process ten times a second.
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
}

/// Waits until a trace of this id has all that `check` asks for.
async fn trace(
    collector: &Collector,
    id: impl Fn(&[Span]) -> Option<String>,
    check: impl Fn(&Trace) -> anyhow::Result<()>,
) {
    eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let id = id(&spans).context("no trace yet")?;
        check(&Trace(spans.into_iter().filter(|span| span.trace_id == id).collect()))
    })
    .await;
}

/// From an agent to a worker.
struct Hop {
    tool: &'static str,
    worker: &'static str,
    topic: &'static str,
}

const HOPS: [Hop; 2] = [
    Hop { tool: "mcp_invoke_tool", worker: "mcp-bridge", topic: "mcp.server.RockBot.marks" },
    Hop { tool: "execute_python_script", worker: "scripts-manager", topic: "script.invoke" },
];

impl Hop {
    fn arguments(&self) -> Value {
        match self.tool {
            "mcp_invoke_tool" => json!({"server_name": "marks", "tool_name": "mark"}),
            _ => json!({"script": "print(1)"}),
        }
    }

    /// The name of the call's span.
    fn span(&self) -> String {
        format!("tool.invoke {}", self.tool)
    }
}

/// A call, its request's way to the worker, and its reply's way back: each the child of the one
/// before it.
fn there_and_back(trace: &Trace, call: &Span, hop: &Hop) -> anyhow::Result<()> {
    let is_child = |parent: &Span, child: &Span| -> anyhow::Result<()> {
        let is_it = child.parent_id.as_ref() == Some(&parent.span_id);
        ensure!(is_it, "{child:?} is no child of {parent:?}");
        Ok(())
    };

    let request = trace.find(&call.service, "publish", Some(hop.topic))?;
    is_child(call, request)?;
    let process = trace.find(hop.worker, "process", Some(hop.topic))?;
    is_child(request, process)?;
    let is_reply = |span: &&Span| {
        let topic = span.attributes.get("messaging.destination.name");
        span.service == hop.worker
            && span.name == "publish"
            && topic.is_some_and(|topic| topic.starts_with("tool.result."))
    };

    let reply = trace.0.iter().find(is_reply).context("no reply yet")?;
    is_child(process, reply)?;
    let is_end =
        |span: &&Span| span.name == "process" && span.parent_id.as_ref() == Some(&reply.span_id);
    let end = trace.0.iter().find(is_end).context("the reply was not taken yet")?;
    ensure!(end.service == call.service, "{end:?}");

    Ok(())
}

#[tokio::test]
async fn one_call_is_one_trace_through_every_process() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(collector) = Collector::start().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let service = |program| exporting(launch(program, &bus), &collector);
    let (_bridge, _manager, _agent) = tokio::join!(
        start(service("mcp-bridge").arg("--mcp-config").arg(servers.file())),
        start(service("scripts-manager")),
        start(service("agent-host").arg("serve").env("OTEL_SERVICE_NAME", "agent")),
    );

    // From the command line to a worker and back.
    for hop in HOPS {
        let command = exporting(invocation(&bus, hop.tool, &hop.arguments()), &collector);
        Outcome::of(command.run(LIMIT).await.unwrap()).content();
        let name = hop.span();
        let id_of = |spans: &[Span]| {
            let is_root = |span: &&Span| span.name == name && span.service == "agent-host";
            spans.iter().find(is_root).map(|span| span.trace_id.clone())
        };
        let check = |trace: &Trace| {
            let call = trace.find("agent-host", &name, None)?;
            ensure!(call.parent_id.is_none(), "{call:?}");
            there_and_back(trace, call, &hop)
        };
        trace(&collector, id_of, check).await;
    }

    // From somebody else's trace through an agent to both workers: three processes of ours.
    let stranger = Stranger::new(&vhost, &[]).await;
    for hop in HOPS {
        let parent = json!(format!("00-{TRACE}-{SPAN}-01"));
        let frame = Frame::tool("tool.invoke", hop.tool, &hop.arguments());
        let answer = stranger.ask(&frame.header("rb-traceparent", parent)).await;
        assert_eq!(answer.body["isError"], false);
    }

    let check = |trace: &Trace| {
        for hop in HOPS {
            let call = trace.find("agent", &hop.span(), None)?;
            let is_parent = |span: &&Span| call.parent_id.as_ref() == Some(&span.span_id);
            let taken = trace.0.iter().find(is_parent).context("the request was not taken yet")?;
            ensure!(taken.service == "agent" && taken.name == "process", "{taken:?}");
            ensure!(taken.parent_id.as_deref() == Some(SPAN), "{taken:?}");
            there_and_back(trace, call, &hop)?;
        }
        Ok(())
    };

    trace(&collector, |_| Some(TRACE.to_owned()), check).await;
}
