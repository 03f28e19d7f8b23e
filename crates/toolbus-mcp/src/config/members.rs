//! Takes the members of one entry out of its object, one by one, and collects what is wrong.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Mistake, Variables};
use toolbus_wire::message::Secret;

/// The members of one entry that nobody has taken yet.
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
    pub(super) fn wrong(&mut self, member: &str, what: impl Into<String>) {
        self.mistakes.push(Mistake {
            member: (!member.is_empty()).then(|| member.to_owned()),
            ..Mistake::of_server(self.server, what)
        });
    }

    /// Every mistake; members that nobody took are mistakes too.
    pub(super) fn finish(mut self, known: &[&str]) -> Vec<Mistake> {
        let strangers: Vec<String> = self.members.keys().cloned().collect();
        for member in strangers {
            self.wrong(&member, unknown(&member, known));
        }
        self.mistakes
    }

    /// A member that is there and not `null`.
    fn take(&mut self, member: &str) -> Option<Value> {
        self.members.shift_remove(member).filter(|value| !value.is_null())
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, member: &str) -> Option<String> {
        match self.take(member)? {
            Value::String(text) if !text.trim().is_empty() => Some(text),
            Value::String(_) => {
                self.wrong(member, "is empty");
                None
            }
            _ => {
                self.wrong(member, "has to be a text");
                None
            }
        }
    }

    /// A list of texts; empty when there is none.
    pub(super) fn texts(&mut self, member: &str) -> Vec<String> {
        let Some(value) = self.take(member) else { return Vec::new() };
        let Value::Array(values) = value else {
            self.wrong(member, "has to be a list of texts");
            return Vec::new();
        };
        let mut texts = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            match value {
                Value::String(text) if !text.contains('\0') => texts.push(text),
                _ => self.wrong(&format!("{member}[{index}]"), "has to be a text"),
            }
        }
        texts
    }

    /// Secret texts by name, with their variables replaced.
    pub(super) fn secrets(&mut self, member: &str) -> BTreeMap<String, Secret> {
        let mut secrets = BTreeMap::new();
        for (name, value) in self.object(member) {
            let path = format!("{member}.{name}");
            let Value::String(text) = value else {
                self.wrong(&path, "has to be a text");
                continue;
            };
            match self.variables.expand(&text) {
                Ok(text) => drop(secrets.insert(name, Secret::from(text))),
                Err(what) => self.wrong(&path, what),
            }
        }
        secrets
    }

    /// A secret text that is not empty, with its variables replaced.
    pub(super) fn secret(&mut self, member: &str) -> Option<Secret> {
        let text = self.text(member)?;
        match self.variables.expand(&text) {
            Ok(text) if text.trim().is_empty() => self.wrong(member, "is empty"),
            Ok(text) => return Some(Secret::from(text)),
            Err(what) => self.wrong(member, what),
        }
        None
    }

    /// The number of a TCP port.
    pub(super) fn port(&mut self, member: &str) -> Option<u16> {
        let value = self.take(member)?;
        let port =
            value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
        if port.is_none() {
            self.wrong(member, "has to be a whole number from 1 to 65535");
        }
        port
    }

    /// The members of an object inside, to be read like those of an entry. What is wrong there is
    /// told by [`Members::adopt`].
    pub(super) fn inside(&mut self, member: &str) -> Option<Members<'a>> {
        match self.take(member)? {
            Value::Object(members) => Some(Members::new(self.server, members, self.variables)),
            _ => {
                self.wrong(member, "has to be an object");
                None
            }
        }
    }

    /// Takes over what is wrong in an object inside.
    pub(super) fn adopt(&mut self, member: &str, mistakes: Vec<Mistake>) {
        self.mistakes.extend(mistakes.into_iter().map(|mistake| Mistake {
            member: Some(match mistake.member {
                Some(inner) => format!("{member}.{inner}"),
                None => member.to_owned(),
            }),
            ..mistake
        }));
    }

    /// How much is wrong so far.
    pub(super) fn mistakes(&self) -> usize {
        self.mistakes.len()
    }

    /// Milliseconds from 1 to `max_ms`.
    pub(super) fn milliseconds(&mut self, member: &str, max_ms: u64) -> Option<u64> {
        let value = self.take(member)?;
        self.as_milliseconds(member, &value, max_ms)
    }

    /// Milliseconds by name.
    pub(super) fn milliseconds_by_name(
        &mut self,
        member: &str,
        max_ms: u64,
    ) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (name, value) in self.object(member) {
            if let Some(ms) = self.as_milliseconds(&format!("{member}.{name}"), &value, max_ms) {
                all.insert(name, ms);
            }
        }
        all
    }

    fn as_milliseconds(&mut self, path: &str, value: &Value, max_ms: u64) -> Option<u64> {
        let ms = value.as_u64().filter(|ms| (1..=max_ms).contains(ms));
        if ms.is_none() {
            self.wrong(path, format!("has to be a whole number from 1 to {max_ms}"));
        }
        ms
    }

    fn object(&mut self, member: &str) -> Map<String, Value> {
        match self.take(member) {
            None => Map::new(),
            Some(Value::Object(object)) => object,
            Some(_) => {
                self.wrong(member, "has to be an object");
                Map::new()
            }
        }
    }
}

/// The text of a mistake about a member that nobody knows, with the known one that is nearest.
pub(super) fn unknown(member: &str, known: &[&str]) -> String {
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
