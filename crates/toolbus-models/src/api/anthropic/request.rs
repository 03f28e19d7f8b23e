//! The body of a request.
//!
//! What repeats from request to request stands first and is marked for the prompt cache: the tools,
//! the system prompt and, within a session, everything up to the last message. The API has no
//! temperature any more.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::api::wire_ids::WireIds;
use crate::dialect::LoweredTools;
use crate::message::{AssistantMessage, AssistantPart, Message, ReasoningForm, ToolResult};
use crate::outside::notices_definition;
use crate::request::ModelRequest;
use crate::settings::ReasoningEffort;

/// What stands for a text that is empty, where the API takes none.
const NO_TEXT: &str = "(no text)";

/// What a body is written from.
pub(crate) struct AnthropicRequest<'a> {
    pub(crate) model: &'a str,
    pub(crate) request: &'a ModelRequest,
    pub(crate) tools: &'a LoweredTools,
    /// Most tokens of the answer, where the request does not say.
    pub(crate) output_tokens_max: u32,
    pub(crate) effort: Option<ReasoningEffort>,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "MarkedTools::is_empty")]
    tools: MarkedTools<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    messages: Vec<Value>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<Value>,
}

/// Definitions, the last of which is marked.
struct MarkedTools<'a>(&'a [Value]);

/// Writes the body of a request.
pub(crate) fn write_body(from: &AnthropicRequest<'_>) -> serde_json::Result<Vec<u8>> {
    let AnthropicRequest { model, request, tools, output_tokens_max, effort } = from;
    let system = (!request.system.trim().is_empty())
        .then(|| json!([marked(json!({"type": "text", "text": *request.system}))]));
    let (definitions, tool_choice) = offered(request, tools);
    let body = Body {
        model,
        max_tokens: request.output_tokens_max.unwrap_or(*output_tokens_max),
        tools: MarkedTools(&definitions),
        system,
        tool_choice,
        messages: messages(from),
        stream: true,
        thinking: effort.map(|_| json!({"type": "adaptive"})),
        output_config: effort.map(|effort| json!({"effort": effort})),
    };
    serde_json::to_vec(&body)
}

/// Returns the definitions of tools and the tool choice. The API accepts calls in earlier messages
/// only beside definitions, so a request without tools gets one definition that the model may not
/// call.
fn offered<'a>(
    request: &ModelRequest,
    tools: &'a LoweredTools,
) -> (Cow<'a, [Value]>, Option<Value>) {
    let has_calls = |message: &Arc<Message>| match &**message {
        Message::Assistant(answer) => answer.calls().next().is_some(),
        Message::User { .. } | Message::Results { .. } => false,
    };
    let definitions = tools.definitions();
    if !definitions.is_empty() || !request.messages.iter().any(has_calls) {
        return (Cow::Borrowed(definitions), None);
    }
    (Cow::Owned(vec![notices_definition()]), Some(json!({"type": "none"})))
}

impl MarkedTools<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Serialize for MarkedTools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What is found by a search only is not in the cached part, and may have no mark.
        let last = self.0.iter().rposition(|tool| tool.get("defer_loading").is_none());
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for (at, tool) in self.0.iter().enumerate() {
            if Some(at) == last {
                list.serialize_element(&marked(tool.clone()))?;
            } else {
                list.serialize_element(tool)?;
            }
        }
        list.end()
    }
}

fn marked(mut block: Value) -> Value {
    if let Value::Object(members) = &mut block {
        members.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
    block
}

fn messages(from: &AnthropicRequest<'_>) -> Vec<Value> {
    let mut ids = WireIds::default();
    let mut messages: Vec<Value> = Vec::with_capacity(from.request.messages.len());
    for message in &from.request.messages {
        let (role, blocks) = match &**message {
            Message::User { text } => ("user", vec![text_block(text).unwrap_or_else(no_text)]),
            Message::Assistant(answer) => ("assistant", answer_blocks(from, answer, &mut ids)),
            Message::Results { results } => {
                ("user", results.iter().map(|result| result_block(result, &ids)).collect())
            }
        };
        // An answer of which nothing can be sent is left out.
        if !blocks.is_empty() {
            messages.push(json!({"role": role, "content": blocks}));
        }
    }

    let last = messages.last_mut().filter(|last| last["role"] == "user");
    if let Some(last) = last.filter(|_| from.request.session_key.is_some())
        && let Some(block) = last["content"].as_array_mut().and_then(|blocks| blocks.last_mut())
    {
        *block = marked(block.take());
    }
    messages
}

/// A block with this text; none where there is nothing to read in it, which the API refuses.
fn text_block(text: &str) -> Option<Value> {
    (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}))
}

fn no_text() -> Value {
    json!({"type": "text", "text": NO_TEXT})
}

fn result_block(result: &ToolResult, ids: &WireIds) -> Value {
    let text = if result.text.trim().is_empty() { NO_TEXT } else { &result.text };
    let mut block = Map::new();
    block.insert("type".to_owned(), json!("tool_result"));
    block.insert("tool_use_id".to_owned(), json!(ids.of_result(result)));
    block.insert("content".to_owned(), json!(text));
    if result.is_error {
        block.insert("is_error".to_owned(), json!(true));
    }
    Value::Object(block)
}

fn answer_blocks(
    from: &AnthropicRequest<'_>,
    answer: &AssistantMessage,
    ids: &mut WireIds,
) -> Vec<Value> {
    let mut ids = ids.of_answer(answer).into_iter();
    let blocks = answer.parts.iter().filter_map(|part| match part {
        AssistantPart::Text { text } => text_block(text),
        AssistantPart::Reasoning(reasoning) => {
            let own = reasoning.opaque.as_ref().filter(|opaque| {
                opaque.form == ReasoningForm::AnthropicBlock && opaque.model == from.model
            });
            Some(own?.value.clone())
        }
        AssistantPart::Call(call) => {
            let id = ids.next().unwrap_or_else(|| call.id.clone());
            let name = from.tools.model_name(&call.name);
            let input = call.shown_arguments();
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": input}))
        }
    });
    blocks.collect()
}
