//! What became of a chain and of its calls.

use std::time::Duration;

use serde::Serialize;
use toolbus_tools::call::{Outcome, Output};
use toolbus_tools::observe::{ArgumentsDigest, CallStatus};
use toolbus_wire::json::RawJson;

/// Longest text of an error in the structured result, in characters.
const ERROR_CHARACTERS_MAX: usize = 2_000;
/// The same in what the model reads.
const SHOWN_ERROR_CHARACTERS_MAX: usize = 500;

/// One call of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainCallRecord {
    /// The tool, as it was called.
    pub tool: String,
    /// The digest of its arguments: 16 hexadecimal digits.
    pub args_digest: String,
    /// `ok`, `error`, `denied` or `timeout`.
    pub status: &'static str,
    /// How long it took, gates and tool together.
    pub duration_ms: u64,
}

/// How a chain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ChainStatus {
    /// Its program came to its end.
    Ok,
    /// Its program failed, or could not be run.
    Error,
    /// It was ended at its deadline.
    Timeout,
}

/// What became of a chain, on success and on failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainRunResult {
    /// How it ended.
    pub status: ChainStatus,
    /// What it printed, and what it returned.
    pub output_text: String,
    /// References to what it printed or made that is kept apart.
    pub output_blocks_refs: Vec<String>,
    /// What it wrote to standard error.
    pub logs: String,
    /// How many calls of tools it made.
    pub tool_calls: usize,
    /// How long it took.
    pub duration_ms: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// Its calls, in the order in which they ended.
    pub call_trace: Vec<ChainCallRecord>,
    /// What it is run again by without repeating its writes, where it made any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<String>,
    /// What a dry run would have run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_writes: Vec<serde_json::Value>,
}

impl ChainCallRecord {
    /// The record of a call that has ended.
    pub(crate) fn new(
        tool: &str,
        digest: ArgumentsDigest,
        status: CallStatus,
        took: Duration,
    ) -> Self {
        Self {
            tool: tool.to_owned(),
            args_digest: digest.to_string(),
            status: status.as_str(),
            duration_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// How a call ended, in one word.
pub(crate) fn status_of(outcome: &Outcome) -> CallStatus {
    match outcome {
        Ok(output) if output.is_error => CallStatus::Error,
        Ok(_) => CallStatus::Ok,
        Err(error) => CallStatus::of_error(&error.code),
    }
}

impl ChainRunResult {
    /// What the model reads, with the result as a value beside it.
    pub(crate) fn into_output(mut self) -> Output {
        if let Some(error) = &mut self.error {
            cut(error, ERROR_CHARACTERS_MAX);
        }

        let mut text = self.output_text.trim_end().to_owned();
        let mut add = |line: &str| {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(line);
        };
        if let Some(error) = &self.error {
            let mut shown = error.clone();
            cut(&mut shown, SHOWN_ERROR_CHARACTERS_MAX);
            add(&shown);
        }
        for skipped in &self.skipped_writes {
            add(&format!("[would run {skipped}]"));
        }
        if let Some(journal) = self.journal.as_ref().filter(|_| self.status != ChainStatus::Ok) {
            add(&format!("[to run it again without repeating its writes: journal {journal}]"));
        }
        if self.tool_calls > 0 {
            let calls = if self.tool_calls == 1 { "call" } else { "calls" };
            add(&format!("[{} tool {calls}, {} ms]", self.tool_calls, self.duration_ms));
        }

        let is_error = self.status != ChainStatus::Ok;
        Output { structured: Some(RawJson::of(&self)), is_error, ..Output::text(text) }
    }
}

/// Keeps the end of a text, which is where Python says what went wrong.
fn cut(text: &mut String, characters: usize) {
    if let Some((at, _)) = text.char_indices().rev().nth(characters) {
        let rest = &text[at..];
        let rest = rest.char_indices().nth(1).map_or("", |(next, _)| &rest[next..]);
        *text = format!("…{rest}");
    }
}

#[cfg(test)]
mod tests;
