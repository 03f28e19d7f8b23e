//! Finds the credentials of one server in whole messages of that server, and takes them out.
//!
//! A message is looked through as JSON text that is written and not kept: what holds no credential,
//! and that is nearly every message, is neither copied nor changed, and costs one pass over its
//! bytes. Only a message that holds one is taken apart.

use std::io;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::Serialize;
use serde_json::{Map, Value};
use toolbus_wire::message::Secret;

/// What stands in the place of a credential.
pub(super) const ERASED: &str = "***";
/// How many bytes of a message are looked through at a time, where no credential is half as long.
const WINDOW_BYTES: usize = 64 << 10;

/// Finds some credentials. Of two that begin at the same place, the longer one.
pub(crate) struct Finder {
    in_text: AhoCorasick,
    /// The same as they are written in JSON.
    in_json: AhoCorasick,
    longest_in_json: usize,
    erased: Vec<&'static str>,
}

impl Finder {
    /// A finder of these; none where there are none.
    pub(super) fn new<'a>(secrets: impl Iterator<Item = &'a Secret>) -> Option<Self> {
        let in_text: Vec<&str> = secrets.map(Secret::expose).collect();
        let in_json: Vec<String> = in_text.iter().map(|text| json_text(text)).collect();
        let longest_in_json = in_json.iter().map(String::len).max()?;
        let build = |patterns: &[&str]| {
            AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(patterns).ok()
        };

        Some(Self {
            erased: vec![ERASED; in_text.len()],
            in_json: build(&in_json.iter().map(String::as_str).collect::<Vec<_>>())?,
            in_text: build(&in_text)?,
            longest_in_json,
        })
    }

    /// Whether a message holds a credential, or cannot be looked through.
    pub(crate) fn is_in(&self, message: &impl Serialize) -> bool {
        let mut search = CredentialSearch { finder: self, window: Vec::new() };
        serde_json::to_writer(&mut search, message).is_err() || search.is_found()
    }

    /// Takes the credentials out of every text of a value: of names of members and numbers too.
    pub(crate) fn erase(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                if self.in_text.is_match(text.as_str()) {
                    *text = self.in_text.replace_all(text, &self.erased);
                }
            }
            Value::Array(items) => items.iter_mut().for_each(|item| self.erase(item)),

            Value::Object(members) => {
                if members.keys().any(|name| self.in_text.is_match(name)) {
                    *members = self.rename_members(std::mem::take(members));
                }
                members.values_mut().for_each(|member| self.erase(member));
            }
            Value::Number(number) => {
                if self.in_text.is_match(&number.to_string()) {
                    *value = Value::from(ERASED);
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// The same members under names without credentials. None is lost, though several may come to
    /// the same name.
    fn rename_members(&self, members: Map<String, Value>) -> Map<String, Value> {
        let mut renamed = Map::new();
        for (name, member) in members {
            let mut name = self.in_text.replace_all(&name, &self.erased);
            while renamed.contains_key(&name) {
                name.push('*');
            }
            renamed.insert(name, member);
        }
        renamed
    }
}

/// How serde_json writes a text, without the quotes.
fn json_text(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Takes JSON text, and fails as soon as it has found something.
struct CredentialSearch<'a> {
    finder: &'a Finder,
    window: Vec<u8>,
}

impl CredentialSearch<'_> {
    fn is_found(&self) -> bool {
        self.finder.in_json.is_match(&self.window)
    }
}

impl io::Write for CredentialSearch<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.window.extend_from_slice(bytes);
        let overlap = self.finder.longest_in_json - 1;
        if self.window.len() >= WINDOW_BYTES.max(2 * overlap) {
            if self.is_found() {
                return Err(io::ErrorKind::Other.into());
            }
            // What a credential may have begun in stays.
            self.window.drain(..self.window.len() - overlap);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
