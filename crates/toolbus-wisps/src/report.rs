//! How steps, wisps and batches ended, and what is told of it.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_tools::{CallError, Output};
use toolbus_wire::ErrorCode;

use crate::ids::{BatchId, WispId};
use crate::template::FillError;
use crate::texts;

/// Most characters of a description that are said again.
const DESCRIPTION_CHARS_MAX: usize = 200;
/// Most characters of what is told of a failure.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Words in what failed tools say, and the category that they stand for. The first that is found
/// counts.
const KEYWORDS: [(Category, &[&str]); 4] = [
    (
        Category::External,
        &[
            "timed out",
            "timeout",
            "unavailable",
            "connection",
            "network",
            "unreachable",
            "rate limit",
            "too many requests",
            "unauthorized",
            "forbidden",
            " 429",
            " 500",
            " 502",
            " 503",
            " 504",
        ],
    ),
    (
        Category::Structural,
        &["missing required", "not registered", "no tool named", "invalid argument", "schema"],
    ),
    (Category::Judgment, &["ambiguous", "unclear", "refused to answer", "would not answer"]),
    (
        Category::Data,
        &["json", "parse", "not found", "no results", "empty", "decode", "malformed", " 404"],
    ),
];

/// What kind of failure it is, and so what may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Category {
    /// The definition asks for what there is not, or what is not allowed: change it.
    Structural,
    /// Something outside did not answer, or said no: try again later, or another way.
    External,
    /// A model did not come to an answer: ask it otherwise.
    Judgment,
    /// What a step got is not what it needs: look at the results before it.
    Data,
}

/// Why a step failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepFailure {
    pub(crate) category: Category,
    pub(crate) message: String,
}

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StepReport {
    pub(crate) id: String,
    pub(crate) took: Duration,
    /// The key that its output is under, where it is kept; or why it failed.
    pub(crate) end: Result<Option<String>, StepFailure>,
}

/// How a wisp ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WispReport {
    pub(crate) id: WispId,
    pub(crate) description: String,
    /// The steps that ran.
    pub(crate) steps: Vec<StepReport>,
    pub(crate) took: Duration,
    /// The beginning of the output of its last step, and how many more characters it has.
    pub(crate) output: Option<(String, usize)>,
    /// Why it failed: at which step, where it was at one.
    pub(crate) failure: Option<(Option<String>, StepFailure)>,
}

/// How all wisps of a call ended, in the order of their definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BatchReport {
    pub(crate) id: BatchId,
    pub(crate) wisps: Vec<WispReport>,
    pub(crate) took: Duration,
}

impl Category {
    const ALL: [Self; 4] = [Self::Structural, Self::External, Self::Judgment, Self::Data];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Structural => "Structural",
            Self::External => "External",
            Self::Judgment => "Judgment",
            Self::Data => "Data",
        }
    }

    pub(crate) fn parse(name: &str) -> Self {
        let found = Self::ALL.into_iter().find(|category| category.as_str() == name);
        found.unwrap_or(Self::External)
    }

    /// What a failed tool says stands for. Without a word that is known, it is something outside.
    pub(crate) fn of_text(text: &str) -> Self {
        let lower: String = text.chars().take(MESSAGE_CHARS_MAX).collect::<String>().to_lowercase();
        let is_said = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        let found = KEYWORDS.iter().find(|(_, words)| is_said(words));
        found.map_or(Self::External, |(category, _)| *category)
    }

    fn of_error(error: &CallError) -> Self {
        match error.code {
            ErrorCode::InvalidArguments | ErrorCode::ToolNotFound | ErrorCode::Denied => {
                Self::Structural
            }
            ErrorCode::ExecutionFailed | ErrorCode::ToolError => Self::of_text(&error.message),
            _ => Self::External,
        }
    }
}

impl StepFailure {
    pub(crate) fn new(category: Category, message: impl Into<String>) -> Self {
        let message = message.into();
        let (beginning, omitted) = texts::beginning(&message, MESSAGE_CHARS_MAX);
        if omitted == 0 {
            return Self { category, message };
        }
        Self { category, message: format!("{beginning}… [{omitted} more chars]") }
    }

    /// The call was cancelled, or its time is over.
    pub(crate) fn stopped() -> Self {
        Self::new(Category::External, "the call was stopped before this was done")
    }
}

impl From<&CallError> for StepFailure {
    fn from(error: &CallError) -> Self {
        Self::new(Category::of_error(error), error.message.clone())
    }
}

impl From<FillError> for StepFailure {
    fn from(error: FillError) -> Self {
        Self::new(Category::Data, error.to_string())
    }
}

