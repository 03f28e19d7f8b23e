//! The stream of an answer: blocks that begin, grow and end.

use serde_json::{Value, json};

use crate::api::answer::{Answer, PartIndex};
use crate::api::refusal;
use crate::api::stream::{Progress, tokens};
use crate::completion::{Completion, StopReason, TokenUsage};
use crate::error::ErrorKind;
use crate::json_text::{read_json, values_in};
use crate::message::ReasoningForm;

/// Puts an answer together.
pub(crate) struct AnthropicStream<'a> {
    answer: Answer<'a>,
    block: Option<OpenBlock>,
    usage: Usage,
}

struct OpenBlock {
    index: u64,
    kind: BlockKind,
}

enum BlockKind {
    Text,
    Thinking(PartIndex),
    /// A call, and its arguments where they came at once.
    Call {
        part: PartIndex,
        given: Option<String>,
        has_pieces: bool,
    },
    /// A call that the provider makes itself, and its arguments so far.
    Hosted {
        part: PartIndex,
        input: String,
    },
    /// What is kept as it was when it began, or not at all.
    Other,
}

/// Counts that come in pieces, each of which replaces the ones before.
#[derive(Default)]
struct Usage {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl<'a> AnthropicStream<'a> {
    pub(crate) fn new(answer: Answer<'a>) -> Self {
        Self { answer, block: None, usage: Usage::default() }
    }

    /// Takes the data of one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Progress, ErrorKind> {
        let broken = |problem: String| ErrorKind::BrokenStream { problem };
        let event =
            read_json(data).map_err(|error| broken(format!("an event is not JSON: {error}")))?;

        match event["type"].as_str().unwrap_or_default() {
            "message_start" => {
                let message = &event["message"];
                if let Some(model) = message["model"].as_str() {
                    self.answer.name_model(model);
                }
                self.take_usage(&message["usage"]);
            }
            "content_block_start" => {
                self.end_block()?;
                self.begin_block(&event)?;
            }
            "content_block_delta" => self.take_delta(&event)?,
            "content_block_stop" => self.end_block()?,
            "message_delta" => {
                if let Some(reason) = event["delta"]["stop_reason"].as_str() {
                    self.answer.stop = Some(stop_reason(reason));
                }
                self.take_usage(&event["usage"]);
            }
            "message_stop" => return Ok(Progress::Done),
            "message" => {
                self.take_whole(&event)?;
                return Ok(Progress::Done);
            }
            "error" => return Err(refusal::in_stream(&event)),
            // Proxies leave out the type.
            "" if event.get("error").is_some_and(|error| !error.is_null()) => {
                return Err(refusal::in_stream(&event));
            }
            // `ping`, and what may be added.
            _ => {}
        }
        Ok(Progress::More)
    }

    /// Whether the model has stopped.
    pub(crate) fn has_stopped(&self) -> bool {
        self.answer.stop.is_some()
    }

    /// The whole answer.
    pub(crate) fn finish(mut self) -> Completion {
        // A block without its end stays as it began where it would be too large.
        let _ = self.end_block();
        self.answer.usage = self.usage.read();
        if self.answer.stop == Some(StopReason::ToolCalls) && !self.answer.has_calls() {
            self.answer.stop = Some(StopReason::Other);
        }
        self.answer.finish()
    }

    /// What there is of an answer that broke off.
    pub(crate) fn break_off(mut self) -> Option<Box<Completion>> {
        self.answer.usage = self.usage.read();
        self.answer.break_off()
    }

    /// The answer of a server that does not stream.
    fn take_whole(&mut self, message: &Value) -> Result<(), ErrorKind> {
        if let Some(model) = message["model"].as_str() {
            self.answer.name_model(model);
        }
        for block in message["content"].as_array().into_iter().flatten() {
            self.begin_block(&json!({"content_block": block}))?;
            self.end_block()?;
        }
        self.answer.stop = message["stop_reason"].as_str().map(stop_reason);
        self.take_usage(&message["usage"]);
        Ok(())
    }

    fn begin_block(&mut self, event: &Value) -> Result<(), ErrorKind> {
        let block = &event["content_block"];
        let kind = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                self.answer.push_text(block["text"].as_str().unwrap_or_default())?;
                BlockKind::Text
            }

            "thinking" => {
                let signature = block["signature"].as_str().unwrap_or_default();
                let thinking = block["thinking"].as_str().unwrap_or_default();
                let value =
                    json!({"type": "thinking", "thinking": thinking, "signature": signature});
                let part = self.answer.begin_opaque(ReasoningForm::AnthropicBlock, value)?;
                self.answer.push_reasoning(thinking)?;
                BlockKind::Thinking(part)
            }

