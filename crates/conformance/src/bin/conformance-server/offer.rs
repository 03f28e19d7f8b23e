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
    pub(crate) way: Way,
}

/// What a tool does when it is called.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Way {
    /// It gives this answer.
    Answer(CallToolResult),
    /// It asks the client, and repeats what it was told.
    Asks(Asks),
    /// It does this.
    Does(Deed),
}

/// What a tool can do besides answering.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Deed {
    Logging,
    Progress,
    Reconnection,
    ToolsChanged,
    PromptsChanged,
}

/// Questions to the client, one round after the other.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Asks {
    /// The requests of each round by their keys; arguments are filled in.
    pub(crate) rounds: Vec<Map<String, Value>>,
    /// Whether the client has to carry a seal that says how far it is.
    pub(crate) sealed: bool,
    /// What the answer begins with.
    pub(crate) says: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct OfferedPrompt {
    pub(crate) prompt: Prompt,
    /// The messages; arguments are filled in.
    messages: Value,
    pub(crate) asks: Option<Asks>,
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

    /// The contents of a resource, or of one that the template makes.
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
        filled(&self.messages, arguments)
    }
}

impl Asks {
    pub(crate) fn questions(&self, round: usize, arguments: &Map<String, Value>) -> InputRequests {
        filled(&Value::Object(self.rounds[round].clone()), arguments)
    }
}

/// The value with `{name}` in its texts replaced by the argument of that name.
fn filled<T: DeserializeOwned>(value: &Value, arguments: &Map<String, Value>) -> T {
    let mut value = value.clone();
    fill(&mut value, arguments);
    serde_json::from_value(value).expect("offer.json holds what the protocol has")
}

fn fill(value: &mut Value, arguments: &Map<String, Value>) {
    match value {
        Value::String(text) => {
            for (name, argument) in arguments {
                let argument = argument.as_str().unwrap_or_default();
                *text = text.replace(&format!("{{{name}}}"), argument);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, arguments)),
        Value::Object(members) => members.values_mut().for_each(|item| fill(item, arguments)),
        _ => {}
    }
}
