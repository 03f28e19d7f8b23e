//! What an agent's model is told when no bridge answers, word for word as RockBot tells it.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use toolbus_bus::requester::Requester;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_mcp_agent::McpDirectory;
use toolbus_tools::call::{Call, CallTime};
use toolbus_tools::{Guides, Invoker, Registry};
use toolbus_wire::message::mcp::{McpServerSummary, McpServersIndexed};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, topic};

use crate::support::*;

/// A bridge that takes every request and does nothing more.
async fn silent(bus: &Arc<dyn Bus>) -> Vec<Consumer> {
    let take = |_: Delivery| std::future::ready(Disposition::Ack);
    let mut consumers = Vec::new();
    let prefetch = NonZeroU16::new(1).unwrap();
    for (name, topic) in [("calls", topic::TOOL_INVOKE_MCP), ("questions", topic::MCP_MANAGE)] {
        let subscription =
            Subscription::private(name, TopicPattern::from(topic), Flow::Ordered { prefetch });
        consumers.push(bus.subscribe(subscription, Arc::new(take)).await.unwrap());
    }
    consumers
}

/// Announces one server to an agent, which has the tools from then on.
async fn announce(bus: &Arc<dyn Bus>, agent: &AgentName) {
    let summary = McpServerSummary {
        server_name: "Docs".to_owned(),
        prompt_count: Some(1),
        resource_count: Some(1),
        ..McpServerSummary::default()
    };
    let announcement = McpServersIndexed { servers: vec![summary], ..McpServersIndexed::default() };
    let envelope = Envelope::of(&announcement, "silent");
    bus.publish(&topic::tool_meta_mcp(agent), envelope).await.unwrap();
}

/// A call, how much time it has where it says so, how long it takes, and what comes of it.
type Case = (&'static str, Value, Option<Duration>, Duration, &'static str);

fn cases() -> [Case; 6] {
    let search = json!({"server_name": "Docs", "tool_name": "search", "arguments": {}});
    let [minute, half, short, odd] = [60_000, 30_000, 300, 90_500].map(Duration::from_millis);
    [
        (
            "mcp_invoke_tool",
            search.clone(),
            None,
            minute,
            "MCP tool 'search' timed out after 60s — the MCP bridge did not respond. The \
             underlying MCP server may be temporarily unavailable. Call mcp_list_services to check \
             which servers are registered, or try an alternative approach.",
        ),
        (
            "mcp_invoke_tool",
            search.clone(),
            Some(short),
            short,
            "MCP tool 'search' timed out after 300ms — the MCP bridge did not respond. The \
             underlying MCP server may be temporarily unavailable. Call mcp_list_services to check \
             which servers are registered, or try an alternative approach.",
        ),
        (
            "mcp_invoke_tool",
            search,
            Some(odd),
            odd,
            "MCP tool 'search' timed out after 90s — the MCP bridge did not respond. The \
             underlying MCP server may be temporarily unavailable. Call mcp_list_services to check \
             which servers are registered, or try an alternative approach.",
        ),
        (
            "mcp_get_service_details",
            json!({"server_name": "Docs"}),
            None,
            half,
            "Timed out waiting for service details for 'docs'",
        ),
        (
            "mcp_register_server",
            json!({"name": "x", "type": "sse", "url": "http://127.0.0.1:1/sse"}),
            None,
            half,
            "Timed out waiting for server registration response",
        ),
        (
            "mcp_unregister_server",
            json!({"server_name": "Docs"}),
            None,
            half,
            "Timed out waiting for server unregistration response",
        ),
    ]
}

/// The same of what is read of servers beside their tools.
fn reads() -> [Case; 3] {
    let minute = Duration::from_secs(60);
    [
        (
            "mcp_get_prompt",
            json!({"server_name": "Docs", "prompt_name": "review"}),
            None,
            minute,
            "Timed out waiting for prompt 'review'",
        ),
        (
            "mcp_list_resources",
            json!({"server_name": "Docs"}),
            None,
            minute,
            "Timed out waiting for the resources of 'docs'",
        ),
        (
            "mcp_read_resource",
            json!({"server_name": "Docs", "uri": "a://1"}),
            None,
            minute,
            "Timed out waiting for resource 'a://1'",
        ),
    ]
}

#[tokio::test(start_paused = true)]
async fn a_bridge_that_does_not_answer_is_told_in_the_words_that_models_know() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let (name, instance) = (AgentName::standard(), InstanceId::random());
    let requester = Requester::start(Arc::clone(&bus), name.clone(), &instance).await.unwrap();
    let registry = Arc::new(Registry::new());
    let services =
        McpDirectory::start(&bus, requester, &instance, Arc::clone(&registry), Guides::default());
    let services = services.await.unwrap();
    let _consumers = silent(&bus).await;
    announce(&bus, &name).await;
    assert!(services.wait_until(PATIENCE, |servers| servers.len() == 1).await);

    let invoker = Invoker::new(registry);
    for (tool, arguments, budget, expected_after, expected) in cases().into_iter().chain(reads()) {
        let call = call_by_agent(tool, arguments);
        let time = budget.map_or_else(CallTime::default, CallTime::within);
        let began = Instant::now();
        let told = invoker.invoke(Call { time, ..call }).await.unwrap_err();
        assert_eq!((told.code, told.message.as_str()), (ErrorCode::Timeout, expected), "{tool}");
        // What changes nothing may be asked again.
        let is_read =
            tool == "mcp_get_service_details" || reads().iter().any(|read| read.0 == tool);
        assert_eq!(told.is_retryable, is_read, "{tool}");
        // The paused clock goes in whole milliseconds.
        let late = began.elapsed().saturating_sub(expected_after);
        assert!(began.elapsed() >= expected_after && late.as_millis() <= 1, "{tool}: {late:?}");
    }
    services.close().await;
}
