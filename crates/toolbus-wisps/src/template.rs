//! Templates: `{{steps.ID.result}}`, `{{steps.ID.result.a.b}}` and `{{steps.ID.output_to}}`.
//!
//! A template is read once. What is filled in is not read again, whatever it holds, and how much
//! may be filled in is counted before it is.

use std::collections::HashMap;

use serde_json::{Map, Value};
use toolbus_json::Limits;

use crate::measure::measure;
use crate::texts;

/// Longest inside of a template, in bytes.
const INSIDE_BYTES_MAX: usize = 512;
/// Most parts of a path into a result.
const PATH_PARTS_MAX: usize = 16;
/// Most values of a result that a path leads into.
const VALUES_MAX: usize = 20_000;
/// Such a result. It was cut at `WispsConfig::result_bytes_max`, which is far less.
const RESULT_LIMITS: Limits = Limits::of_bytes(8 << 20).with_values(VALUES_MAX);
/// What a value counts for beside its texts, in bytes.
const VALUE_BYTES: usize = 16;
/// What models open a template with that means a step.
const BEGINNINGS: [&str; 2] = ["steps.", "step."];

/// What of an earlier step is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// The step's id.
    pub(crate) step: String,
    pub(crate) part: Part,
}

/// Which part of a step is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Its result, or what is at this path in it.
    Result(Vec<String>),
    /// The key of working memory that its output is under.
    OutputTo,
}

/// A piece of a text with templates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Text(&'a str),
    Reference(Reference),
}

/// Why a text with templates cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The template, or how it begins.
    pub(crate) template: String,
    /// What to write instead.
    pub(crate) instead: String,
}

/// Why a template cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FillError {
    #[error("with its templates filled in, the step has more than {0} bytes")]
    TooLarge(usize),
    #[error("step '{0}' has no result: it failed or was skipped")]
    NoResult(String),
    #[error("the result of step '{0}' is not JSON, so nothing is at a path in it")]
    NotJson(String),
    #[error("the result of step '{step}' has nothing at '{path}'")]
    NothingThere { step: String, path: String },
}

/// What steps have given so far.
pub(crate) trait Results {
    /// The result of a step that has succeeded.
    fn result(&self, step: &str) -> Option<&str>;

    /// The key that the output of a step is under.
    fn output_key(&self, step: &str) -> String;
}

/// The pieces of a text. Braces that do not name steps are text.
pub(crate) fn parse(text: &str) -> Result<Vec<Piece<'_>>, Malformed> {
    let mut pieces = Vec::new();
    let mut done = 0;
    let mut from = 0;

    while let Some(found) = text[from..].find("{{") {
        let start = from + found;
        let inside = &text[start + 2..];
        if !begins_template(inside) {
            // One brace further: `{{{steps…` is a brace and a template.
            from = start + 1;
            continue;
        }
        let end = inside.find("}}").filter(|end| *end <= INSIDE_BYTES_MAX);
        let Some(end) = end else {
            return Err(Malformed {
                template: text[start..].chars().take(60).collect(),
                instead: "Close it with }}".to_owned(),
            });
        };

        let reference = parse_reference(&inside[..end]).map_err(|instead| Malformed {
            template: format!("{{{{{}}}}}", &inside[..end]),
            instead,
        })?;
        if done < start {
            pieces.push(Piece::Text(&text[done..start]));
        }
        pieces.push(Piece::Reference(reference));
        done = start + 2 + end + 2;
        from = done;
    }
    if done < text.len() {
        pieces.push(Piece::Text(&text[done..]));
    }
    Ok(pieces)
}

fn begins_template(inside: &str) -> bool {
    let inside = inside.trim_start();
    BEGINNINGS.iter().any(|beginning| {
        let start = inside.get(..beginning.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(beginning))
    })
}

/// Reads `steps.ID.result.a.b`, or says what to write.
pub(crate) fn parse_reference(inside: &str) -> Result<Reference, String> {
    let example = |step: &str| {
        format!("Write {{{{steps.{step}.result}}}}, with a path into it as in .result.a.b")
    };
    let mut parts = inside.trim().split('.').map(str::trim);
    let (first, step) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    if first != "steps" || step.is_empty() {
        return Err(example(if step.is_empty() { "ID" } else { step }));
    }

    let part = match parts.next() {
        Some("result") => Part::Result(parts.map(str::to_owned).collect()),
        Some("output_to") if parts.next().is_none() => Part::OutputTo,
        _ => return Err(format!("{}, or {{{{steps.{step}.output_to}}}}", example(step))),
    };
    if let Part::Result(path) = &part {
        if path.iter().any(String::is_empty) {
            return Err("Name a member between every two dots".to_owned());
        }
        if path.len() > PATH_PARTS_MAX {
            return Err(format!("A path has at most {PATH_PARTS_MAX} parts"));
        }
    }
    Ok(Reference { step: step.to_owned(), part })
}