impl WispReport {
    /// A wisp that did not run, or not to its end.
    pub(crate) fn stopped(id: WispId, description: &str) -> Self {
        Self {
            id,
            description: description.to_owned(),
            steps: Vec::new(),
            took: Duration::ZERO,
            output: None,
            failure: Some((None, StepFailure::stopped())),
        }
    }

    /// The key of its last output.
    fn output_key(&self) -> Option<&str> {
        let last = self.steps.iter().rev().find_map(|step| step.end.as_ref().ok())?;
        last.as_deref()
    }

    /// The wisp in the result of the call.
    fn describe(&self, text: &mut String) {
        let state = if self.failure.is_none() { "ok" } else { "failed" };
        let description = texts::one_line(&self.description, DESCRIPTION_CHARS_MAX);
        // Writing to a text never fails.
        let _ = write!(
            text,
            "\n- `{}`: \"{description}\" [{state}] ({}ms)",
            self.id,
            self.took.as_millis()
        );

        if let Some((step, failure)) = &self.failure {
            let place = step.as_ref().map_or(String::new(), |step| format!(" at step `{step}`"));
            let message = indent(&failure.message);
            let _ = write!(text, "\n  Failed{place} ({}): {message}", failure.category.as_str());
        }
        for step in self.skipped() {
            let Err(failure) = &step.end else { continue };
            let message = indent(&failure.message);
            let category = failure.category.as_str();
            let _ = write!(text, "\n  Skipped over step `{}` ({category}): {message}", step.id);
        }

        let Some((output, more)) = &self.output else { return };
        let _ = write!(text, "\n  Output: {}", indent(output));
        if *more > 0 {
            let _ = write!(text, "\n  [{more} more chars]");
        }
        if let Some(key) = self.output_key() {
            let _ = write!(text, "\n  Output key: `{key}`");
        }
    }

    /// The steps that failed without the wisp failing of it.
    fn skipped(&self) -> impl Iterator<Item = &StepReport> {
        let failed = self.failure.as_ref().and_then(|(step, _)| step.as_deref());
        let is_skipped = move |step: &&StepReport| step.end.is_err() && Some(&*step.id) != failed;
        self.steps.iter().filter(is_skipped)
    }

    fn to_json(&self) -> Value {
        let steps = self.steps.iter().map(|step| match &step.end {
            Ok(key) => json!({
                "id": step.id, "status": "ok", "durationMs": ms(step.took), "outputKey": key,
            }),
            Err(failure) => json!({
                "id": step.id, "status": "failed", "durationMs": ms(step.took),
                "category": failure.category.as_str(), "error": failure.message,
            }),
        });
        let mut wisp = json!({
            "wispId": self.id.to_string(), "description": self.description,
            "success": self.failure.is_none(), "durationMs": ms(self.took),
            "outputKey": self.output_key(), "steps": steps.collect::<Vec<_>>(),
        });

        if let Some((step, failure)) = &self.failure {
            wisp["failedStep"] = json!(step);
            wisp["category"] = json!(failure.category.as_str());
            wisp["error"] = json!(failure.message);
        }
        wisp
    }
}

impl BatchReport {
    /// How many wisps have failed.
    pub(crate) fn failed(&self) -> usize {
        self.wisps.iter().filter(|wisp| wisp.failure.is_some()).count()
    }

    /// The summary that is kept.
    pub(crate) fn summary(&self) -> Value {
        let (total, failed) = (self.wisps.len(), self.failed());
        json!({
            "batchId": self.id.to_string(), "total": total, "succeeded": total - failed,
            "failed": failed, "durationMs": ms(self.took),
            "wisps": self.wisps.iter().map(WispReport::to_json).collect::<Vec<_>>(),
        })
    }

    /// The result of the call. It is an error where nothing has succeeded.
    pub(crate) fn to_output(&self, summary_key: Option<&str>) -> Output {
        let (total, failed) = (self.wisps.len(), self.failed());
        let mut text = String::new();
        if failed > 0 && failed < total {
            let _ = write!(
                text,
                "PARTIAL FAILURE: {failed} of {total} wisp(s) failed. Read the failures below, and \
                 do not take the whole for done.\n\n"
            );
        }
        let _ = write!(
            text,
            "{total} wisp(s) completed ({} succeeded, {failed} failed, {:.1}s total):",
            total - failed,
            self.took.as_secs_f64()
        );
        for wisp in &self.wisps {
            wisp.describe(&mut text);
        }

        let _ = write!(text, "\n\nBatch ID: {}", self.id);
        match summary_key {
            Some(key) => {
                let _ = write!(text, "\nSummary key: {key}");
            }
            None => text.push_str("\nNo summary was kept: working memory did not take it."),
        }
        if failed == total { Output::error(text) } else { Output::text(text) }
    }
}

/// A text whose lines after the first are indented, so that none is taken for one of the report.
fn indent(text: &str) -> String {
    text.trim().replace('\n', "\n    ")
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
