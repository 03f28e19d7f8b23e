//! The body of a request.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ChatFlavour;
use crate::api::wire_ids::WireIds;
use crate::dialect::LoweredTools;
use crate::message::{
    AssistantMessage, AssistantPart, Message, OpaqueReasoning, Reasoning, ReasoningForm, ToolResult,
};
use crate::outside::NOTICES_TOOL;
use crate::request::ModelRequest;
use crate::settings::ReasoningEffort;

/// Longest key of a session that OpenRouter takes, in characters.
const SESSION_ID_CHARS_MAX: usize = 256;
/// The same of OpenAI.
const CACHE_KEY_CHARS_MAX: usize = 64;
/// Families of thinking models that reject a call without `reasoning_content`.
const THINKING_FAMILIES: [&str; 2] = ["deepseek", "kimi"];
/// Reasoning text for a call that was made for the model.
const NOTICE_THOUGHT: &str = "There is text from outside to read.";

/// What a body is written from.
pub(crate) struct ChatRequest<'a> {
    pub(crate) model: &'a str,
    pub(crate) flavour: ChatFlavour,
    pub(crate) request: &'a ModelRequest,
    pub(crate) tools: &'a LoweredTools,
    /// Most tokens of the answer, where the request does not say.
    pub(crate) output_tokens_max: Option<u32>,
    pub(crate) effort: Option<ReasoningEffort>,
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Value>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_effort: Option<ReasoningEffort>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_cache_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<Value>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// Writes the body of a request.
pub(crate) fn write_body(from: &ChatRequest<'_>) -> serde_json::Result<Vec<u8>> {
    let ChatRequest { model, flavour, request, tools, output_tokens_max, effort } = from;
    let tokens = request.output_tokens_max.or(*output_tokens_max);
    let key = |chars_max| {
        let key = request.session_key.as_deref()?;
        Some(key.chars().take(chars_max).collect::<String>())
    };

    let mut body = Body {
        model,
        messages: messages(from),
        tools: tools.definitions(),
        stream: true,
        stream_options: StreamOptions { include_usage: true },
        max_completion_tokens: None,
        max_tokens: None,
        temperature: request.temperature,
        reasoning_effort: *effort,
        prompt_cache_key: None,
        session_id: None,
        cache_control: None,
    };
    match flavour {
        ChatFlavour::OpenAi => {
            body.max_completion_tokens = tokens;
            body.prompt_cache_key = key(CACHE_KEY_CHARS_MAX);
        }
        ChatFlavour::OpenRouter => {
            body.max_tokens = tokens;
            body.session_id = key(SESSION_ID_CHARS_MAX);
            // Other models' caches need no mark.
            let is_marked = model.starts_with("anthropic/") && request.session_key.is_some();
            body.cache_control = is_marked.then(|| json!({"type": "ephemeral"}));
        }
        ChatFlavour::Compatible => body.max_tokens = tokens,
    }
    serde_json::to_vec(&body)
}

fn messages(from: &ChatRequest<'_>) -> Vec<Value> {
    let mut ids = WireIds::default();
    let mut messages = Vec::with_capacity(from.request.messages.len() + 1);
    if !from.request.system.is_empty() {
        messages.push(json!({"role": "system", "content": *from.request.system}));
    }
    for message in &from.request.messages {
        match &**message {
            Message::User { text } => messages.push(json!({"role": "user", "content": text})),
            Message::Assistant(answer) => messages.extend(assistant(from, answer, &mut ids)),
            Message::Results { results } => {
                messages.extend(results.iter().map(|result| tool_result(result, &ids)));
            }
        }
    }
    messages
}

fn tool_result(result: &ToolResult, ids: &WireIds) -> Value {
    json!({"role": "tool", "tool_call_id": ids.of_result(result), "content": result.text})
}

/// An answer as the API takes it back; `None` where nothing of it can be sent.
fn assistant(
    from: &ChatRequest<'_>,
    answer: &AssistantMessage,
    ids: &mut WireIds,
) -> Option<Value> {
    let ids = ids.of_answer(answer);
    let calls = answer.calls().zip(ids).map(|(call, id)| {
        let name = from.tools.model_name(&call.name);
        let arguments = call.written_arguments();
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    });
    let calls: Vec<Value> = calls.collect();
    let text = answer.text();
    if calls.is_empty() && text.is_empty() {
        return None;
    }

    let mut message = Map::new();
    message.insert("role".to_owned(), json!("assistant"));
    let content = if text.is_empty() { Value::Null } else { Value::String(text) };
    message.insert("content".to_owned(), content);
    if let Some((name, value)) = reasoning(from, answer) {
        message.insert(name.to_owned(), value);
    }
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), Value::Array(calls));
    }
    Some(Value::Object(message))
}

/// Returns true if the API rejects calls without reasoning. APIs that returned reasoning before do,
/// and so do those of known model families. A call that was made for the model has no reasoning of
/// its own.
fn wants_reasoning_content(from: &ChatRequest<'_>) -> bool {
    let is_of_this_model = |part: &AssistantPart| match part {
        AssistantPart::Reasoning(Reasoning { opaque: Some(opaque), .. }) => {
            opaque.form == ReasoningForm::ReasoningContent && opaque.model == from.model
        }
        _ => false,
    };
    let has_thought = || {
        from.request.messages.iter().any(|message| match &**message {
            Message::Assistant(answer) => answer.parts.iter().any(is_of_this_model),
            Message::User { .. } | Message::Results { .. } => false,
        })
    };

    let name = from.model.to_ascii_lowercase();
    from.flavour == ChatFlavour::Compatible
        && (THINKING_FAMILIES.iter().any(|family| name.contains(family)) || has_thought())
}

/// The member for reasoning that this API wants back, where there is some.
fn reasoning(from: &ChatRequest<'_>, answer: &AssistantMessage) -> Option<(&'static str, Value)> {
    let is_thought = |part: &AssistantPart| matches!(part, AssistantPart::Reasoning(_));
    let has_thought = answer.parts.iter().any(is_thought);
    if !has_thought && answer.calls().any(|call| call.name == NOTICES_TOOL) {
        let thought = || ("reasoning_content", json!(NOTICE_THOUGHT));
        return wants_reasoning_content(from).then(thought);
    }

    let mut kept = answer.parts.iter().filter_map(|part| match part {
        AssistantPart::Reasoning(reasoning) => reasoning.opaque.as_ref(),
        AssistantPart::Text { .. } | AssistantPart::Call(_) => None,
    });
    let OpaqueReasoning { form, value, model } = kept.next()?;
    if model != from.model {
        return None;
    }

    match (form, from.flavour) {
        (ReasoningForm::OpenRouterDetails, ChatFlavour::OpenRouter) => {
            Some(("reasoning_details", value.clone()))
        }
        // It is wanted between a call and its result, and refused by some without calls.
        (ReasoningForm::ReasoningContent, ChatFlavour::Compatible)
            if answer.calls().next().is_some() =>
        {
            let texts = answer.parts.iter().filter_map(|part| match part {
                AssistantPart::Reasoning(reasoning) => Some(reasoning.text.as_str()),
                AssistantPart::Text { .. } | AssistantPart::Call(_) => None,
            });
            Some(("reasoning_content", Value::String(texts.collect())))
        }
        _ => None,
    }
}
