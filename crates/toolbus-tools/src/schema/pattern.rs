//! Patterns: matching them takes a bounded time, whatever pattern and text there are.
//!
//! The engine is linear in the size of the pattern and in the length of the text, and neither is
//! ours. So what one check matches is bounded, in bytes of text, and the larger a schema's patterns
//! are when they are compiled, the fewer bytes that are. The bytes are counted as they are matched,
//! so a long text that no pattern is for costs nothing.

use std::collections::HashMap;
use std::sync::Arc;
use std::thread::ThreadId;

use jsonschema::{Keyword, PatternOptions, ValidationError};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::Error;

/// How large the patterns of a schema may be when they are compiled, in bytes. Most are small, so a
/// schema is held to the first of these that all its patterns keep.
const COMPILED_BYTES: [usize; 4] = [2 << 10, 8 << 10, 64 << 10, 256 << 10];
/// Most memory of one pattern while it is matched, in bytes. With less, matching is slower.
const DFA_BYTES_MAX: usize = 256 << 10;
/// Bytes of text that one check matches, times the bytes of the largest pattern.
const WORK_MAX: usize = 1 << 30;
/// Most bytes that the patterns of one schema have together when they are compiled.
const ALL_COMPILED_BYTES_MAX: usize = 2 << 20;

/// What the checks of one schema may match, and have matched.
pub(super) struct MatchBudget {
    bytes_max: usize,
    /// How many bytes are left to a check. A check stays on its thread, so the thread stands for
    /// it.
    left: Mutex<HashMap<ThreadId, Option<usize>>>,
}

/// The validator of a schema that has so many patterns, and what its checks may match.
pub(super) fn build(
    schema: &Value,
    patterns: usize,
) -> Result<(jsonschema::Validator, Arc<MatchBudget>), Error> {
    let mut refusal = format!("its {patterns} patterns are too many");
    for compiled_bytes in COMPILED_BYTES {
        if patterns.saturating_mul(compiled_bytes) > ALL_COMPILED_BYTES_MAX {
            break;
        }

        let bytes_max = WORK_MAX / compiled_bytes;
        let budget = Arc::new(MatchBudget { bytes_max, left: Mutex::default() });
        let counted = Arc::clone(&budget);
        let options = options(compiled_bytes).with_keyword("pattern", move |_, pattern, _| {
            let alone = json!({ "pattern": pattern });
            let validator = options(compiled_bytes).build(&alone);
            let validator =
                validator.map_err(|error| ValidationError::custom(error.to_string()))?;
            Ok(Box::new(CountedPattern { validator, budget: Arc::clone(&counted) }))
        });

        match options.build(schema) {
            Ok(validator) => return Ok((validator, budget)),
            Err(error) => refusal = super::cut_text(error.to_string()),
        }
    }
    Err(Error(refusal))
}

fn options(compiled_bytes: usize) -> jsonschema::ValidationOptions<'static> {
    let patterns = PatternOptions::regex();
    let patterns = patterns.size_limit(compiled_bytes).dfa_size_limit(DFA_BYTES_MAX);
    jsonschema::options().with_pattern_options(patterns)
}

impl MatchBudget {
    /// Most bytes that one check may match.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Runs a check, or a part of one, which matches up to `left` bytes; `None` when that was not
    /// enough, and what it answers then does not count. Otherwise there are so many bytes left.
    pub(super) fn spend<T>(&self, left: usize, check: impl FnOnce() -> T) -> Option<(T, usize)> {
        let this_thread = std::thread::current().id();
        self.left.lock().insert(this_thread, Some(left));
        let answer = check();
        let left = self.left.lock().remove(&this_thread).flatten();
        left.map(|left| (answer, left))
    }

    /// Takes the bytes of a text that is about to be matched; it is not when this is false.
    fn try_take(&self, value: &Value) -> bool {
        let Some(text) = value.as_str() else { return true };
        let mut left = self.left.lock();
        let left = left.entry(std::thread::current().id()).or_default();
        *left = left.and_then(|left| left.checked_sub(text.len()));
        left.is_some()
    }
}

/// A pattern whose texts are counted.
struct CountedPattern {
    validator: jsonschema::Validator,
    budget: Arc<MatchBudget>,
}

impl<'i> Keyword<'i> for CountedPattern {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        if !self.budget.try_take(value) {
            return Err(ValidationError::custom("there is too much text to match"));
        }
        self.validator.validate(value)
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        self.budget.try_take(value) && self.validator.is_valid(value)
    }
}
