//! The stream of an answer: chunks that each bring a little of it.

use serde_json::Value;

use super::ChatFlavour;
use crate::api::answer::{Answer, PartIndex};
use crate::api::refusal;
use crate::api::stream::{Progress, tokens};
use crate::completion::{Completion, StopReason, TokenUsage};
use crate::error::ErrorKind;
use crate::json_text::{read_json, values_in};
use crate::message::ReasoningForm;

/// Most entries of `reasoning_details` that are kept.
const DETAILS_MAX: usize = 1_024;

/// Puts an answer together.
pub(crate) struct ChatStream<'a> {
    answer: Answer<'a>,
    flavour: ChatFlavour,
    calls: Vec<OpenCall>,
    details: Option<PartIndex>,
    /// Whether the API wrote `reasoning_content`, and wants it back.
    has_reasoning_content: bool,
    has_refused: bool,
}

struct OpenCall {
    /// The API's number of it; `None` where it gives none.
    index: Option<u64>,
    id: String,
    name: String,
    part: PartIndex,
}

impl<'a> ChatStream<'a> {
    pub(crate) fn new(answer: Answer<'a>, flavour: ChatFlavour) -> Self {
        Self {
            answer,
            flavour,
            calls: Vec::new(),
            details: None,
            has_reasoning_content: false,
            has_refused: false,
        }
    }

    /// Takes the data of one event.
    pub(crate) fn feed(&mut self, data: &str) -> Result<Progress, ErrorKind> {
        let data = data.trim();
        if data == "[DONE]" {
            return Ok(Progress::Done);
        }
        if data.is_empty() {
            return Ok(Progress::More);
        }

        let chunk = read_json(data).map_err(|error| ErrorKind::BrokenStream {
            problem: format!("an event is not JSON: {error}"),
        })?;
        if chunk.get("error").is_some_and(|error| !error.is_null()) {
            return Err(refusal::in_stream(&chunk));
        }

        if let Some(model) = chunk["model"].as_str() {
            self.answer.name_model(model);
        }
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.answer.usage = Some(read_usage(usage));
        }
        let choices = chunk["choices"].as_array().into_iter().flatten();
        let mut first = choices.filter(|choice| choice["index"].as_u64().unwrap_or(0) == 0);
        if let Some(choice) = first.next() {
            self.take_choice(choice)?;
        }
        Ok(Progress::More)
    }

    /// Whether the model has stopped: what may still come is the usage.
    pub(crate) fn has_stopped(&self) -> bool {
        self.answer.stop.is_some()
    }

    /// The whole answer.
    pub(crate) fn finish(mut self) -> Completion {
        if self.has_reasoning_content && self.details.is_none() {
            self.answer.keep_reasoning(ReasoningForm::ReasoningContent, &Value::Null);
        }
        self.answer.stop = Some(match self.answer.stop {
            // Some say that it stopped, or nothing, and mean the calls.
            None | Some(StopReason::End | StopReason::Other) if self.answer.has_calls() => {
                StopReason::ToolCalls
            }
            Some(StopReason::ToolCalls) if !self.answer.has_calls() => StopReason::Other,
            Some(StopReason::End) if self.has_refused => StopReason::ContentFilter,
            stop => stop.unwrap_or(StopReason::Other),
        });
        self.answer.finish()
    }

    /// What there is of an answer that broke off.
    pub(crate) fn break_off(self) -> Option<Box<Completion>> {
        self.answer.break_off()
    }

    fn take_choice(&mut self, choice: &Value) -> Result<(), ErrorKind> {
        if choice.get("error").is_some_and(|error| !error.is_null()) {
            return Err(refusal::in_stream(choice));
        }
        // A server that does not stream has the whole message in the place of a piece.
        let delta = choice.get("delta").filter(|delta| delta.is_object());
        if let Some(delta) = delta.or_else(|| choice.get("message")) {
            self.take_delta(delta)?;
        }

        let Some(reason) = choice["finish_reason"].as_str() else { return Ok(()) };
        self.answer.stop = Some(match reason {
            "stop" => StopReason::End,
            "length" => StopReason::MaxTokens,
            "tool_calls" | "function_call" => StopReason::ToolCalls,
            "content_filter" => StopReason::ContentFilter,
            "error" => {
                let problem = "the API ended it with an error".to_owned();
                return Err(ErrorKind::BrokenStream { problem });
            }
            _ => StopReason::Other,
        });
        Ok(())
    }

    fn take_delta(&mut self, delta: &Value) -> Result<(), ErrorKind> {
        // Before the same as text, which is added to them.
        if self.flavour == ChatFlavour::OpenRouter
            && let Some(details) = delta["reasoning_details"].as_array()
        {
            self.take_details(details)?;
        }
        if let Some(text) = delta["reasoning_content"].as_str() {
            self.has_reasoning_content |= !text.is_empty();
            self.answer.push_reasoning(text)?;
        } else if let Some(text) = delta["reasoning"].as_str() {
            self.answer.push_reasoning(text)?;
        }

        match &delta["content"] {
            Value::String(text) => self.answer.push_text(text)?,
            Value::Array(items) => items.iter().try_for_each(|item| self.take_content(item))?,
            _ => {}
        }
        if let Some(text) = delta["refusal"].as_str() {
            self.has_refused |= !text.is_empty();
            self.answer.push_text(text)?;
        }
        let calls = delta["tool_calls"].as_array().into_iter().flatten();
        calls.into_iter().try_for_each(|call| self.take_call(call))
    }

    /// A part of content that is a list, as some models have it that reason.
    fn take_content(&mut self, item: &Value) -> Result<(), ErrorKind> {
        match &item["thinking"] {
            Value::String(text) => self.answer.push_reasoning(text),
            Value::Array(texts) => texts.iter().try_for_each(|text| {
                self.answer.push_reasoning(text["text"].as_str().unwrap_or_default())
            }),
            _ => self.answer.push_text(item["text"].as_str().unwrap_or_default()),
        }
    }

    /// Pieces of reasoning: those of one entry have the same type and index, and come in a row.
    fn take_details(&mut self, pieces: &[Value]) -> Result<(), ErrorKind> {
        if pieces.is_empty() {
            return Ok(());
        }

        let part = match self.details {
            Some(part) => part,
            None => {
                let form = ReasoningForm::OpenRouterDetails;
                *self.details.insert(self.answer.begin_opaque(form, Value::Array(Vec::new()))?)
            }
        };

        let Some(Value::Array(details)) = self.answer.opaque_mut(part) else { return Ok(()) };
        let mut added = 0;
        for piece in pieces {
            let is_same = |last: &&mut Value| {
                last["type"] == piece["type"] && last["index"] == piece["index"]
            };
            match details.last_mut().filter(is_same) {
                Some(last) => added += merge_detail(last, piece),
                None => {
                    added += values_in(piece);
                    details.push(piece.clone());
                }
            }
        }

        if details.len() > DETAILS_MAX {
            let limit = format!("more than {DETAILS_MAX} pieces of reasoning");
            return Err(ErrorKind::TooLarge { limit });
        }
        self.answer.count_kept(added)
    }

    fn take_call(&mut self, delta: &Value) -> Result<(), ErrorKind> {
        let index = delta["index"].as_u64();
        let id = delta["id"].as_str().unwrap_or_default();
        let function = &delta["function"];
        let name = function["name"].as_str().unwrap_or_default();

        let at = match self.find_call(index, id, name) {
            Some(at) => at,
            None => {
                let part = self.answer.begin_call(id, name)?;
                let call = OpenCall { index, id: id.to_owned(), name: name.to_owned(), part };
                if let Some(before) = self.calls.last() {
                    self.answer.end_call(before.part);
                }
                self.calls.push(call);
                self.calls.len() - 1
            }
        };

        let call = &mut self.calls[at];
        let part = call.part;
        if call.name.is_empty() && !name.is_empty() {
            name.clone_into(&mut call.name);
            self.answer.name_call(part, name);
        }
        match &function["arguments"] {
            Value::String(piece) => self.answer.push_arguments(part, piece),
            // Some servers write the object itself.
            object @ Value::Object(_) => self.answer.push_arguments(part, &object.to_string()),
            _ => {}
        }
        Ok(())
    }

    /// The call that a piece belongs to; `None` where it begins another one. Servers leave out
    /// numbers, give every call the same one, or repeat id and name with each piece.
    fn find_call(&self, index: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let is_named = !id.is_empty() && !name.is_empty();
        let at = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if is_named => self.calls.iter().rposition(|call| call.id == id)?,
            None if name.is_empty() => self.calls.len().checked_sub(1)?,
            None => return None,
        };
        let call = &self.calls[at];
        let is_renamed = !call.name.is_empty() && name != call.name;
        let is_another = is_named && (id != call.id || is_renamed);
        (!is_another).then_some(at)
    }
}

