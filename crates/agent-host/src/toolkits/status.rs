//! What is told of toolkits.

use serde::Serialize;

/// Whether a toolkit is on.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolkitStatus {
    pub(crate) name: &'static str,
    pub(crate) on: bool,
    /// Why it is not.
    pub(crate) reason: Option<String>,
    /// Who has its tools, as globs.
    pub(crate) principals: Vec<String>,
    pub(crate) tools: Vec<ToolStatus>,
}

/// Whether a tool works.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ToolStatus {
    pub(crate) name: String,
    pub(crate) on: bool,
    /// Why it does not.
    pub(crate) reason: Option<String>,
}

impl ToolkitStatus {
    /// A toolkit that is off, with the tools that it would have.
    pub(super) fn off(name: &'static str, reason: String) -> Self {
        let tools = tool_names(name).iter().map(|tool| ToolStatus {
            name: (*tool).to_owned(),
            on: false,
            reason: None,
        });
        Self {
            name,
            on: false,
            reason: Some(reason),
            principals: everybody(),
            tools: tools.collect(),
        }
    }

    /// A toolkit with these tools. It is on where one of them is.
    pub(super) fn of_tools(name: &'static str, tools: Vec<ToolStatus>) -> Self {
        let on = tools.iter().any(|tool| tool.on);
        let reason = if on { None } else { tools.iter().find_map(|tool| tool.reason.clone()) };
        Self { name, on, reason, principals: everybody(), tools }
    }

    /// The same toolkit, whose tools these principals have.
    pub(super) fn for_principals(self, principals: Vec<String>) -> Self {
        Self { principals, ..self }
    }

    /// Whether everybody has its tools.
    pub(crate) fn is_for_everybody(&self) -> bool {
        self.principals == everybody()
    }
}

/// The glob for everybody.
pub(super) fn everybody() -> Vec<String> {
    vec!["*".to_owned()]
}

/// The tools of a toolkit that is off. Those of `rest` are what the settings make them.
fn tool_names(toolkit: &str) -> &'static [&'static str] {
    match toolkit {
        "files" => &["read_file", "write_file", "append_file", "edit_file", "glob", "grep"],
        "bash" => &["bash"],
        "web" => &["web_search", "web_browse", "web_fetch"],
        "linkedin" => &["linkedin_jobs", "linkedin_job_detail"],
        "anthropic_usage" => &["anthropic_usage"],
        "google" => &[
            "gmail_search",
            "gmail_read",
            "gmail_send",
            "calendar_list_events",
            "calendar_create_event",
            "calendar_get_event",
        ],
        _ => &[],
    }
}
