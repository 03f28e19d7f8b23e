//! Definitions of wisps that were checked: what they refer to is there.

use std::time::Duration;

use serde_json::{Map, Value};

use crate::template::Reference;

/// The tool that MCP servers are reached by.
pub(crate) const MCP_TOOL: &str = "mcp_invoke_tool";
/// The tool that runs scripts.
pub(crate) const SCRIPT_TOOL: &str = "execute_python_script";
/// The tool that asks other agents.
pub(crate) const AGENT_TOOL: &str = "invoke_agent";
/// The tools that web steps may call, each with the argument that it needs.
pub(crate) const WEB_TOOLS: [(&str, &str); 2] = [("web_search", "query"), ("web_browse", "url")];
/// The argument of a script that is its source.
pub(crate) const SCRIPT_SOURCE: &str = "script";

/// A wisp: steps, one after the other.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wisp {
    pub(crate) description: String,
    /// What its steps may use. `None`: what its caller may.
    pub(crate) tools: Option<Vec<AllowedTool>>,
    pub(crate) steps: Vec<Step>,
}

/// A step of a wisp.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Step {
    pub(crate) id: String,
    pub(crate) work: Work,
    /// What of an earlier step it takes as input.
    pub(crate) input: Option<Reference>,
    /// The key of working memory that its output is put under, too.
    pub(crate) output_to: Option<String>,
    pub(crate) on_failure: OnFailure,
    /// How long it may take. `None`: as long as what it does may take by itself.
    pub(crate) timeout: Option<Duration>,
}

/// What becomes of a wisp when a step fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// It fails.
    Abort,
    /// It goes on at this step, which is a later one.
    SkipTo(usize),
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Work {
    Mcp {
        server: String,
        tool: String,
        params: Map<String, Value>,
    },
    Script {
        params: Map<String, Value>,
    },
    Web {
        tool: &'static str,
        /// The argument that it needs.
        main: &'static str,
        params: Map<String, Value>,
    },
    Agent {
        agent: String,
        skill: String,
        message: String,
    },
    Complete {
        prompt: String,
    },
}

/// What a definition allows its steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AllowedTool {
    /// One of the tools that gateways call.
    Gateway(&'static str),
    /// Tools of MCP servers, as a pattern of their ids.
    Mcp(String),
}

impl Work {
    /// The tool that it calls. `None`: it asks a model.
    pub(crate) fn gateway_tool(&self) -> Option<&'static str> {
        match self {
            Self::Mcp { .. } => Some(MCP_TOOL),
            Self::Script { .. } => Some(SCRIPT_TOOL),
            Self::Web { tool, .. } => Some(tool),
            Self::Agent { .. } => Some(AGENT_TOOL),
            Self::Complete { .. } => None,
        }
    }
}
