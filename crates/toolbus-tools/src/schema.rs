//! JSON Schema checks of arguments, with every violation told at once.

mod bounds;
mod nulls;
mod pattern;

use std::sync::Arc;

use serde_json::Value;

use bounds::Extent;
use pattern::MatchBudget;

pub use bounds::{EXPANDED_VALUES_MAX, SCHEMA_BYTES_MAX};
pub(crate) use nulls::drop_nulls;
pub use nulls::hide_optional_nulls;

/// Most violations that a check tells of.
pub const VIOLATIONS_MAX: usize = 20;
/// Longest text of one violation, in bytes: a violation quotes what was wrong, and that may be
/// long.
const VIOLATION_BYTES_MAX: usize = 300;

/// Most looks that one check may take: values of the arguments, times values of the schema with its
/// references written out.
const LOOKS_MAX: usize = 10_000_000;
/// Most looks of a check that says what is wrong, which takes much longer than saying that
/// something is.
const LOOKS_TO_EXPLAIN_MAX: usize = LOOKS_MAX / 10;
/// So many bytes of text cost as much as one more value: texts are compared, counted and hashed.
const TEXT_BYTES_PER_VALUE: usize = 256;

/// A schema, ready to check arguments.
pub struct Schema {
    validator: jsonschema::Validator,
    extent: Extent,
    /// How much its patterns may match.
    budget: Arc<MatchBudget>,
}

/// What a check of some arguments costs, as far as it is up to them.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    /// How many values there are, with a share for long texts.
    values: usize,
    /// How many bytes the names of members have.
    name_bytes: usize,
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
        let extent = bounds::check(schema)?;

        let (validator, budget) = pattern::build(schema, extent.patterns)?;
        Ok(Self { validator, extent, budget })
    }

    /// Checks arguments, which are an object, and lists what is wrong with them.
    ///
    /// # Errors
    /// The violations, at least one and at most [`VIOLATIONS_MAX`].
    pub fn check(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        let mut weight = Weight::default();
        weight.add(arguments);

        let looks = weight.values.saturating_mul(self.extent.size);
        if looks > LOOKS_MAX {
            let most = LOOKS_MAX / self.extent.size;
            return Err(violation(format!(
                "the arguments have over {most} values, too many to check against the schema"
            )));
        }

        let too_much_text =
            || violation("the arguments have too much text to match the schema's patterns".into());
        let names = weight.name_bytes.saturating_mul(self.extent.name_patterns);
        let Some(left) = self.budget.bytes_max().checked_sub(names) else {
            return Err(too_much_text());
        };

        // Saying whether they fit is much quicker than saying why they do not.
        let fits = self.budget.spend(left, || self.validator.is_valid(arguments));
        let Some((fits, left)) = fits else { return Err(too_much_text()) };
        if fits {
            return Ok(());
        }

        let too_large = "the arguments do not fit the schema, and are too large to say where";
        if looks.saturating_mul(self.extent.height) > LOOKS_TO_EXPLAIN_MAX {
            return Err(violation(too_large.to_owned()));
        }
        let explain = || {
            let errors = self.validator.iter_errors(arguments);
            errors.take(VIOLATIONS_MAX).map(to_violation).collect()
        };
        let violations = self.budget.spend(left, explain);
        Err(violations
            .map_or_else(|| violation(too_large.to_owned()), |(violations, _)| violations))
    }
}

impl Weight {
    fn add(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.values += name.len() / TEXT_BYTES_PER_VALUE;
                    self.name_bytes += name.len();
                    self.add(member);
                }
            }
            Value::String(text) => self.values += text.len() / TEXT_BYTES_PER_VALUE,
            _ => {}
        }
    }
}

/// One violation by the arguments as a whole.
fn violation(message: String) -> Vec<Violation> {
    vec![Violation::Other { at: String::new(), message }]
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
