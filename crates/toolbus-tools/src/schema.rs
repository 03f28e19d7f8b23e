//! JSON Schema checks of arguments, with every violation told at once.

mod bounds;

use jsonschema::PatternOptions;
use serde_json::Value;

pub use bounds::{EXPANDED_VALUES_MAX, SCHEMA_BYTES_MAX};

/// Most violations that a check tells of.
pub const VIOLATIONS_MAX: usize = 20;
/// Longest text of one violation, in bytes: a violation quotes what was wrong, and that may be
/// long.
const VIOLATION_BYTES_MAX: usize = 300;

/// Most looks that one check may take: values of the arguments, times values of the schema with its
/// references written out.
const LOOKS_MAX: usize = 200_000_000;
/// Largest regular expression, compiled, in bytes.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// A schema, ready to check arguments.
pub struct Schema {
    validator: jsonschema::Validator,
    /// How many values it has with its references written out.
    size: usize,
}

/// A schema that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("not a usable JSON Schema: {0}")]
pub struct Error(String);

/// One thing that is wrong with arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// A required argument is missing.
    Missing {
        /// Where the object is that misses it, as a JSON pointer; empty for the arguments
        /// themselves.
        at: String,
        /// The argument's name.
        name: String,
    },
    /// Something else.
    Other {
        /// Where it is, as a JSON pointer.
        at: String,
        /// What is wrong.
        message: String,
    },
}

impl Schema {
    /// Makes a schema ready. References to other documents are never fetched. A check of it takes a
    /// bounded time: its size is bounded, also with its references written out, and its patterns
    /// are matched in linear time.
    ///
    /// # Errors
    /// When it is no schema, not one that describes an object, or one that is over the bounds.
    pub fn compile(schema: &Value) -> Result<Self, Error> {
        if !describes_object(schema) {
            return Err(Error("a schema of arguments describes an object".to_owned()));
        }
        let size = bounds::check(schema)?;

        let patterns =
            PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
        jsonschema::options()
            .with_pattern_options(patterns)
            .build(schema)
            .map(|validator| Self { validator, size })
            .map_err(|error| Error(cut_text(error.to_string())))
    }

    /// Checks arguments, which are an object, and lists what is wrong with them.
    ///
    /// # Errors
    /// The violations, at least one and at most [`VIOLATIONS_MAX`].
    pub fn check(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        // Below so many values every check is quick; above, one of each value may not be.
        let looks_left = LOOKS_MAX / self.size;
        if count_values(arguments, looks_left).is_none() {
            let message = format!(
                "the arguments have over {looks_left} values, too many to check against the schema"
            );
            return Err(vec![Violation::Other { at: String::new(), message }]);
        }

        // Saying whether they fit is much quicker than saying why they do not.
        if self.validator.is_valid(arguments) {
            return Ok(());
        }
        Err(self.validator.iter_errors(arguments).take(VIOLATIONS_MAX).map(to_violation).collect())
    }
}

/// How many of `left` are left after the values of this one were counted; `None` when they do not
/// suffice.
fn count_values(value: &Value, left: usize) -> Option<usize> {
    let left = left.checked_sub(1)?;
    match value {
        Value::Array(items) => items.iter().try_fold(left, |left, item| count_values(item, left)),
        Value::Object(members) => {
            members.values().try_fold(left, |left, member| count_values(member, left))
        }
        _ => Some(left),
    }
}

fn describes_object(schema: &Value) -> bool {
    match (schema, schema.get("type")) {
        (Value::Object(_), None) => true,
        (Value::Object(_), Some(Value::String(kind))) => kind == "object",
        (Value::Object(_), Some(Value::Array(kinds))) => kinds.iter().any(|kind| kind == "object"),
        _ => false,
    }
}

fn to_violation(error: jsonschema::ValidationError<'_>) -> Violation {
    // Names in it come from the caller, as long as it likes.
    let at = cut_text(error.instance_path().to_string());
    match error.kind() {
        jsonschema::error::ValidationErrorKind::Required { property } => Violation::Missing {
            at,
            name: property.as_str().map_or_else(|| property.to_string(), str::to_owned),
        },
        _ => Violation::Other { at, message: cut_text(error.to_string()) },
    }
}

fn cut_text(mut text: String) -> String {
    if text.len() > VIOLATION_BYTES_MAX {
        let end = text.floor_char_boundary(VIOLATION_BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// The violations as one text, in the words that models know for a missing argument.
#[must_use]
pub fn describe(violations: &[Violation], missing_argument: Option<&str>) -> String {
    let text = |violation: &Violation| match violation {
        Violation::Missing { at, name } if at.is_empty() => {
            missing_argument.unwrap_or("Missing required argument: {}").replace("{}", name)
        }
        Violation::Missing { at, name } => format!("{at} misses '{name}'"),
        Violation::Other { at, message } if at.is_empty() => message.clone(),
        Violation::Other { at, message } => format!("{at}: {message}"),
    };
    violations.iter().map(text).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
