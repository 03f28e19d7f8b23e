//! What the server offers, as `offer.json` has it: descriptions, and what each is answered with.
//!
//! The names and most texts are those that the scenarios of the suite look for; they are data, so
//! that what the server does can be read apart from what the suite happens to call it.

use rmcp::model::{
    CallToolResult, InputRequests, Prompt, PromptMessage, Resource, ResourceContents,
    ResourceTemplate, Tool,
};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Everything that is offered.
#[derive(Debug, Deserialize)]
pub(crate) struct Offer {
    pub(crate) tools: Vec<OfferedTool>,
    pub(crate) prompts: Vec<OfferedPrompt>,
    pub(crate) resources: Vec<OfferedResource>,
    pub(crate) templates: Vec<ResourceTemplate>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OfferedTool {
    pub(crate) tool: Tool,
    #[serde(flatten)]
    pub(crate) behavior: ToolBehavior,
}

/// What a tool does when it is called.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum ToolBehavior {
    /// Returns this answer.
    Answer(CallToolResult),
    /// Asks the client, and repeats its answers.
    Asks(QuestionRounds),
    /// Performs this action.
    Does(ToolAction),
}

/// An action of a tool besides answering.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToolAction {
    Logging,
    Progress,
    Reconnection,
    ToolsChanged,
    PromptsChanged,
}

/// Questions to the client, one round after the other.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct QuestionRounds {
    /// The requests of each round by their keys; arguments are filled in.
    pub(crate) rounds: Vec<Map<String, Value>>,
    /// Whether the client has to carry a sealed state that says which round is next.
    pub(crate) sealed: bool,
    /// What the answer begins with.
    pub(crate) says: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OfferedPrompt {
    pub(crate) prompt: Prompt,
    /// The messages; arguments are filled in.
    messages: Value,
    pub(crate) asks: Option<QuestionRounds>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OfferedResource {
    pub(crate) resource: Resource,
    pub(crate) contents: ResourceContents,
}

impl Offer {
    pub(crate) fn read() -> anyhow::Result<Self> {
        Ok(serde_json::from_str(include_str!("offer.json"))?)
    }

    pub(crate) fn tool(&self, name: &str) -> Option<&OfferedTool> {
        self.tools.iter().find(|offered| offered.tool.name == name)
    }

    pub(crate) fn prompt(&self, name: &str) -> Option<&OfferedPrompt> {
        self.prompts.iter().find(|offered| offered.prompt.name == name)
    }

    /// The contents of a listed resource, or of one that fits the template.
    pub(crate) fn contents(&self, uri: &str) -> Option<ResourceContents> {
        if let Some(found) = self.resources.iter().find(|offered| offered.resource.uri == uri) {
            return Some(found.contents.clone());
        }
        let id = uri.strip_prefix("test://template/")?.strip_suffix("/data")?;
        let text = serde_json::json!({
            "id": id,
            "templateTest": true,
            "data": format!("Data for ID: {id}"),
        });
        let contents = ResourceContents::text(text.to_string(), uri);
        Some(contents.with_mime_type("application/json"))
    }
}

impl OfferedPrompt {
    pub(crate) fn messages(&self, arguments: &Map<String, Value>) -> Vec<PromptMessage> {
        fill_template(&self.messages, arguments)
    }
}

impl QuestionRounds {
    pub(crate) fn questions(&self, round: usize, arguments: &Map<String, Value>) -> InputRequests {
        fill_template(&Value::Object(self.rounds[round].clone()), arguments)
    }
}

/// The value with `{name}` in its texts replaced by the argument of that name.
fn fill_template<T: DeserializeOwned>(value: &Value, arguments: &Map<String, Value>) -> T {
    let mut value = value.clone();
    replace_placeholders(&mut value, arguments);
    serde_json::from_value(value).expect("offer.json holds what the protocol has")
}

fn replace_placeholders(value: &mut Value, arguments: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            for (name, argument) in arguments {
                let argument = argument.as_str().unwrap_or_default();
                *text = text.replace(&format!("{{{name}}}"), argument);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| replace_placeholders(item, arguments))
        }
        Value::Object(members) => {
            members.values_mut().for_each(|item| replace_placeholders(item, arguments))
        }
        _ => {}
    }
}
