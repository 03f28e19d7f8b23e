//! Completions: what a model answered in the end, why it stopped, and what that took.

use serde::{Deserialize, Serialize};
use toolbus_tools::budget::TurnUsage;

use crate::message::{AssistantMessage, ModelCall};

/// A whole answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Completion {
    /// What the model said, thought and called, to be added to the session as it is.
    pub message: AssistantMessage,
    /// Why it ended there.
    pub stop: StopReason,
    /// What it took.
    pub usage: TokenUsage,
    /// The model that answered, as its API calls it.
    pub model: String,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// It had said everything.
    End,
    /// It wants calls made.
    ToolCalls,
    /// It had written as many tokens as it may. The last call may be cut off, and is not JSON then.
    MaxTokens,
    /// It, or a filter in front of it, would not go on.
    ContentFilter,
    /// Another reason, or none that was told.
    Other,
}

/// Tokens of one or more answers, and what they cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenUsage {
    /// Tokens that were read, cached ones included.
    pub input: u64,
    /// Tokens that were written, those of reasoning included.
    pub output: u64,
    /// Of those read, the ones that came out of the prompt cache.
    pub cache_read: u64,
    /// Of those read, the ones that were put into the prompt cache at a price of its own.
    pub cache_write: u64,
    /// Millionths of a US dollar: as the API says, else by the prices of the settings. `None` where
    /// neither is known.
    pub cost_micro_usd: Option<u64>,
    /// Whether the API said nothing of tokens, and they were counted by the length of the texts.
    pub is_estimated: bool,
}

impl Completion {
    /// All of its text.
    #[must_use]
    pub fn text(&self) -> String {
        self.message.text()
    }

    /// Its calls, in order.
    pub fn calls(&self) -> impl Iterator<Item = &ModelCall> {
        self.message.calls()
    }
}

impl TokenUsage {
    /// Both together. The cost is what is known of it.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let cost = match (self.cost_micro_usd, other.cost_micro_usd) {
            (Some(one), Some(two)) => Some(one.saturating_add(two)),
            (one, two) => one.or(two),
        };
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
            cost_micro_usd: cost,
            is_estimated: self.is_estimated || other.is_estimated,
        }
    }

    /// What a budget is charged for one turn of this.
    #[must_use]
    pub fn of_turn(self) -> TurnUsage {
        TurnUsage { turns: 1, ..self.of_request() }
    }

    /// What a budget is charged for one request within a turn.
    #[must_use]
    pub fn of_request(self) -> TurnUsage {
        TurnUsage {
            turns: 0,
            tokens: self.input.saturating_add(self.output),
            cost_micro_usd: self.cost_micro_usd.unwrap_or_default(),
        }
    }
}
