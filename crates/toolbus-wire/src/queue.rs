//! Names of exchanges, subscriptions and queues.
//!
//! Processes that subscribe under the same name share one queue and compete for its messages, so
//! the names that the C# code uses are kept to the letter: with another name, whatever both serve
//! would be done twice.

use crate::name::{self, AgentName, InstanceId};

/// The exchange of all topics.
pub const EXCHANGE: &str = "rockbot";
/// The exchange of the dead letters, by the topic that was subscribed.
pub const DEAD_LETTER_EXCHANGE: &str = "rockbot.dlx";
/// Subscription of the scripts managers to `script.invoke`.
pub const SCRIPTS_MANAGER_INVOKE: &str = "scripts-manager.script-invoke";

/// The queue of a subscription.
#[must_use]
pub fn queue(subscription: &str) -> String {
    format!("rockbot.{subscription}")
}

/// The queue that takes the dead letters of a subscription.
#[must_use]
pub fn dead_letter_queue(subscription: &str) -> String {
    format!("rockbot.{subscription}.dlq")
}

/// Subscription of an agent (or another participant with a name of its own) to a topic pattern:
/// `{agent}.{pattern}`, where `.` is written `-`, `*` is written `_` and `#` is written `__`.
#[must_use]
pub fn of_agent(agent: &AgentName, pattern: &str) -> String {
    let mut text = format!("{agent}.");
    for character in pattern.chars() {
        match character {
            '.' => text.push('-'),
            '*' => text.push('_'),
            '#' => text.push_str("__"),
            other => text.push(other),
        }
    }
    text
}

/// Subscription of an agent's bridge to `tool.invoke.mcp`.
#[must_use]
pub fn mcp_bridge_invoke(agent: &AgentName) -> String {
    name::mcp_bridge(agent)
}

/// Subscription of an agent's bridge to `tool.meta.mcp.refresh`.
#[must_use]
pub fn mcp_bridge_refresh(agent: &AgentName) -> String {
    format!("mcp-bridge.{agent}.refresh")
}

/// Subscription of an agent's bridge to `mcp.manage`.
#[must_use]
pub fn mcp_bridge_manage(agent: &AgentName) -> String {
    format!("mcp-bridge.{agent}.manage")
}

/// Toolbus extension: the queue on which one bridge of an agent hears every refresh request.
#[must_use]
pub fn mcp_bridge_refresh_of(agent: &AgentName, instance: &InstanceId) -> String {
    format!("mcp-bridge.{agent}.refresh.{instance}")
}

/// Toolbus extension: the queue on which one bridge of an agent hears what the others announce.
#[must_use]
pub fn mcp_bridge_announced(agent: &AgentName, instance: &InstanceId) -> String {
    format!("mcp-bridge.{agent}.announced.{instance}")
}

/// Toolbus extension: what the private queues of an agent's bridge are named after that go with the
/// requests to its servers.
#[must_use]
pub fn mcp_bridge_servers(agent: &AgentName) -> String {
    format!("mcp-bridge.{agent}.servers")
}

/// Toolbus extension: the queue on which one process of an agent hears what agents say of
/// themselves. The C# code has one for all processes, so that each hears only a part.
#[must_use]
pub fn discovery(agent: &AgentName, instance: &InstanceId) -> String {
    format!("{agent}.discovery.{instance}")
}

/// Toolbus extension: the queue on which one process of an agent hears how tasks are going.
#[must_use]
pub fn agent_task_status(agent: &AgentName, instance: &InstanceId) -> String {
    format!("{agent}.agent-task-status.{instance}")
}

/// Toolbus extension: the queue on which one process hears everything that is meant for it alone.
#[must_use]
pub fn replies(agent: &AgentName, instance: &InstanceId) -> String {
    format!("replies.{agent}.{instance}")
}

#[cfg(test)]
mod tests;
