//! One trace goes through the whole fleet, from an agent over the bus to a server behind the bridge
//! and to the pod of a script: whoever reads it finds the pod by its name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use toolbus_testkit::otlp::{Collector, Span};
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit::{self, Vhost};
use toolbus_testkit::trace::{Expected, Kind, check};
use toolbus_testkit::{eventually, mcp};
use toolbus_wire::envelope::new_id;

use crate::support::{NAMESPACE, client};

const LIMIT: Duration = Duration::from_secs(120);
/// Where the one who asks the agent takes its answers.
const ANSWERS: &str = "stranger.answers";

/// The trace of the one who asks, who exports none of it, and the spans in it of its two calls.
const TRACE: &str = "0af7651916cd43dd8448eb211c8031a2";
const MCP_SPAN: &str = "b7ad6b7169203331";
const SCRIPT_SPAN: &str = "b7ad6b7169203332";

/// Where replies to the agent are published.
const REPLIES: &str = "tool.result.{agent}";
/// Where `run` is in the list of what is expected.
const RUN: usize = 12;

/// A call of an MCP server's tool and one of a script that ends with 3, each from its request to
/// the agent to the answer: all that is exported of either.
fn expected() -> Vec<Expected> {
    let call = |name: &'static str, tool: &'static str| {
        Expected::new(Kind::Internal, "agent-host", name)
            .with("rockbot.tool.name", tool)
            .with("gen_ai.operation.name", "execute_tool")
    };
    vec![
        Expected::process("agent-host", "tool.invoke").below_stranger(MCP_SPAN),
        call("tool.invoke mcp_invoke_tool", "mcp_invoke_tool").below(0),
        Expected::publish("agent-host", "mcp.server.{agent}").below(1),
        Expected::process("mcp-bridge", "mcp.server.{agent}").below(2),
        Expected::new(Kind::Client, "mcp-bridge", "tools/call echo")
            .below(3)
            .with("toolbus.mcp.server", "everything")
            .with("mcp.method.name", "tools/call")
            .with("gen_ai.tool.name", "echo")
            .with("network.transport", "pipe"),
        Expected::publish("mcp-bridge", REPLIES).below(3),
        Expected::process("agent-host", REPLIES).below(5),
        Expected::publish("agent-host", "other").below(0),
        Expected::process("agent-host", "tool.invoke").below_stranger(SCRIPT_SPAN),
        call("tool.invoke execute_python_script", "execute_python_script").below(8),
        Expected::publish("agent-host", "script.invoke").below(9),
        Expected::process("scripts-manager", "script.invoke").below(10),
        Expected::new(Kind::Internal, "scripts-manager", "script.run")
            .below(11)
            .with("toolbus.scripts.runner", "kubernetes")
            .with("k8s.namespace.name", NAMESPACE)
            .with("process.exit.code", "3")
            .failing("exit_code"),
        Expected::publish("scripts-manager", REPLIES).below(11),
        Expected::process("agent-host", REPLIES).below(13),
        Expected::publish("agent-host", "other").below(8),
    ]
}

/// The fleet, each of its programs a process that exports its spans at once.
async fn fleet(vhost: &Vhost, collector: &Collector, servers: &Path) -> [Service; 3] {
    let launch = |program: &str| {
        Launch::new(program)
            .arg("--bus")
            .arg(vhost.amqp_url())
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
            .env("OTEL_BSP_SCHEDULE_DELAY", "100")
    };
    let launches = [
        launch("agent-host").arg("serve"),
        launch("mcp-bridge").arg("--mcp-config").arg(servers),
        launch("scripts-manager")
            .args(["--runner", "kubernetes", "--prepare-namespace"])
            .env("KUBECONFIG", std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster"))
            .env("TOOLBUS_KUBERNETES__NAMESPACE", NAMESPACE)
            .env("TOOLBUS_KUBERNETES__CPU_REQUEST", "10m"),
    ];
    let mut services = launches.map(|launch| launch.start().expect("a process"));
    for service in &mut services {
        service.ready(LIMIT).await.expect("ready");
    }
    // What connecting to the server takes is no part of a call.
    eventually(LIMIT, async || {
        let (_, status) = services[1].look("/status").await?;
        ensure!(status.contains("\"connected\""), "{status}");
        Ok(())
    })
    .await;
    services
}

/// Asks the agent to run a tool, within this span of the trace, and waits for the answer.
async fn ask(vhost: &Vhost, span: &str, tool: &str, arguments: Value) -> Value {
    let id = new_id();
    let body = json!({
        "toolCallId": id,
        "toolName": tool,
        "arguments": arguments.to_string(),
        "sessionId": null,
    });
    let properties = json!({
        "type": "RockBot.Tools.ToolInvokeRequest",
        "message_id": id,
        "correlation_id": id,
        "reply_to": ANSWERS,
        "headers": {"rb-source": "Stranger", "rb-traceparent": format!("00-{TRACE}-{span}-01")},
    });
    let body = body.to_string();
    let sent = vhost.publish("rockbot", "tool.invoke", properties, body.as_bytes()).await;
    assert!(sent.expect("sent"), "nobody takes it");
    let answer =
        eventually(LIMIT, async || vhost.take(ANSWERS, 1).await?.pop().context("no answer yet"))
            .await;
    serde_json::from_slice(&answer.body).expect("JSON")
}

/// A list of servers with one that others wrote. `None` where that may be missing.
fn servers() -> Option<PathBuf> {
    let everything = mcp::everything_stdio()?.to_json();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("traces-mcp.json");
    let text = json!({"mcpServers": {"everything": everything}}).to_string();
    std::fs::write(&file, text).expect("a file");
    Some(file)
}

#[tokio::test]
async fn one_trace_goes_from_the_agent_through_bus_bridge_and_pod() {
    let Some(client) = client().await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(collector) = Collector::start().await else { return };
    let Some(servers) = servers() else { return };
    let _fleet = fleet(&vhost, &collector, &servers).await;
    vhost.declare_queue(ANSWERS, json!({"durable": true})).await.expect("a queue");
    vhost.bind("rockbot", ANSWERS, ANSWERS).await.expect("a binding");

    let echo = json!({"message": "hi"});
    let arguments = json!({"server_name": "everything", "tool_name": "echo", "arguments": echo});
    let answer = ask(&vhost, MCP_SPAN, "mcp_invoke_tool", arguments).await;
    assert_eq!(answer["content"], "Echo: hi", "{answer}");
    let arguments = json!({"script": "print('hi'); raise SystemExit(3)"});
    let answer = ask(&vhost, SCRIPT_SPAN, "execute_python_script", arguments).await;
    assert_eq!(answer["isError"], true, "{answer}");

    let expected = expected();
    let pod = eventually(LIMIT, async || {
        let is_of_trace = |span: &Span| span.trace_id == TRACE;
        let trace: Vec<_> = collector.spans()?.into_iter().filter(is_of_trace).collect();
        let found = check(&trace, &expected)?;
        found[RUN].attributes.get("k8s.pod.name").cloned().context("the pod has no name")
    })
    .await;
    // The pod is gone; what the cluster noted of it is still there.
    let events: Api<Event> = Api::namespaced(client, NAMESPACE);
    let of_pod = ListParams::default().fields(&format!("involvedObject.name={pod}"));
    let noted = events.list(&of_pod).await.expect("events").items;
    assert!(!noted.is_empty(), "the cluster has noted nothing of a pod {pod:?}");
}