            "tool_use" => {
                let text = |name| block[name].as_str().unwrap_or_default();
                let part = self.answer.begin_call(text("id"), text("name"))?;
                let input = block.get("input").filter(|input| has_members(input));
                let given = input.map(Value::to_string);
                BlockKind::Call { part, given, has_pieces: false }
            }
            "" => {
                return Err(ErrorKind::BrokenStream { problem: "a block has no type".to_owned() });
            }
            kind => {
                // Redacted thinking, and what the provider did with tools of its own.
                let form = ReasoningForm::AnthropicBlock;
                let part = self.answer.begin_opaque(form, block.clone())?;
                match kind {
                    "server_tool_use" => BlockKind::Hosted { part, input: String::new() },
                    _ => BlockKind::Other,
                }
            }
        };
        self.block = Some(OpenBlock { index: event["index"].as_u64().unwrap_or(0), kind });
        Ok(())
    }

    fn take_delta(&mut self, event: &Value) -> Result<(), ErrorKind> {
        let index = event["index"].as_u64().unwrap_or(0);
        let Some(block) = self.block.as_mut().filter(|block| block.index == index) else {
            let problem = "a piece belongs to no block".to_owned();
            return Err(ErrorKind::BrokenStream { problem });
        };

        let delta = &event["delta"];
        let text = |name| delta[name].as_str().unwrap_or_default();
        match (&mut block.kind, text("type")) {
            (BlockKind::Text, "text_delta") => self.answer.push_text(text("text"))?,
            (BlockKind::Thinking(part), "thinking_delta") => {
                if let Some(value) = self.answer.opaque_mut(*part) {
                    append(&mut value["thinking"], text("thinking"));
                }
                self.answer.push_reasoning(text("thinking"))?;
            }
            (BlockKind::Thinking(part), "signature_delta") => {
                if let Some(value) = self.answer.opaque_mut(*part) {
                    append(&mut value["signature"], text("signature"));
                }
            }
            (BlockKind::Call { part, has_pieces, .. }, "input_json_delta") => {
                *has_pieces |= !text("partial_json").is_empty();
                self.answer.push_arguments(*part, text("partial_json"));
            }
            (BlockKind::Hosted { input, .. }, "input_json_delta") => {
                input.push_str(text("partial_json"));
            }
            // Citations, and what may be added.
            _ => {}
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<(), ErrorKind> {
        let Some(block) = self.block.take() else { return Ok(()) };
        match block.kind {
            BlockKind::Call { part, given, has_pieces } => {
                if let Some(given) = given.filter(|_| !has_pieces) {
                    self.answer.push_arguments(part, &given);
                }
                self.answer.end_call(part);
            }

            BlockKind::Hosted { part, input } => {
                let input = read_json(&input).ok().filter(Value::is_object);
                self.answer.count_kept(input.as_ref().map_or(0, values_in))?;
                if let (Some(block), Some(input)) = (self.answer.opaque_mut(part), input) {
                    block["input"] = input;
                }
            }

            BlockKind::Thinking(part) => {
                // It was cut off, and the API refuses thoughts that it has not signed.
                let value = self.answer.opaque_mut(part);
                if value.is_some_and(|value| value["signature"] == "") {
                    self.answer.drop_opaque(part);
                }
            }
            BlockKind::Text | BlockKind::Other => {}
        }
        Ok(())
    }

    fn take_usage(&mut self, usage: &Value) {
        let update = |count: &mut Option<u64>, name: &str| *count = tokens(&usage[name]).or(*count);
        update(&mut self.usage.input, "input_tokens");
        update(&mut self.usage.output, "output_tokens");
        update(&mut self.usage.cache_read, "cache_read_input_tokens");
        update(&mut self.usage.cache_write, "cache_creation_input_tokens");
    }
}

impl Usage {
    /// The counts; `None` where there were none. What was cached is not in the API's count of what
    /// was read.
    fn read(&self) -> Option<TokenUsage> {
        let Self { input, output, cache_read, cache_write } = self;
        input.or(*output)?;
        let cache_read = cache_read.unwrap_or_default();
        let cache_write = cache_write.unwrap_or_default();
        let input = input.unwrap_or_default();
        Some(TokenUsage {
            input: input.saturating_add(cache_read).saturating_add(cache_write),
            output: output.unwrap_or_default(),
            cache_read,
            cache_write,
            cost_micro_usd: None,
            is_estimated: false,
        })
    }
}

fn stop_reason(reason: &str) -> StopReason {
    match reason {
        "end_turn" | "stop_sequence" => StopReason::End,
        "tool_use" => StopReason::ToolCalls,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::ContentFilter,
        _ => StopReason::Other,
    }
}

fn has_members(value: &Value) -> bool {
    value.as_object().is_some_and(|members| !members.is_empty())
}

fn append(value: &mut Value, more: &str) {
    if let Value::String(text) = value {
        text.push_str(more);
    }
}
