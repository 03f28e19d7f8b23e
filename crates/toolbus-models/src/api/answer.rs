//! An answer while it is put together: its parts in order, its limits, and who is told of it.

use serde_json::Value;
use toolbus_json::{VALUES_MAX, count_values};

use super::arguments::{ReadArguments, read_arguments};
use crate::call_arguments::{cut_off, unreadable};
use crate::completion::{Completion, StopReason, TokenUsage};
use crate::dialect::LoweredTools;
use crate::error::ErrorKind;
use crate::json_text::values_in;
use crate::message::{
    AssistantMessage, AssistantPart, ModelCall, OpaqueReasoning, Reasoning, ReasoningForm,
};
use crate::model::{ModelEvent, OnEvent};

/// Most calls of one answer.
pub(crate) const CALLS_MAX: usize = 128;
/// Most parts of one answer.
const PARTS_MAX: usize = 4_096;
/// Most values that are kept of one answer: those of the arguments of its calls, and of what its
/// API wants back. One event has no more, and an answer has many events.
const KEPT_VALUES_MAX: usize = VALUES_MAX;
/// Longest id of a call, in bytes; a longer one is replaced.
const CALL_ID_BYTES_MAX: usize = 256;
/// Longest name of a tool that a model may write, in bytes; the rest is cut off, and there is no
/// such tool.
const NAME_BYTES_MAX: usize = 256;
/// Longest name that an API gives its model, in bytes.
const MODEL_BYTES_MAX: usize = 256;

/// A part of the answer, by its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartIndex(usize);

/// An answer that is not finished.
pub(crate) struct Answer<'a> {
    tools: &'a LoweredTools,
    on_event: OnEvent<'a>,
    parts: Vec<Draft>,
    calls: usize,
    /// How many values are kept so far.
    kept_values: usize,
    has_begun: bool,
    /// What the API said of tokens.
    pub(crate) usage: Option<TokenUsage>,
    /// Why the model stopped; `None` while it has not.
    pub(crate) stop: Option<StopReason>,
    /// The model that was asked, by its name in the settings.
    asked: String,
    /// The model that answers, by the name that its API gives it.
    model: String,
}

enum Draft {
    Text(String),
    Reasoning { text: String, opaque: Option<(ReasoningForm, Value)> },
    Call { id: String, name: String, arguments: String, is_whole: bool },
}

impl<'a> Answer<'a> {
    /// An answer of this model, of which `on_event` is told.
    pub(crate) fn new(model: &str, tools: &'a LoweredTools, on_event: OnEvent<'a>) -> Self {
        Self {
            tools,
            on_event,
            parts: Vec::new(),
            calls: 0,
            kept_values: 0,
            has_begun: false,
            usage: None,
            stop: None,
            asked: model.to_owned(),
            model: model.to_owned(),
        }
    }

    /// What the API calls the model that answers.
    pub(crate) fn name_model(&mut self, model: &str) {
        if !model.is_empty() && model.len() <= MODEL_BYTES_MAX && model != self.model {
            model.clone_into(&mut self.model);
        }
    }

    /// More text.
    pub(crate) fn push_text(&mut self, delta: &str) -> Result<(), ErrorKind> {
        if delta.is_empty() {
            return Ok(());
        }
        match self.parts.last_mut() {
            Some(Draft::Text(text)) => text.push_str(delta),
            _ => {
                self.push_part(Draft::Text(delta.to_owned()))?;
            }
        }
        self.tell(ModelEvent::Text { delta: delta.to_owned() });
        Ok(())
    }

    /// More reasoning.
    pub(crate) fn push_reasoning(&mut self, delta: &str) -> Result<(), ErrorKind> {
        if delta.is_empty() {
            return Ok(());
        }
        match self.parts.last_mut() {
            Some(Draft::Reasoning { text, .. }) => text.push_str(delta),
            _ => {
                self.push_part(Draft::Reasoning { text: delta.to_owned(), opaque: None })?;
            }
        }
        self.tell(ModelEvent::Reasoning { delta: delta.to_owned() });
        Ok(())
    }

    /// Reasoning that its API wants back as it is, at its place among the parts.
    pub(crate) fn begin_opaque(
        &mut self,
        form: ReasoningForm,
        value: Value,
    ) -> Result<PartIndex, ErrorKind> {
        self.count_kept(values_in(&value))?;
        self.push_part(Draft::Reasoning { text: String::new(), opaque: Some((form, value)) })
    }

    /// Counts values that are added to what its API wants back.
    pub(crate) fn count_kept(&mut self, values: usize) -> Result<(), ErrorKind> {
        self.kept_values = self.kept_values.saturating_add(values);
        if self.kept_values > KEPT_VALUES_MAX {
            let limit = format!("more than {KEPT_VALUES_MAX} values");
            return Err(ErrorKind::TooLarge { limit });
        }
        Ok(())
    }

    /// What its API wants back of reasoning.
    pub(crate) fn opaque_mut(&mut self, part: PartIndex) -> Option<&mut Value> {
        match self.parts.get_mut(part.0) {
            Some(Draft::Reasoning { opaque: Some((_, value)), .. }) => Some(value),
            _ => None,
        }
    }

    /// The API does not want this reasoning back.
    pub(crate) fn drop_opaque(&mut self, part: PartIndex) {
        if let Some(Draft::Reasoning { opaque, .. }) = self.parts.get_mut(part.0) {
            *opaque = None;
        }
    }

    /// The API wants the text of all reasoning so far back, in this form.
    pub(crate) fn keep_reasoning(&mut self, form: ReasoningForm, value: &Value) {
        let mut first = true;
        for part in &mut self.parts {
            if let Draft::Reasoning { opaque, .. } = part {
                *opaque = first.then(|| (form, value.clone()));
                first = false;
            }
        }
    }

