//! Every topic of the fleet by name.
//!
//! A function with `_of` gives the form with the agent's name that newer C# code uses, so that
//! several agents can share a broker.

use super::Topic;
use crate::name::{AgentName, InstanceId};

/// Runs a tool of an agent. Every agent hears it.
pub const TOOL_INVOKE: Topic = Topic::of("tool.invoke");
/// Takes the outcome of a call that named no reply topic.
pub const TOOL_RESULT: Topic = Topic::of("tool.result");
/// Runs a tool of an MCP server.
pub const TOOL_INVOKE_MCP: Topic = Topic::of("tool.invoke.mcp");
/// Ours: cancels a call. Every worker hears it.
pub const TOOL_CANCEL: Topic = Topic::of("tool.cancel");
/// Asks the bridges to tell their servers again.
pub const TOOL_META_MCP_REFRESH: Topic = Topic::of("tool.meta.mcp.refresh");
/// Asks a bridge about its servers, or changes them.
pub const MCP_MANAGE: Topic = Topic::of("mcp.manage");
/// Ours: asks a bridge to tell of changes of resources, for as long as the request holds.
pub const MCP_SUBSCRIBE: Topic = Topic::of("mcp.subscribe");
/// Runs a script.
pub const SCRIPT_INVOKE: Topic = Topic::of("script.invoke");
/// Takes the outcome of a script whose request named no reply topic.
pub const SCRIPT_RESULT: Topic = Topic::of("script.result");
/// Tells everybody how the tasks of agents go.
pub const AGENT_TASK_STATUS: Topic = Topic::of("agent.task.status");
/// Takes the result of a task that named no reply topic.
pub const AGENT_RESPONSE: Topic = Topic::of("agent.response");
/// Agents announce themselves to each other.
pub const DISCOVERY_ANNOUNCE: Topic = Topic::of("discovery.announce");
/// A subagent tells how far it is.
pub const SUBAGENT_PROGRESS: Topic = Topic::of("subagent.progress");
/// A subagent tells its result.
pub const SUBAGENT_RESULT: Topic = Topic::of("subagent.result");
/// A user says something.
pub const USER_MESSAGE: Topic = Topic::of("user.message");
/// An agent answers a user.
pub const USER_RESPONSE: Topic = Topic::of("user.response");
/// A user likes an answer or not.
pub const USER_FEEDBACK: Topic = Topic::of("user.feedback");
/// A user's proxy asks for a conversation so far.
pub const USER_HISTORY_REQUEST: Topic = Topic::of("user.history.request");
/// Asks for a completion of a language model.
pub const LLM_REQUEST: Topic = Topic::of("llm.request");
/// Takes the completion.
pub const LLM_RESPONSE: Topic = Topic::of("llm.response");

/// Ours: runs a tool of the agent of that name.
#[must_use]
pub fn tool_invoke_agent(agent: &AgentName) -> Topic {
    Topic::of_name("tool.invoke.agent", agent)
}

/// Takes the outcomes of the calls of an agent.
#[must_use]
pub fn tool_result(agent: &AgentName) -> Topic {
    Topic::of_name("tool.result", agent)
}

/// Ours: takes the outcomes of the calls of one process of an agent.
#[must_use]
pub fn tool_result_of_instance(agent: &AgentName, instance: &InstanceId) -> Topic {
    Topic::of_instance("tool.result", agent, instance)
}

/// Ours: takes progress and signs of life for one process of an agent.
#[must_use]
pub fn tool_progress(agent: &AgentName, instance: &InstanceId) -> Topic {
    Topic::of_instance("tool.progress", agent, instance)
}

/// Ours: takes questions that tools ask one process of an agent.
#[must_use]
pub fn tool_ask(agent: &AgentName, instance: &InstanceId) -> Topic {
    Topic::of_instance("tool.ask", agent, instance)
}

/// Ours: takes what callers answer to the questions of one worker.
#[must_use]
pub fn tool_answer(worker: &InstanceId) -> Topic {
    Topic::of_name("tool.answer", worker)
}

/// Tells an agent which MCP servers there are.
#[must_use]
pub fn tool_meta_mcp(agent: &AgentName) -> Topic {
    Topic::of_name("tool.meta.mcp", agent)
}

/// Takes what a bridge answers an agent at [`MCP_MANAGE`].
#[must_use]
pub fn mcp_manage_response(agent: &AgentName) -> Topic {
    Topic::of_name("mcp.manage.response", agent)
}

/// Takes the outcomes of the scripts of an agent.
#[must_use]
pub fn script_result(agent: &AgentName) -> Topic {
    Topic::of_name("script.result", agent)
}

/// Gives an agent a task.
#[must_use]
pub fn agent_task(agent: &AgentName) -> Topic {
    Topic::of_name("agent.task", agent)
}

/// Cancels a task of an agent.
#[must_use]
pub fn agent_task_cancel(agent: &AgentName) -> Topic {
    Topic::of_name("agent.task.cancel", agent)
}

/// Takes the results of the tasks that an agent gave to others.
#[must_use]
pub fn agent_response(caller: &AgentName) -> Topic {
    Topic::of_name("agent.response", caller)
}

/// [`SUBAGENT_PROGRESS`] of one agent.
#[must_use]
pub fn subagent_progress_of(agent: &AgentName) -> Topic {
    Topic::of_name("subagent.progress", agent)
}

/// [`SUBAGENT_RESULT`] of one agent.
#[must_use]
pub fn subagent_result_of(agent: &AgentName) -> Topic {
    Topic::of_name("subagent.result", agent)
}

/// [`USER_MESSAGE`] for one agent.
#[must_use]
pub fn user_message_of(agent: &AgentName) -> Topic {
    Topic::of_name("user.message", agent)
}

/// [`USER_RESPONSE`] of one agent.
#[must_use]
pub fn user_response_of(agent: &AgentName) -> Topic {
    Topic::of_name("user.response", agent)
}

/// Takes the conversation that a user's proxy asked for.
#[must_use]
pub fn user_history_response(proxy: &InstanceId) -> Topic {
    Topic::of_name("user.history.response", proxy)
}

/// Ours: the pattern of every topic that is meant for one process alone: its replies, progress and
/// questions.
#[must_use]
pub fn of_instance(agent: &AgentName, instance: &InstanceId) -> Topic {
    Topic::of_instance("tool.*", agent, instance)
}
