//! Takes the members of one entry out of its object, one by one, and collects what is wrong.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::{Map, Value};

use super::credential::find_credentials;
use super::template::Template;
use super::{Mistake, Variables};
use toolbus_wire::message::Secret;

/// Members of other MCP clients that say which tools may be used, or whether a server runs at all,
/// with ours. Spelled without regard to case, `_` and `-`.
const GUARDED_SYNONYMS: [(&str, &str); 6] = [
    ("enabledtools", "allowedTools"),
    ("includetools", "allowedTools"),
    ("tools", "allowedTools"),
    ("disabledtools", "deniedTools"),
    ("excludetools", "deniedTools"),
    ("enabled", "disabled"),
];

/// Longest name of a member that is compared with others, in bytes: what that takes grows with it.
const COMPARED_BYTES_MAX: usize = 64;

/// The members of one entry that have not been taken yet, and the findings so far.
pub(super) struct Members<'a> {
    server: &'a str,
    variables: Variables<'a>,
    members: Map<String, Value>,
    findings: MemberFindings,
}

/// A member that is a switch, a word or an object.
pub(super) enum Choice<'a> {
    Flag(bool),
    Word(String),
    Members(Members<'a>),
}

/// What was found in the members of one entry.
#[derive(Default)]
pub(super) struct MemberFindings {
    pub(super) mistakes: Vec<Mistake>,
    pub(super) warnings: Vec<Mistake>,
    /// The values of variables whose names speak of credentials, or that look like some.
    pub(super) credentials: Vec<Secret>,
    /// The texts with credentials of the vault in them, by the members that they are.
    pub(super) templates: Vec<(String, Template)>,
}

impl<'a> Members<'a> {
    pub(super) fn new(
        server: &'a str,
        members: Map<String, Value>,
        variables: Variables<'a>,
    ) -> Self {
        Self { server, variables, members, findings: MemberFindings::default() }
    }

    /// Notes a mistake about a member, or about the whole entry when `member` is empty.
    pub(super) fn add_mistake(&mut self, member: &str, what: impl Into<String>) {
        let mistake = self.finding(member, what);
        self.findings.mistakes.push(mistake);
    }

    /// Notes something about a member that does no harm.
    pub(super) fn add_warning(&mut self, member: &str, what: impl Into<String>) {
        let warning = self.finding(member, what);
        self.findings.warnings.push(warning);
    }

    fn finding(&self, member: &str, what: impl Into<String>) -> Mistake {
        Mistake {
            member: (!member.is_empty()).then(|| member.to_owned()),
            ..Mistake::of_server(self.server, what)
        }
    }

    /// Refuses members that were not taken.
    pub(super) fn refuse_unknown(&mut self, known: &[&str]) {
        for member in self.unknown_members() {
            self.add_mistake(&member, unknown_member_text(&member, known));
        }
    }

    /// Warns of members that were not taken. One that may be meant for a member of `guarded` is a
    /// mistake: it limits what may be done, and would not if it were ignored.
    pub(super) fn warn_of_unknown(&mut self, known: &[&str], guarded: &[&str]) {
        for member in self.unknown_members() {
            let meant = guarded_synonym(&member).or_else(|| nearest_member(&member, known));
            match meant {
                Some(meant) if guarded.contains(&meant) => {
                    self.add_mistake(&member, format!("unknown member, did you mean {meant:?}?"));
                }
                meant => self.add_warning(&member, ignored_member_text(meant)),
            }
        }
    }

    /// Returns what was found.
    pub(super) fn finish(self) -> MemberFindings {
        self.findings
    }

    fn unknown_members(&self) -> Vec<String> {
        self.members.keys().cloned().collect()
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

    /// Takes a text that is not empty, with its variables replaced.
    pub(super) fn take_expanded(&mut self, member: &str) -> Option<String> {
        let text = self.take_text(member)?;
        let text = self.expand(member, &text)?;
        if text.trim().is_empty() {
            self.add_mistake(member, "is empty");
            return None;
        }
        Some(text)
    }

    /// Takes a path, with its variables replaced.
    pub(super) fn take_path(&mut self, member: &str) -> Option<PathBuf> {
        self.take_expanded(member).map(PathBuf::from)
    }

    /// Takes a list of texts with their variables replaced; empty when there is none.
    pub(super) fn take_expanded_texts(&mut self, member: &str) -> Vec<String> {
        let texts = self.take_texts(member).into_iter().enumerate();
        texts
            .filter_map(|(index, text)| self.expand(&format!("{member}[{index}]"), &text))
            .collect()
    }

    /// Takes `true` or `false`.
    pub(super) fn take_flag(&mut self, member: &str) -> Option<bool> {
        let value = self.take_member(member)?;
        if !value.is_boolean() {
            self.add_mistake(member, "has to be true or false");
        }
        value.as_bool()
    }

    /// Takes `true`, `false`, a string, or the members of an inner object, as
    /// [`Members::take_object`] does. `expected` is the error for any other value.
    pub(super) fn take_choice(&mut self, member: &str, expected: &str) -> Option<Choice<'a>> {
        match self.take_member(member)? {
            Value::Bool(flag) => Some(Choice::Flag(flag)),
            Value::String(word) => Some(Choice::Word(word)),
            Value::Object(members) => {
                let inner = Members::new(self.server, members, self.variables);
                Some(Choice::Members(inner))
            }
            _ => {
                self.add_mistake(member, expected);
                None
            }
        }
    }

