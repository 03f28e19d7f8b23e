//! The check of one step.

mod works;

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::{CheckContext, NAME_BYTES_MAX};
use crate::definition::{AllowedTool, OnFailure, Step, Work};
use crate::mistake::{Mistake, Mistakes};
use crate::template::{self, Part, Piece, Reference};
use crate::texts;

/// Longest id of a step, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Longest key of an output, in bytes, and most segments of it.
const KEY_BYTES_MAX: usize = 200;
const KEY_SEGMENTS_MAX: usize = 8;
/// Most ids that are told where one is not there.
const TOLD_IDS_MAX: usize = 20;
/// The members of every step.
const MEMBERS: [&str; 6] =
    ["id", "mode", "timeout_minutes", "input_from", "output_to", "on_failure"];

/// What other steps refer to a step by.
#[derive(Debug)]
pub(super) struct Head<'a> {
    id: Option<&'a str>,
    output_to: Option<&'a str>,
}

/// The check of one step.
pub(super) struct StepCheck<'a> {
    pub(super) of: CheckContext<'a>,
    /// The number of the wisp, from 1.
    pub(super) wisp: usize,
    /// Which step it is, from 0.
    pub(super) at: usize,
    /// All steps of the wisp.
    pub(super) heads: &'a [Head<'a>],
    /// What the definition allows.
    pub(super) tools: Option<&'a [AllowedTool]>,
    pub(super) mistakes: &'a mut Mistakes,
    pub(super) output_keys: &'a mut HashMap<String, String>,
}

/// Where a step is that another names.
enum Place {
    /// Before it, by this id.
    Earlier(String),
    Itself,
    Later(usize),
    Nowhere,
}

/// What steps may be called by others, whatever is wrong with them.
pub(super) fn read_heads(steps: &[Value]) -> Vec<Head<'_>> {
    steps.iter().map(Head::read).collect()
}

impl<'a> Head<'a> {
    fn read(step: &'a Value) -> Self {
        let text = |member: &str| step.get(member).and_then(Value::as_str);
        Self { id: text("id").map(str::trim), output_to: text("output_to").map(str::trim) }
    }
}

