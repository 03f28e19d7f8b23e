//! Finds secrets in whole messages and results, and takes them out.
//!
//! A message is looked through as JSON text that is written and not kept: what holds no secret,
//! and that is nearly every message, is neither copied nor changed, and costs one pass over its
//! bytes. Only a message that holds one is taken apart.

use std::borrow::Cow;
use std::io;

use aho_corasick::{AhoCorasick, MatchKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What stands in the place of a secret.
const ERASED: &str = "***";
/// How many bytes of a message are looked through at a time, where no secret is half as long.
const WINDOW_BYTES: usize = 64 << 10;

/// Finds some secrets. Of two that begin at the same place, the longer one.
pub struct SecretFinder {
    in_text: AhoCorasick,
    /// The same as they are written in JSON.
    in_json: AhoCorasick,
    longest_in_json: usize,
    erased: Vec<&'static str>,
}

impl SecretFinder {
    /// A finder of these; none where there are none.
    #[must_use]
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a str>) -> Option<Self> {
        let in_text: Vec<&str> = secrets.into_iter().collect();
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

    /// Whether a message holds a secret, or cannot be looked through.
    #[must_use]
    pub fn is_in(&self, message: &impl Serialize) -> bool {
        let mut search = SecretSearch { finder: self, window: Vec::new() };
        serde_json::to_writer(&mut search, message).is_err() || search.is_found()
    }

    /// A text without the secrets in it.
    #[must_use]
    pub fn erase_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.in_text.is_match(text) {
            Cow::Owned(self.in_text.replace_all(text, &self.erased))
        } else {
            Cow::Borrowed(text)
        }
    }

    /// Takes the secrets out of every text of a value: of names of members and numbers too.
    pub fn erase(&self, value: &mut Value) {
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

    /// The text of a JSON value without the secrets in it, all else as it was written; `None`
    /// where there are none. Names of members that had some are numbered, so that none is lost.
    #[must_use]
    pub fn erase_json(&self, text: &str) -> Option<String> {
        let mut erased: Option<String> = None;
        let (mut kept, mut names) = (0, 0);
        let mut put = |from: usize, to: usize, instead: &str| {
            let erased = erased.get_or_insert_with(|| String::with_capacity(text.len()));
            erased.push_str(&text[kept..from]);
            erased.push_str(instead);
            kept = to;
        };

        for (from, to) in Tokens::of(text) {
            let token = &text[from..to];
            if !token.starts_with('"') {
                if self.in_text.is_match(token) {
                    put(from, to, &json_quoted(ERASED));
                }
                continue;
            }
            let content = if token.contains('\\') {
                Cow::Owned(unescape(token))
            } else {
                Cow::Borrowed(between_quotes(token))
            };
            if self.in_text.is_match(&*content) {
                let mut instead = self.in_text.replace_all(&content, &self.erased);
                if text[to..].trim_start().starts_with(':') {
                    names += 1;
                    instead.push_str(&format!("-{names}"));
                }
                put(from, to, &json_quoted(&instead));
            }
        }

        let rest = kept;
        erased.map(|erased| erased + &text[rest..])
    }

    /// The same members under names without secrets. None is lost: where several come to the same
    /// name, all but the first are numbered.
    fn rename_members(&self, members: Map<String, Value>) -> Map<String, Value> {
        let mut renamed = Map::new();
        let mut number = 0;
        for (name, member) in members {
            let erased = self.in_text.replace_all(&name, &self.erased);
            let mut name = erased.clone();
            // No number is tried twice: there are no more tries in vain than names.
            while renamed.contains_key(&name) {
                number += 1;
                name = format!("{erased}-{number}");
            }
            renamed.insert(name, member);
        }
        renamed
    }
}

/// How serde_json writes a text, without the quotes.
fn json_text(text: &str) -> String {
    let quoted = json_quoted(text);
    quoted[1..quoted.len() - 1].to_owned()
}

fn json_quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// What is between the quotes of a text; of one that does not end, all that there is.
fn between_quotes(token: &str) -> &str {
    let content = token.strip_prefix('"').unwrap_or(token);
    content.strip_suffix('"').unwrap_or(content)
}

/// The text that a JSON text stands for. Half of a surrogate pair, which no text here can hold,
/// becomes a replacement character: what stands beside it is looked through all the same.
fn unescape(token: &str) -> String {
    // One text takes no more memory than its token, and each has to be looked through.
    match toolbus_json::from_checked::<TextBytes<'_>>(token) {
        Ok(TextBytes(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => token.to_owned(),
    }
}

/// A text as bytes, in which half of a surrogate pair has its place.
#[derive(Deserialize)]
struct TextBytes<'a>(#[serde(borrow)] Cow<'a, [u8]>);

/// The texts, with their quotes, and the numbers and words of a text that is JSON: where each
/// begins and ends.
struct Tokens<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0 }
    }
}

impl Iterator for Tokens<'_> {
    type Item = (usize, usize);

    fn next(&mut self) -> Option<(usize, usize)> {
        let is_between = |byte: u8| b"{}[],: \n\r\t".contains(&byte);
        while is_between(*self.text.get(self.at)?) {
            self.at += 1;
        }

        let from = self.at;
        if self.text[from] == b'"' {
            let mut end = from + 1;
            while let Some(byte) = self.text.get(end).filter(|byte| **byte != b'"') {
                end += if *byte == b'\\' { 2 } else { 1 };
            }
            self.at = (end + 1).min(self.text.len());
        } else {
            let rest = self.text[from..].iter();
            self.at = from + rest.take_while(|byte| !is_between(**byte)).count();
        }
        Some((from, self.at))
    }
}

/// Takes JSON text, and fails as soon as it has found something.
struct SecretSearch<'a> {
    finder: &'a SecretFinder,
    window: Vec<u8>,
}

impl SecretSearch<'_> {
    fn is_found(&self) -> bool {
        self.finder.in_json.is_match(&self.window)
    }
}

impl io::Write for SecretSearch<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.window.extend_from_slice(bytes);
        let overlap = self.finder.longest_in_json - 1;
        if self.window.len() >= WINDOW_BYTES.max(2 * overlap) {
            if self.is_found() {
                return Err(io::ErrorKind::Other.into());
            }
            // What a secret may have begun in stays.
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