/// Adds a piece to its entry: texts go on, all else is filled in. Returns how many values are new.
fn merge_detail(detail: &mut Value, piece: &Value) -> usize {
    let (Value::Object(detail), Value::Object(piece)) = (detail, piece) else { return 0 };
    let mut added = 0;
    for (name, value) in piece {
        match (detail.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(more))
                if matches!(name.as_str(), "text" | "summary" | "data") =>
            {
                text.push_str(more);
            }
            // Most pieces repeat members that say nothing.
            (Some(Value::Null), Value::Null) => {}
            (Some(Value::Null) | None, value) => {
                added += values_in(value);
                detail.insert(name.clone(), value.clone());
            }
            _ => {}
        }
    }
    added
}

/// Most dollars that an answer is believed to cost.
const COST_MAX_USD: f64 = 1e6;

fn read_usage(usage: &Value) -> TokenUsage {
    let details = &usage["prompt_tokens_details"];
    let cached = tokens(&details["cached_tokens"]).or(tokens(&usage["prompt_cache_hit_tokens"]));
    let cost = usage["cost"].as_f64().filter(|cost| (0.0..=COST_MAX_USD).contains(cost));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is 0 to 10^12, rounded"
    )]
    let cost = cost.map(|dollars| (dollars * 1e6).ceil() as u64);
    TokenUsage {
        input: tokens(&usage["prompt_tokens"]).unwrap_or_default(),
        output: tokens(&usage["completion_tokens"]).unwrap_or_default(),
        cache_read: cached.unwrap_or_default(),
        cache_write: tokens(&details["cache_write_tokens"]).unwrap_or_default(),
        cost_micro_usd: cost,
        is_estimated: false,
    }
}
