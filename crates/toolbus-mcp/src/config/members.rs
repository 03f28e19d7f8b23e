//! Takes the members of one entry out of its object, one by one, and collects what is wrong.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Mistake, Variables};
use toolbus_wire::message::Secret;

/// The members of one entry that have not been taken yet, and the mistakes so far.
pub(super) struct Members<'a> {
    server: &'a str,
    variables: Variables<'a>,
    members: Map<String, Value>,
    mistakes: Vec<Mistake>,
}

impl<'a> Members<'a> {
    pub(super) fn new(
        server: &'a str,
        members: Map<String, Value>,
        variables: Variables<'a>,
    ) -> Self {
        Self { server, variables, members, mistakes: Vec::new() }
    }

    /// Notes a mistake about a member, or about the whole entry when `member` is empty.
    pub(super) fn add_mistake(&mut self, member: &str, what: impl Into<String>) {
        self.mistakes.push(Mistake {
            member: (!member.is_empty()).then(|| member.to_owned()),
            ..Mistake::of_server(self.server, what)
        });
    }

    /// Returns every mistake; members that were not taken are mistakes too.
    pub(super) fn finish(mut self, known: &[&str]) -> Vec<Mistake> {
        let strangers: Vec<String> = self.members.keys().cloned().collect();
        for member in strangers {
            self.add_mistake(&member, unknown_member_text(&member, known));
        }
        self.mistakes
    }

    /// Takes a member that is there and not `null`.
    fn take_member(&mut self, member: &str) -> Option<Value> {
        self.members.shift_remove(member).filter(|value| !value.is_null())
    }

    /// Takes a text that is not empty.
    pub(super) fn take_text(&mut self, member: &str) -> Option<String> {
        match self.take_member(member)? {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            Value::String(_) => {
                self.add_mistake(member, "is empty");
                None
            }
            _ => {
                self.add_mistake(member, "has to be a text");
                None
            }
        }
    }

    /// Takes a list of texts; empty when there is none.
    pub(super) fn take_texts(&mut self, member: &str) -> Vec<String> {
        let Some(value) = self.take_member(member) else { return Vec::new() };
        let Value::Array(values) = value else {
            self.add_mistake(member, "has to be a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(values.len());

        for (index, value) in values.into_iter().enumerate() {
            match value {
                Value::String(text) if !text.contains('\0') => texts.push(text),
                _ => self.add_mistake(&format!("{member}[{index}]"), "has to be a text"),
            }
        }

        texts
    }

    /// Takes secret texts by name, with their variables replaced.
    pub(super) fn take_secrets(&mut self, member: &str) -> BTreeMap<String, Secret> {
        let mut secrets = BTreeMap::new();
        for (name, value) in self.take_map(member) {
            let path = format!("{member}.{name}");
            let Value::String(text) = value else {
                self.add_mistake(&path, "has to be a text");
                continue;
            };

            match self.variables.expand_text(&text) {
                Ok(text) => drop(secrets.insert(name, Secret::from(text))),
                Err(what) => self.add_mistake(&path, what),
            }
        }

        secrets
    }

    /// Takes a secret text that is not empty, with its variables replaced.
    pub(super) fn take_secret(&mut self, member: &str) -> Option<Secret> {
        let text = self.take_text(member)?;
        match self.variables.expand_text(&text) {
            Ok(text) if text.trim().is_empty() => self.add_mistake(member, "is empty"),
            Ok(text) => return Some(Secret::from(text)),
            Err(what) => self.add_mistake(member, what),
        }
        None
    }

    /// Takes the number of a TCP port.
    pub(super) fn take_port(&mut self, member: &str) -> Option<u16> {
        let value = self.take_member(member)?;
        let port =
            value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        if port.is_none() {
            self.add_mistake(member, "has to be a whole number from 1 to 65535");
        }
        port
    }

    /// Takes the members of an inner object, to be read like those of an entry. What is wrong there
    /// is reported by [`Members::add_mistakes_of`].
    pub(super) fn take_object(&mut self, member: &str) -> Option<Members<'a>> {
        match self.take_member(member)? {
            Value::Object(members) => Some(Members::new(self.server, members, self.variables)),
            _ => {
                self.add_mistake(member, "has to be an object");
                None
            }
        }
    }

    /// Takes over the mistakes of an inner object.
    pub(super) fn add_mistakes_of(&mut self, member: &str, mistakes: Vec<Mistake>) {
        self.mistakes.extend(mistakes.into_iter().map(|mistake| Mistake {
            member: Some(match mistake.member {
                Some(inner) => format!("{member}.{inner}"),
                None => member.to_owned(),
            }),
            ..mistake
        }));
    }

    /// The number of mistakes so far.
    pub(super) fn mistake_count(&self) -> usize {
        self.mistakes.len()
    }

    /// Takes a number of milliseconds from 1 to `max_ms`.
    pub(super) fn take_milliseconds(&mut self, member: &str, max_ms: u64) -> Option<u64> {
        let value = self.take_member(member)?;
        self.parse_milliseconds(member, &value, max_ms)
    }

    /// Takes numbers of milliseconds by name.
    pub(super) fn take_milliseconds_by_name(
        &mut self,
        member: &str,
        max_ms: u64,
    ) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (name, value) in self.take_map(member) {
            if let Some(ms) = self.parse_milliseconds(&format!("{member}.{name}"), &value, max_ms) {
                all.insert(name, ms);
            }
        }
        all
    }

    fn parse_milliseconds(&mut self, path: &str, value: &Value, max_ms: u64) -> Option<u64> {
        let ms = value.as_u64().filter(|ms| (1..=max_ms).contains(ms));
        if ms.is_none() {
            self.add_mistake(path, format!("has to be a whole number from 1 to {max_ms}"));
        }
        ms
    }

    fn take_map(&mut self, member: &str) -> Map<String, Value> {
        match self.take_member(member) {
            None => Map::new(),
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.add_mistake(member, "has to be an object");
                Map::new()
            }
        }
    }
}

/// The text of a mistake about an unknown member, with the nearest known one.
pub(super) fn unknown_member_text(member: &str, known: &[&str]) -> String {
    let folded = member.to_lowercase();
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), name))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, name)| *distance <= 2.max(name.len() / 3));
    match nearest {
        Some((_, name)) => format!("unknown member, did you mean {name:?}?"),
        None => format!("unknown member; there are {}", known.join(", ")),
    }
}
