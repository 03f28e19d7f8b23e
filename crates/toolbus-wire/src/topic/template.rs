//! Topics without the names in them: for metrics, where their number must be bounded.

use super::Topic;

/// Topics of one agent, process or worker: what they begin with, and what stands for all of them.
const FAMILIES: [(&str, &str); 16] = [
    ("tool.invoke.agent.", "tool.invoke.agent.{agent}"),
    ("tool.result.", "tool.result.{agent}"),
    ("tool.progress.", "tool.progress.{agent}"),
    ("tool.ask.", "tool.ask.{agent}"),
    ("tool.answer.", "tool.answer.{worker}"),
    ("tool.meta.mcp.", "tool.meta.mcp.{agent}"),
    ("mcp.manage.response.", "mcp.manage.response.{agent}"),
    ("script.result.", "script.result.{agent}"),
    ("agent.task.cancel.", "agent.task.cancel.{agent}"),
    ("agent.task.", "agent.task.{agent}"),
    ("agent.response.", "agent.response.{agent}"),
    ("subagent.progress.", "subagent.progress.{agent}"),
    ("subagent.result.", "subagent.result.{agent}"),
    ("user.history.response.", "user.history.response.{proxy}"),
    ("user.message.", "user.message.{agent}"),
    ("user.response.", "user.response.{agent}"),
];

/// Topics that all share.
static SHARED: [Topic; 19] = [
    super::TOOL_INVOKE,
    super::TOOL_INVOKE_MCP,
    super::SCRIPT_INVOKE,
    super::MCP_MANAGE,
    super::TOOL_RESULT,
    super::SCRIPT_RESULT,
    super::TOOL_CANCEL,
    super::TOOL_META_MCP_REFRESH,
    super::AGENT_TASK_STATUS,
    super::AGENT_RESPONSE,
    super::DISCOVERY_ANNOUNCE,
    super::SUBAGENT_PROGRESS,
    super::SUBAGENT_RESULT,
    super::USER_MESSAGE,
    super::USER_RESPONSE,
    super::USER_FEEDBACK,
    super::USER_HISTORY_REQUEST,
    super::LLM_REQUEST,
    super::LLM_RESPONSE,
];

impl Topic {
    /// The topic with its names left out, such as `tool.result.{agent}`; `other` for a topic that
    /// is not in the catalogue. There are some dozens of these, whatever peers publish to.
    #[must_use]
    pub fn template(&self) -> &'static str {
        let text = self.as_str();
        let shared = SHARED.iter().find_map(|topic| match topic.0 {
            super::Text::Static(shared) if shared == text => Some(shared),
            _ => None,
        });
        let family = || FAMILIES.iter().find(|(prefix, _)| text.starts_with(prefix));
        shared.or_else(|| family().map(|(_, template)| *template)).unwrap_or("other")
    }
}
