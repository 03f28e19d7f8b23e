//! The names of topics, as the contract has them.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::name::{AgentName, InstanceId, McpServerSegment};

#[test]
fn any_text_that_amqp_carries_is_a_topic() {
    assert_eq!(Topic::parse(""), Err(Error::Empty));
    assert_eq!(Topic::parse("x".repeat(255)).unwrap().as_str().len(), 255);
    assert_eq!(Topic::parse("é".repeat(128)), Err(Error::TooLong(256)));
    assert_eq!(Topic::parse("any text, é").unwrap().as_str(), "any text, é");
}

#[test]
fn equal_texts_are_equal_topics_wherever_they_come_from() {
    let parsed = Topic::parse("tool.invoke").unwrap();
    assert_eq!(parsed, TOOL_INVOKE);
    assert!(HashSet::from([TOOL_INVOKE]).contains(&parsed));
    assert_eq!(TOOL_INVOKE.cmp(&parsed), Ordering::Equal);
    assert!(TOOL_INVOKE < TOOL_RESULT);
}

#[test]
fn the_shared_topics_are_those_of_the_contract() {
    for (topic, expected) in [
        (TOOL_INVOKE, "tool.invoke"),
        (TOOL_RESULT, "tool.result"),
        (TOOL_INVOKE_MCP, "tool.invoke.mcp"),
        (TOOL_CANCEL, "tool.cancel"),
        (TOOL_META_MCP_REFRESH, "tool.meta.mcp.refresh"),
        (MCP_MANAGE, "mcp.manage"),
        (SCRIPT_INVOKE, "script.invoke"),
        (SCRIPT_RESULT, "script.result"),
        (AGENT_TASK_STATUS, "agent.task.status"),
        (AGENT_RESPONSE, "agent.response"),
        (SUBAGENT_PROGRESS, "subagent.progress"),
        (SUBAGENT_RESULT, "subagent.result"),
        (DISCOVERY_ANNOUNCE, "discovery.announce"),
        (DISCOVERY_REQUEST, "discovery.request"),
    ] {
        assert_eq!(topic.as_str(), expected);
    }
}

#[test]
fn the_topics_of_one_agent_are_those_of_the_contract() {
    let agent = AgentName::standard();
    let instance = InstanceId::parse("i1").unwrap();

    for (topic, expected) in [
        (tool_invoke_agent(&agent), "tool.invoke.agent.RockBot"),
        (tool_result(&agent), "tool.result.RockBot"),
        (tool_result_of_instance(&agent, &instance), "tool.result.RockBot.i1"),
        (tool_progress(&agent, &instance), "tool.progress.RockBot.i1"),
        (tool_ask(&agent, &instance), "tool.ask.RockBot.i1"),
        (tool_worker(&instance), "tool.worker.i1"),
        (tool_meta_mcp(&agent), "tool.meta.mcp.RockBot"),
        (mcp_manage_response(&agent), "mcp.manage.response.RockBot"),
        (mcp_server(&agent, &McpServerSegment::of("Git.Hub")), "mcp.server.RockBot.git~hub"),
        (mcp_owner(&agent, &McpServerSegment::of("Git.Hub")), "mcp.owner.RockBot.git~hub"),
        (script_result(&agent), "script.result.RockBot"),
        (agent_task(&agent), "agent.task.RockBot"),
        (agent_task_cancel(&agent), "agent.task.cancel.RockBot"),
        (agent_response(&agent), "agent.response.RockBot"),
    ] {
        assert_eq!(topic.as_str(), expected);
    }
}

proptest! {
    #[test]
    fn a_topic_of_names_is_a_topic_that_no_shared_one_equals(
        agent in "[A-Za-z0-9_-]{1,64}",
        instance in "[A-Za-z0-9_-]{1,64}",
    ) {
        let Ok(agent) = AgentName::parse(agent) else { return Ok(()) };
        let instance = InstanceId::parse(instance).unwrap();

        for topic in [
            tool_invoke_agent(&agent),
            tool_result_of_instance(&agent, &instance),
            tool_meta_mcp(&agent),
        ] {
            prop_assert_eq!(Topic::parse(topic.as_str()).unwrap(), topic.clone());
            for shared in [TOOL_META_MCP_REFRESH, TOOL_INVOKE_MCP, SCRIPT_RESULT] {
                prop_assert_ne!(&topic, &shared);
            }
        }
    }
}

#[test]
fn a_template_leaves_names_out() {
    let of = |text: &str| Topic::parse(text).unwrap().template();
    assert_eq!(TOOL_INVOKE_MCP.template(), "tool.invoke.mcp");
    assert_eq!(of("tool.invoke.mcp"), "tool.invoke.mcp");
    assert_eq!(of("tool.result"), "tool.result");
    assert_eq!(of("tool.result.RockBot"), "tool.result.{agent}");
    assert_eq!(of("tool.result.RockBot.4f2a"), "tool.result.{agent}");
    assert_eq!(of("tool.meta.mcp.refresh"), "tool.meta.mcp.refresh");
    assert_eq!(of("stranger.answers"), "other");
}

/// A topic of the catalogue that metrics call `other` would not be told from a stranger's.
#[test]
fn every_topic_of_the_catalogue_has_a_template() {
    let agent = AgentName::standard();
    let instance = InstanceId::parse("i1").unwrap();

    for (topic, expected) in [
        (TOOL_INVOKE, "tool.invoke"),
        (TOOL_RESULT, "tool.result"),
        (TOOL_INVOKE_MCP, "tool.invoke.mcp"),
        (TOOL_CANCEL, "tool.cancel"),
        (TOOL_META_MCP_REFRESH, "tool.meta.mcp.refresh"),
        (MCP_MANAGE, "mcp.manage"),
        (SCRIPT_INVOKE, "script.invoke"),
        (SCRIPT_RESULT, "script.result"),
        (tool_invoke_agent(&agent), "tool.invoke.agent.{agent}"),
        (tool_result(&agent), "tool.result.{agent}"),
        (tool_result_of_instance(&agent, &instance), "tool.result.{agent}"),
        (tool_progress(&agent, &instance), "tool.progress.{agent}"),
        (tool_ask(&agent, &instance), "tool.ask.{agent}"),
        (tool_worker(&instance), "tool.worker.{worker}"),
        (tool_meta_mcp(&agent), "tool.meta.mcp.{agent}"),
        (mcp_manage_response(&agent), "mcp.manage.response.{agent}"),
        (mcp_server(&agent, &McpServerSegment::of("x")), "mcp.server.{agent}"),
        (mcp_owner(&agent, &McpServerSegment::of("x")), "mcp.owner.{agent}"),
        (script_result(&agent), "script.result.{agent}"),
        (AGENT_TASK_STATUS, "agent.task.status"),
        (AGENT_RESPONSE, "agent.response"),
        (SUBAGENT_PROGRESS, "subagent.progress"),
        (SUBAGENT_RESULT, "subagent.result"),
        (DISCOVERY_ANNOUNCE, "discovery.announce"),
        (DISCOVERY_REQUEST, "discovery.request"),
        (agent_task(&agent), "agent.task.{agent}"),
        (agent_task_cancel(&agent), "agent.task.cancel.{agent}"),
        (agent_response(&agent), "agent.response.{agent}"),
    ] {
        assert_eq!(topic.template(), expected);
    }
}
