//! Messages: what was said in a session, as every model is told of it.
//!
//! They are plain data without a trace of any API, so that a session can be stored, read back, and
//! continued with another model. What only one API understands of an answer, such as signed
//! reasoning, is kept beside it as that API wrote it, and given back to that API alone.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::json_text::ANSWER_LIMITS;

/// One message of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    /// What a person, or whoever speaks in the place of one, says.
    User {
        /// Its text.
        text: String,
    },
    /// What the model answered.
    Assistant(AssistantMessage),
    /// What became of the calls of the answer before: one result for each, in the order of the
    /// calls.
    Results {
        /// The results.
        results: Vec<ToolResult>,
    },
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// Its parts, in the order in which they were written: some APIs demand them back in just that.
    pub parts: Vec<AssistantPart>,
}

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AssistantPart {
    /// Text for whoever asked.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thought.
    Reasoning(Reasoning),
    /// A call of a tool.
    Call(ModelCall),
}

/// What a model thought before it went on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reasoning {
    /// What can be read of it; may be empty.
    pub text: String,
    /// What its API wants back, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opaque: Option<OpaqueReasoning>,
}

/// Reasoning as one API wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OpaqueReasoning {
    /// The form that it has. An API that has another one is not given it.
    pub form: ReasoningForm,
    /// The model that was asked; what it signed is of no use to another.
    pub model: String,
    /// The value itself.
    pub value: Value,
}

/// How an API writes the reasoning that it wants back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningForm {
    /// A block `thinking` or `redacted_thinking` of Anthropic's messages.
    AnthropicBlock,
    /// OpenRouter's list `reasoning_details`.
    OpenRouterDetails,
    /// The text `reasoning_content`, as DeepSeek and others have it.
    ReasoningContent,
}

/// A call of a tool, as a model wants it made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ModelCall {
    /// What the result names the call by. Unique in its answer.
    pub id: String,
    /// The tool's own name; of a tool that the model was not told of, the name that it wrote.
    pub name: String,
    /// The arguments, as the tool takes them.
    pub arguments: CallArguments,
    /// The arguments as the model wrote them, where `arguments` would be written in another way.
    /// The model is shown its own words again, so that its prompt cache holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub written: Option<String>,
}

/// The arguments of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "form", rename_all = "snake_case")]
pub enum CallArguments {
    /// An object, which may still not be what the tool takes.
    Json {
        /// The object.
        value: Value,
    },
    /// Something else, which cannot be handed to a tool.
    NotJson {
        /// What was written, cut to a few thousand characters.
        text: String,
        /// Why it cannot be read, in words for the model.
        problem: String,
    },
}

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub call_id: String,
    /// What the model is told.
    pub text: String,
    /// Whether the call failed.
    #[serde(default)]
    pub is_error: bool,
}

impl Message {
    /// What a person says.
    pub fn user(text: impl Into<String>) -> Self {
        Self::User { text: text.into() }
    }
}

impl AssistantMessage {
    /// An answer that is nothing but text.
    pub fn text_only(text: impl Into<String>) -> Self {
        Self { parts: vec![AssistantPart::Text { text: text.into() }] }
    }

    /// All of its text.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text { text } => Some(text.as_str()),
            AssistantPart::Reasoning(_) | AssistantPart::Call(_) => None,
        });
        texts.collect()
    }

    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.parts.iter().filter_map(|part| match part {
            AssistantPart::Call(call) => Some(call),
            AssistantPart::Text { .. } | AssistantPart::Reasoning(_) => None,
        })
    }
}

impl ModelCall {
    /// The arguments as a JSON object in text, in the words of the model where it had some.
    #[must_use]
    pub fn written_arguments(&self) -> String {
        match (&self.written, &self.arguments) {
            (Some(written), CallArguments::Json { .. }) => written.clone(),
            (None, CallArguments::Json { value }) => value.to_string(),
            // An API takes nothing but an object back, also of a call that had none.
            (_, CallArguments::NotJson { .. }) => self.shown_arguments().to_string(),
        }
    }

    /// The arguments as the model wrote them. What it wrote that is not JSON is in a member of an
    /// object, for APIs take nothing else back.
    #[must_use]
    pub fn shown_arguments(&self) -> Value {
        match (&self.written, &self.arguments) {
            (written, CallArguments::Json { value }) => {
                let read = |text: &String| toolbus_json::from_str(text, &ANSWER_LIMITS).ok();
                written.as_ref().and_then(read).unwrap_or_else(|| value.clone())
            }
            (_, CallArguments::NotJson { text, .. }) => {
                let member = ("not_json".to_owned(), Value::String(text.clone()));
                Value::Object(Map::from_iter([member]))
            }
        }
    }
}

impl CallArguments {
    /// The object, where it is one.
    #[must_use]
    pub fn value(&self) -> Option<&Value> {
        match self {
            Self::Json { value } => Some(value),
            Self::NotJson { .. } => None,
        }
    }
}

impl ToolResult {
    /// What a call brought.
    pub fn success(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call_id: call_id.into(), text: text.into(), is_error: false }
    }

    /// Why a call failed.
    pub fn failure(call_id: impl Into<String>, text: impl Into<String>) -> Self {
        Self { call_id: call_id.into(), text: text.into(), is_error: true }
    }
}
