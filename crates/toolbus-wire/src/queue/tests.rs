//! The names of queues, as the contract has them.

use super::*;

fn agent() -> AgentName {
    AgentName::standard()
}

#[test]
fn subscriptions_make_the_queues_of_the_contract() {
    for (subscription, expected) in [
        (of_agent(&agent(), "tool.invoke"), "rockbot.RockBot.tool-invoke"),
        (of_agent(&agent(), "tool.meta.mcp.RockBot"), "rockbot.RockBot.tool-meta-mcp-RockBot"),
        (of_agent(&agent(), "agent.*.x.#"), "rockbot.RockBot.agent-_-x-__"),
        (SCRIPTS_MANAGER_INVOKE.to_owned(), "rockbot.scripts-manager.script-invoke"),
        (mcp_bridge_invoke(&agent()), "rockbot.mcp-bridge.RockBot"),
        (mcp_bridge_refresh(&agent()), "rockbot.mcp-bridge.RockBot.refresh"),
        (mcp_bridge_manage(&agent()), "rockbot.mcp-bridge.RockBot.manage"),
    ] {
        assert_eq!(queue(&subscription), expected);
        assert_eq!(dead_letter_queue(&subscription), format!("{expected}.dlq"));
    }
}

#[test]
fn a_worker_that_is_no_agent_is_named_the_same_way() {
    let manager = AgentName::parse(crate::name::SCRIPTS_MANAGER).unwrap();
    assert_eq!(of_agent(&manager, "script.invoke"), SCRIPTS_MANAGER_INVOKE);
}