/// Fills templates in, for one step.
pub(crate) struct Filler<'a> {
    results: &'a (dyn Results + Sync),
    max: usize,
    left: usize,
    /// Results that paths lead into, as values.
    parsed: HashMap<String, Value>,
}

impl<'a> Filler<'a> {
    /// Fills in at most so many bytes.
    pub(crate) fn new(results: &'a (dyn Results + Sync), max: usize) -> Self {
        Self { results, max, left: max, parsed: HashMap::new() }
    }

    /// A text with its templates filled in.
    pub(crate) fn fill_text(&mut self, text: &str) -> Result<String, FillError> {
        // It was read before anything ran; a text is what else it could be.
        let pieces = parse(text).unwrap_or_else(|_| vec![Piece::Text(text)]);
        let mut filled = String::new();
        for piece in pieces {
            match piece {
                Piece::Text(text) => {
                    self.take(text.len())?;
                    filled.push_str(text);
                }
                Piece::Reference(reference) => filled.push_str(&self.resolve(&reference)?),
            }
        }
        Ok(filled)
    }

    /// A value with the templates in its texts filled in. A text that is nothing but a path into a
    /// result becomes what is there, whatever it is.
    pub(crate) fn fill_value(&mut self, value: &Value) -> Result<Value, FillError> {
        Ok(match value {
            Value::String(text) => self.fill_string(text)?,
            Value::Array(items) => {
                let items = items.iter().map(|item| self.fill_value(item));
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Value::Object(members) => Value::Object(self.fill_object(members)?),
            other => other.clone(),
        })
    }

    /// The same of the members of an object, whose names are as they are.
    pub(crate) fn fill_object(
        &mut self,
        members: &Map<String, Value>,
    ) -> Result<Map<String, Value>, FillError> {
        let filled = members.iter().map(|(name, value)| {
            self.take(name.len())?;
            Ok((name.clone(), self.fill_value(value)?))
        });
        filled.collect()
    }

    /// What a reference stands for, as text.
    pub(crate) fn resolve(&mut self, reference: &Reference) -> Result<String, FillError> {
        let Reference { step, part } = reference;
        let text = match part {
            Part::OutputTo => self.results.output_key(step),
            Part::Result(path) if path.is_empty() => {
                let result = self.results.result(step);
                let result = result.ok_or_else(|| FillError::NoResult(step.clone()))?;
                self.take(result.len())?;
                return Ok(result.to_owned());
            }
            Part::Result(path) => match self.find(step, path)? {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            },
        };
        self.take(text.len())?;
        Ok(text)
    }

    fn fill_string(&mut self, text: &str) -> Result<Value, FillError> {
        if let Ok(pieces) = parse(text)
            && let [Piece::Reference(Reference { step, part: Part::Result(path) })] = &*pieces
            && !path.is_empty()
        {
            let found = self.find(step, path)?.clone();
            let size = measure(&found);
            self.take(size.bytes.saturating_add(size.values.saturating_mul(VALUE_BYTES)))?;
            return Ok(found);
        }
        self.fill_text(text).map(Value::String)
    }

    /// What is at a path in the result of a step.
    fn find(&mut self, step: &str, path: &[String]) -> Result<&Value, FillError> {
        if !self.parsed.contains_key(step) {
            let result = self.results.result(step);
            let result = result.ok_or_else(|| FillError::NoResult(step.to_owned()))?;
            let not_json = || FillError::NotJson(step.to_owned());
            let value = toolbus_json::from_str(result, &RESULT_LIMITS).map_err(|_| not_json())?;
            self.parsed.insert(step.to_owned(), value);
        }

        let found = path.iter().try_fold(&self.parsed[step], |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            other => other.get(part),
        });
        found.ok_or_else(|| {
            let path = texts::one_line(&path.join("."), 200);
            FillError::NothingThere { step: step.to_owned(), path }
        })
    }

    fn take(&mut self, bytes: usize) -> Result<(), FillError> {
        let left = self.left.checked_sub(bytes);
        self.left = left.ok_or(FillError::TooLarge(self.max))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
