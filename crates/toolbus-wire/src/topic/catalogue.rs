//! Every topic of the fleet, each named once: [`topics!`] makes of the list its constants, its
//! functions, and the templates that stand for them in metrics.

use super::Topic;
use crate::name::{AgentName, InstanceId, McpServerSegment};

macro_rules! topics {
    (
        shared {
            $($(#[$shared_doc:meta])* $shared:ident = $text:literal;)+
        }
        named {
            $(
                $(#[$doc:meta])*
                $function:ident($first:ident: $first_type:ty $(, $more:ident: $more_type:ty)?)
                    = $prefix:literal;
            )+
        }
    ) => {
        $($(#[$shared_doc])* pub const $shared: Topic = Topic::from_static($text);)+

        $(
            $(#[$doc])*
            #[must_use]
            pub fn $function($first: &$first_type $(, $more: &$more_type)?) -> Topic {
                Topic::from_names($prefix, &[$first.as_str() $(, $more.as_str())?])
            }
        )+

        /// Topics without a name in them.
        const SHARED: &[&str] = &[$($text),+];

        /// What topics with a name in them begin with, and the template of each.
        const NAMED: &[(&str, &str)] = &[
            $((concat!($prefix, "."), concat!($prefix, ".{", stringify!($first), "}")),)+
        ];
    };
}

topics! {
    shared {
        /// Runs a tool of an agent. Every agent hears it.
        TOOL_INVOKE = "tool.invoke";
        /// Takes the outcome of a call that named no reply topic.
        TOOL_RESULT = "tool.result";
        /// Runs a tool of an MCP server.
        TOOL_INVOKE_MCP = "tool.invoke.mcp";
        /// Toolbus extension: cancels a call, or asks which worker has it. Every worker hears it.
        TOOL_CANCEL = "tool.cancel";
        /// Asks the bridges to list their servers again.
        TOOL_META_MCP_REFRESH = "tool.meta.mcp.refresh";
        /// Asks a bridge about its servers, or changes them.
        MCP_MANAGE = "mcp.manage";
        /// Runs a script.
        SCRIPT_INVOKE = "script.invoke";
        /// Takes the outcome of a script whose request named no reply topic.
        SCRIPT_RESULT = "script.result";
        /// Takes what users say. Every agent hears it.
        USER_MESSAGE = "user.message";
        /// Takes what agents answer users whose message named no reply topic.
        USER_RESPONSE = "user.response";
        /// Takes what users think of answers.
        USER_FEEDBACK = "user.feedback";
        /// Asks what was said in a session.
        USER_HISTORY_REQUEST = "user.history.request";
        /// Takes how tasks of agents are going. Every agent hears it.
        AGENT_TASK_STATUS = "agent.task.status";
        /// Takes what came of tasks whose requests named no reply topic.
        AGENT_RESPONSE = "agent.response";
        /// Takes what subagents say of their work, as far as somebody listens.
        SUBAGENT_PROGRESS = "subagent.progress";
        /// Takes what came of the work of subagents, as far as somebody listens.
        SUBAGENT_RESULT = "subagent.result";
        /// Takes what agents say of themselves. Every agent hears it.
        DISCOVERY_ANNOUNCE = "discovery.announce";
        /// Toolbus extension: asks agents to announce themselves. Every agent hears it.
        DISCOVERY_REQUEST = "discovery.request";
    }
    named {
        /// Toolbus extension: runs a tool of the agent of that name.
        tool_invoke_agent(agent: AgentName) = "tool.invoke.agent";
        /// Takes the outcomes of the calls of an agent.
        tool_result(agent: AgentName) = "tool.result";
        /// Toolbus extension: takes the outcomes of the calls of one process of an agent.
        tool_result_of_instance(agent: AgentName, instance: InstanceId) = "tool.result";
        /// Toolbus extension: takes progress and heartbeats for one process of an agent.
        tool_progress(agent: AgentName, instance: InstanceId) = "tool.progress";
        /// Toolbus extension: takes questions that tools ask one process of an agent.
        tool_ask(agent: AgentName, instance: InstanceId) = "tool.ask";
        /// Toolbus extension: takes what is meant for one worker alone: cancel messages of callers
        /// that know it, and answers to what it has asked.
        tool_worker(worker: InstanceId) = "tool.worker";
        /// Lists the MCP servers that there are to an agent.
        tool_meta_mcp(agent: AgentName) = "tool.meta.mcp";
        /// Takes what a bridge answers an agent at [`MCP_MANAGE`].
        mcp_manage_response(agent: AgentName) = "mcp.manage.response";
        /// Toolbus extension: takes every request to one MCP server, of the bridges that are
        /// named after this agent.
        mcp_server(agent: AgentName, server: McpServerSegment) = "mcp.server";
        /// Toolbus extension: tells these bridges which of them has the server.
        mcp_owner(agent: AgentName, server: McpServerSegment) = "mcp.owner";
        /// Takes the outcomes of the scripts of an agent.
        script_result(agent: AgentName) = "script.result";
        /// Takes what users say to the agent of that name, as newer peers send it.
        user_message_agent(agent: AgentName) = "user.message";
        /// The same for what users think of its answers.
        user_feedback_agent(agent: AgentName) = "user.feedback";
        /// The same for what was said in its sessions.
        user_history_request_agent(agent: AgentName) = "user.history.request";
        /// Asks the agent of that name to give a task up.
        agent_task_cancel(agent: AgentName) = "agent.task.cancel";
        /// Asks the agent of that name to do something.
        agent_task(agent: AgentName) = "agent.task";
        /// Takes what came of the tasks that an agent has asked others for.
        agent_response(agent: AgentName) = "agent.response";
    }
}

/// Toolbus extension: the pattern of every topic that is meant for one process alone: its replies,
/// progress and questions.
#[must_use]
pub fn of_instance(agent: &AgentName, instance: &InstanceId) -> Topic {
    Topic::from_names("tool.*", &[agent.as_str(), instance.as_str()])
}

/// The template of [`mcp_server`].
pub const MCP_SERVER_TEMPLATE: &str = "mcp.server.{agent}";

/// The template of the topic `text`, for [`Topic::template`].
pub(super) fn find_template(text: &str) -> &'static str {
    let shared = SHARED.iter().copied().find(|shared| *shared == text);
    let named = || NAMED.iter().find(|(prefix, _)| text.starts_with(prefix));

    shared.or_else(|| named().map(|(_, template)| *template)).unwrap_or("other")
}