impl StepCheck<'_> {
    pub(super) fn read(&mut self, item: &Value) -> Option<Step> {
        let Value::Object(step) = item else {
            let problem = "it is not an object, nor JSON text of one";
            self.mistake("steps", problem, "Write an object with `id`, `mode` and what it does");
            return None;
        };

        let id = self.read_id(step);
        let work = self.read_work(step);
        let input = self.read_input(step);
        let output_to = self.read_output_to(step);
        let on_failure = self.read_on_failure(step);
        let timeout = self.read_timeout(step);
        if let Some(work) = &work {
            self.check_allowed(work);
        }
        Some(Step { id: id?, work: work?, input, output_to, on_failure: on_failure?, timeout })
    }

    fn read_id(&mut self, step: &Map<String, Value>) -> Option<String> {
        let instead = "Write a short name of letters, digits, `-` and `_`";
        let id = self.required_text(step, "id", instead)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if id.len() > ID_BYTES_MAX || !id.chars().all(is_plain) {
            let problem = format!("{} is no id", texts::quote(id));
            self.mistake("id", &problem, &format!("{instead}, at most {ID_BYTES_MAX}"));
            return None;
        }

        // Keys of working memory are alike without regard to case.
        let is_same = |head: &Head<'_>| head.id.is_some_and(|other| other.eq_ignore_ascii_case(id));
        if self.heads[..self.at].iter().any(is_same) {
            let problem = format!("an earlier step is called {} already", texts::quote(id));
            self.mistake("id", &problem, "Give every step of a wisp an id of its own");
            return None;
        }
        Some(id.to_owned())
    }

    /// The step that gives the input: by its id, by a template, or by its `output_to`.
    fn read_input(&mut self, step: &Map<String, Value>) -> Option<Reference> {
        let input = step.get("input_from")?;
        let instead = "Write the id of an earlier step";
        let Some(text) = input.as_str().map(str::trim) else {
            let both = input.is_object() && step.contains_key("params");
            let problem = if both { "there are `params`, too" } else { "it is not a text" };
            self.mistake("input_from", problem, instead);
            return None;
        };
        if text.starts_with(['{', '[']) && !text.starts_with("{{") {
            self.mistake("input_from", "it begins like JSON and is none", instead);
            return None;
        }

        let inside = text.strip_prefix("{{").and_then(|text| text.strip_suffix("}}"));
        let inside = inside.unwrap_or(text).trim();
        let reference = if inside.starts_with("steps.") {
            match template::parse_reference(inside) {
                Ok(reference) => reference,
                Err(instead) => {
                    self.mistake(
                        "input_from",
                        &format!("{} is no reference", texts::quote(text)),
                        &instead,
                    );
                    return None;
                }
            }
        } else {
            Reference { step: text.to_owned(), part: Part::Result(Vec::new()) }
        };
        let step = self.check_reference("input_from", &reference.step)?;
        Some(Reference { step, ..reference })
    }

    fn read_output_to(&mut self, step: &Map<String, Value>) -> Option<String> {
        let key = self.text(step, "output_to")?;
        let is_segment = |segment: &str| {
            !matches!(segment.trim(), "" | "." | "..")
                && !segment.chars().any(|c| c.is_control() || matches!(c, '`' | '{' | '}'))
        };
        let segments: Vec<_> = key.split('/').collect();
        if key.len() > KEY_BYTES_MAX
            || segments.len() > KEY_SEGMENTS_MAX
            || !segments.into_iter().all(is_segment)
        {
            let problem = format!("{} is no key of working memory", texts::quote(key));
            let instead =
                format!("Write a key such as `findings/prices`, of at most {KEY_BYTES_MAX} bytes");
            self.mistake("output_to", &problem, &instead);
            return None;
        }

        let here = format!("wisp {}, step {}", self.wisp, self.label());
        if let Some(other) = self.output_keys.insert(key.to_lowercase(), here) {
            let problem = format!("{} is where the output of {other} goes, too", texts::quote(key));
            self.mistake("output_to", &problem, "Give every output a key of its own");
        }
        Some(key.to_owned())
    }

    fn read_on_failure(&mut self, step: &Map<String, Value>) -> Option<OnFailure> {
        let instead =
            "Write {\"action\": \"abort\"} or {\"action\": \"skip_to\", \"skip_to\": \"ID\"}";
        let Some(on_failure) = step.get("on_failure") else { return Some(OnFailure::Abort) };
        let Value::Object(members) = on_failure else {
            self.mistake("on_failure", "it is not an object", instead);
            return None;
        };
        let known = |member: &&String| matches!(member.as_str(), "action" | "skip_to");
        if let Some(member) = members.keys().find(|member| !known(member)) {
            let problem = format!("it has no member {}", texts::quote(member));
            self.mistake("on_failure", &problem, instead);
            return None;
        }

        let target = members.get("skip_to").and_then(Value::as_str).map(str::trim);
        let default = if target.is_some() { "skip_to" } else { "abort" };
        let action = members.get("action").map_or(Some(default), Value::as_str);
        match (action, target) {
            (Some("abort"), None) => Some(OnFailure::Abort),
            (Some("skip_to"), Some(target)) => self.check_skip_to(target),
            (Some("skip_to"), None) => {
                let instead = format!("{instead}, with the id of a later step");
                self.mistake("on_failure", "it does not say where to skip to", &instead);
                None
            }
            _ => {
                self.mistake(
                    "on_failure",
                    "its action is neither abort nor skip_to alone",
                    instead,
                );
                None
            }
        }
    }

    fn check_skip_to(&mut self, target: &str) -> Option<OnFailure> {
        let later = self.heads[self.at + 1..].iter().filter_map(|head| head.id);
        let instead = match texts::list(later.take(TOLD_IDS_MAX)) {
            ids if ids.is_empty() => "There is no later step: leave `on_failure` out".to_owned(),
            ids => format!("Skip to a later step: {ids}"),
        };
        let problem = match self.find(target) {
            Place::Later(at) => return Some(OnFailure::SkipTo(at)),
            Place::Earlier(_) => "is an earlier step",
            Place::Itself => "is this step itself",
            Place::Nowhere => "is no step of this wisp",
        };
        self.mistake("on_failure", &format!("{} {problem}", texts::quote(target)), &instead);
        None
    }

    fn read_timeout(&mut self, step: &Map<String, Value>) -> Option<Duration> {
        let minutes = step.get("timeout_minutes")?;
        let max = self.of.config.timeout.as_secs_f64() / 60.0;
        let number = minutes.as_f64().filter(|number| *number > 0.0 && *number <= max);
        if number.is_none() {
            let instead = format!("Write a number of minutes, at most {max}");
            self.mistake("timeout_minutes", "it is no time that a step may take", &instead);
        }
        number.map(|minutes| Duration::from_secs_f64(minutes * 60.0))
    }

    /// That the definition allows what the step does.
    fn check_allowed(&mut self, work: &Work) {
        let Some(allowed) = self.tools else { return };
        let Some(tool) = work.gateway_tool() else { return };
        let name = match work {
            Work::Mcp { server, tool, .. } => format!("{server}/{tool}"),
            _ => tool.to_owned(),
        };
        if !allowed.iter().any(|allowed| allowed.allows(work)) {
            let member = if matches!(work, Work::Mcp { .. } | Work::Web { .. }) {
                "tool"
            } else {
                "gateway"
            };
            let problem = format!("`tools` of the wisp does not allow {}", texts::quote(&name));
            self.mistake(member, &problem, "Add it there, or leave `tools` out");
        }
    }

    /// That all templates of a text name earlier steps.
    fn check_templates(&mut self, member: &str, text: &str) {
        match template::parse(text) {
            Ok(pieces) => {
                for piece in pieces {
                    if let Piece::Reference(reference) = piece {
                        self.check_reference(member, &reference.step);
                    }
                }
            }
            Err(malformed) => {
                let problem = format!("{} is no template", texts::quote(&malformed.template));
                self.mistake(member, &problem, &malformed.instead);
            }
        }
    }

    /// The same of all texts in a value.
    fn check_templates_within(&mut self, member: &str, value: &Value) {
        match value {
            Value::String(text) => self.check_templates(member, text),
            Value::Array(items) => {
                items.iter().for_each(|item| self.check_templates_within(member, item));
            }
            Value::Object(members) => {
                for (name, value) in members {
                    self.check_templates_within(&format!("{member}.{name}"), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// The id of the earlier step that is named.
    fn check_reference(&mut self, member: &str, name: &str) -> Option<String> {
        let earlier = self.heads[..self.at].iter().filter_map(|head| head.id);
        let instead = match texts::list(earlier.take(TOLD_IDS_MAX)) {
            ids if ids.is_empty() => "There is no earlier step: put one before it".to_owned(),
            ids => format!("Name an earlier step: {ids}"),
        };
        let problem = match self.find(name) {
            Place::Earlier(id) => return Some(id),
            Place::Itself => "is this step itself",
            Place::Later(_) => "is a later step, which has no result yet",
            Place::Nowhere => "is no step of this wisp",
        };
        self.mistake(member, &format!("{} {problem}", texts::quote(name)), &instead);
        None
    }

    fn find(&self, name: &str) -> Place {
        let by_id = |head: &Head<'_>| head.id == Some(name);
        let by_output = |head: &Head<'_>| head.output_to == Some(name);
        let found = self.heads.iter().position(by_id);
        match found.or_else(|| self.heads[..self.at].iter().position(by_output)) {
            Some(at) if at < self.at => match self.heads[at].id {
                Some(id) => Place::Earlier(id.to_owned()),
                None => Place::Nowhere,
            },
            Some(at) if at == self.at => Place::Itself,
            Some(at) => Place::Later(at),
            None => Place::Nowhere,
        }
    }

    /// A text that may be given.
    fn text<'s>(&mut self, step: &'s Map<String, Value>, member: &str) -> Option<&'s str> {
        let value = step.get(member)?;
        if !value.is_string() {
            self.mistake(member, "it is not a text", "Write a text");
        }
        value.as_str().map(str::trim).filter(|text| !text.is_empty())
    }

    fn required_text<'s>(
        &mut self,
        step: &'s Map<String, Value>,
        member: &str,
        instead: &str,
    ) -> Option<&'s str> {
        if !step.contains_key(member) {
            self.mistake(member, "it is missing", instead);
            return None;
        }
        self.text(step, member)
    }

    /// A name that is taken as it is, without templates.
    fn required_name(
        &mut self,
        step: &Map<String, Value>,
        member: &str,
        instead: &str,
    ) -> Option<String> {
        let name = self.required_text(step, member, instead)?;
        if name.len() > NAME_BYTES_MAX || name.contains("{{") || name.chars().any(char::is_control)
        {
            let problem = format!("{} is no name", texts::quote(name));
            self.mistake(member, &problem, &format!("{instead}, without templates"));
            return None;
        }
        Some(name.to_owned())
    }

    fn label(&self) -> String {
        match self.heads[self.at].id {
            Some(id) => texts::quote(id),
            None => (self.at + 1).to_string(),
        }
    }

    fn mistake(&mut self, member: &str, problem: &str, instead: &str) {
        let step = match self.heads[self.at].id {
            Some(id) => id.to_owned(),
            None => (self.at + 1).to_string(),
        };
        self.mistakes.add(Mistake {
            wisp: self.wisp,
            step: Some(texts::one_line(&step, ID_BYTES_MAX)),
            member: member.to_owned(),
            problem: problem.to_owned(),
            instead: instead.to_owned(),
        });
    }
}