    /// Takes a list of texts; empty when there is none.
    pub(super) fn take_texts(&mut self, member: &str) -> Vec<String> {
        self.take_texts_if_any(member).unwrap_or_default()
    }

    /// Takes a list of texts; `None` when there is none.
    pub(super) fn take_texts_if_any(&mut self, member: &str) -> Option<Vec<String>> {
        let Value::Array(values) = self.take_member(member)? else {
            self.add_mistake(member, "has to be a list of texts");
            return None;
        };
        let mut texts = Vec::with_capacity(values.len());

        for (index, value) in values.into_iter().enumerate() {
            match value {
                Value::String(text) if !text.contains('\0') => texts.push(text),
                _ => self.add_mistake(&format!("{member}[{index}]"), "has to be a text"),
            }
        }

        Some(texts)
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

            if let Some(text) = self.expand(&path, &text) {
                secrets.insert(name, Secret::from(text));
            }
        }

        secrets
    }

    /// Takes a secret text that is not empty, with its variables replaced.
    pub(super) fn take_secret(&mut self, member: &str) -> Option<Secret> {
        self.take_expanded(member).map(Secret::from)
    }

    /// The text with its variables replaced, and noted where it has credentials of the vault; a
    /// mistake where that cannot be.
    fn expand(&mut self, path: &str, text: &str) -> Option<String> {
        let credentials = &mut self.findings.credentials;
        let expanded = self.variables.expand_text(text, |variable, value| {
            credentials.extend(find_credentials(variable, value));
        });
        let template = expanded.map_err(|what| self.add_mistake(path, what)).ok()?;

        let text = template.as_written();
        if template.has_credentials() {
            self.findings.templates.push((path.to_owned(), template));
        }
        Some(text)
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
    /// is reported by [`Members::add_findings_of`].
    pub(super) fn take_object(&mut self, member: &str) -> Option<Members<'a>> {
        match self.take_member(member)? {
            Value::Object(members) => Some(Members::new(self.server, members, self.variables)),
            _ => {
                self.add_mistake(member, "has to be an object");
                None
            }
        }
    }

    /// Takes over what was found in an inner object.
    pub(super) fn add_findings_of(&mut self, member: &str, inner: MemberFindings) {
        let of_member = |mistake: Mistake| Mistake {
            member: Some(match mistake.member {
                Some(inner) => format!("{member}.{inner}"),
                None => member.to_owned(),
            }),
            ..mistake
        };

        self.findings.mistakes.extend(inner.mistakes.into_iter().map(of_member));
        self.findings.warnings.extend(inner.warnings.into_iter().map(of_member));
        self.findings.credentials.extend(inner.credentials);
        let templates = inner.templates.into_iter();
        let templates = templates.map(|(path, template)| (format!("{member}.{path}"), template));
        self.findings.templates.extend(templates);
    }

    /// The number of mistakes so far.
    pub(super) fn mistake_count(&self) -> usize {
        self.findings.mistakes.len()
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
    match nearest_member(member, known) {
        Some(name) => format!("unknown member, did you mean {name:?}?"),
        None => format!("unknown member; there are {}", known.join(", ")),
    }
}

/// The text of a warning about an unknown member, with the known one that may be meant.
pub(super) fn ignored_member_text(meant: Option<&str>) -> String {
    match meant {
        Some(name) => format!("unknown member, ignored; did you mean {name:?}?"),
        None => "unknown member, ignored".to_owned(),
    }
}

/// The known member that is spelled almost like this one.
pub(super) fn nearest_member<'a>(member: &str, known: &[&'a str]) -> Option<&'a str> {
    if member.len() > COMPARED_BYTES_MAX {
        return None;
    }
    let folded = member.to_lowercase();
    let nearest = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(&folded, &name.to_lowercase()), *name))
        .min_by_key(|(distance, _)| *distance)?;
    let (distance, name) = nearest;
    (distance <= 2.max(name.len() / 3)).then_some(name)
}

fn guarded_synonym(member: &str) -> Option<&'static str> {
    let folded = member.replace(['_', '-'], "").to_lowercase();
    let synonym = GUARDED_SYNONYMS.iter().find(|(theirs, _)| *theirs == folded)?;
    Some(synonym.1)
}