    /// The model begins a call, whose name may come later.
    pub(crate) fn begin_call(&mut self, id: &str, name: &str) -> Result<PartIndex, ErrorKind> {
        self.calls += 1;
        if self.calls > CALLS_MAX {
            return Err(ErrorKind::TooLarge { limit: format!("more than {CALLS_MAX} calls") });
        }

        let draft = Draft::Call {
            id: self.free_id(id),
            name: String::new(),
            arguments: String::new(),
            is_whole: false,
        };
        let part = self.push_part(draft)?;
        self.name_call(part, name);
        Ok(part)
    }

    /// Names the tool of a call, and tells of it.
    pub(crate) fn name_call(&mut self, part: PartIndex, written: &str) {
        let Some(Draft::Call { id, name, .. }) = self.parts.get_mut(part.0) else { return };
        if written.is_empty() || !name.is_empty() {
            return;
        }

        let own = match self.tools.find(written) {
            Some(tool) => tool.name(),
            None => &written[..written.floor_char_boundary(NAME_BYTES_MAX)],
        };
        own.clone_into(name);
        let event = ModelEvent::CallBegun { id: id.clone(), name: name.clone() };
        self.tell(event);
    }

    /// More of the arguments of a call.
    pub(crate) fn push_arguments(&mut self, part: PartIndex, piece: &str) {
        if let Some(Draft::Call { arguments, .. }) = self.parts.get_mut(part.0) {
            arguments.push_str(piece);
        }
    }

    /// The call has been written to its end.
    pub(crate) fn end_call(&mut self, part: PartIndex) {
        if let Some(Draft::Call { is_whole, .. }) = self.parts.get_mut(part.0) {
            *is_whole = true;
        }
    }

    /// Whether there are calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// The whole answer.
    pub(crate) fn finish(mut self) -> Completion {
        let stop = self.stop.unwrap_or(StopReason::Other);
        let last = self.parts.len().saturating_sub(1);
        let parts = std::mem::take(&mut self.parts);
        let parts = parts.into_iter().enumerate().map(|(at, draft)| {
            // An empty text may be the beginning of arguments, or all of them.
            let is_cut = stop == StopReason::MaxTokens && at == last;
            self.finish_part(draft, is_cut)
        });
        let parts = parts.collect();
        self.complete(parts, stop)
    }

    /// What there is of an answer that broke off; `None` where nothing was told of it. Calls that
    /// were not finished are left out, and so is what its API would want back of whole reasoning.
    pub(crate) fn break_off(mut self) -> Option<Box<Completion>> {
        if !self.has_begun {
            return None;
        }
        let parts = std::mem::take(&mut self.parts);
        let whole = parts.into_iter().filter_map(|part| match part {
            Draft::Call { is_whole, .. } => is_whole.then_some(part),
            Draft::Reasoning { text, .. } => Some(Draft::Reasoning { text, opaque: None }),
            Draft::Text(_) => Some(part),
        });
        let parts = whole.map(|draft| self.finish_part(draft, false)).collect();
        Some(Box::new(self.complete(parts, StopReason::Other)))
    }

    fn complete(self, parts: Vec<AssistantPart>, stop: StopReason) -> Completion {
        let message = AssistantMessage { parts };
        let usage = self.usage.unwrap_or_default();
        Completion { message, stop, usage, model: self.model }
    }

    fn finish_part(&mut self, draft: Draft, is_cut: bool) -> AssistantPart {
        match draft {
            Draft::Text(text) => AssistantPart::Text { text },

            Draft::Reasoning { text, opaque } => {
                let opaque = opaque.map(|(form, value)| OpaqueReasoning {
                    form,
                    model: self.asked.clone(),
                    value,
                });
                AssistantPart::Reasoning(Reasoning { text, opaque })
            }

            Draft::Call { id, name, arguments, .. } => {
                let tool = self.tools.find_own(&name);
                let values = self.kept_values.saturating_add(count_values(arguments.as_bytes()));
                let ReadArguments { arguments, written } = if is_cut && arguments.trim().is_empty()
                {
                    ReadArguments { arguments: cut_off(&arguments), written: None }
                } else if values > KEPT_VALUES_MAX {
                    let problem = format!("the answer has more than {KEPT_VALUES_MAX} values");
                    ReadArguments { arguments: unreadable(&arguments, &problem), written: None }
                } else {
                    read_arguments(arguments, tool)
                };

                // A text within the text has more of them than were counted.
                self.kept_values += arguments.value().map_or(0, values_in);
                AssistantPart::Call(ModelCall { id, name, arguments, written })
            }
        }
    }

    fn push_part(&mut self, draft: Draft) -> Result<PartIndex, ErrorKind> {
        if self.parts.len() >= PARTS_MAX {
            return Err(ErrorKind::TooLarge { limit: format!("more than {PARTS_MAX} parts") });
        }
        self.parts.push(draft);
        Ok(PartIndex(self.parts.len() - 1))
    }

    /// This id, or another one where it cannot name one call.
    fn free_id(&self, id: &str) -> String {
        let is_taken = |wanted: &str| {
            self.parts.iter().any(|part| matches!(part, Draft::Call { id, .. } if id == wanted))
        };
        if !id.is_empty() && id.len() <= CALL_ID_BYTES_MAX && !is_taken(id) {
            return id.to_owned();
        }
        let mut number = self.calls;
        loop {
            let id = format!("call_{number}");
            if !is_taken(&id) {
                return id;
            }
            number += 1;
        }
    }

    fn tell(&mut self, event: ModelEvent) {
        self.has_begun = true;
        (self.on_event)(event);
    }
}
