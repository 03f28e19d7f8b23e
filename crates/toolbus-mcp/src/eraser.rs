//! Takes the secrets of a server out of what that server says before anybody reads it.
//!
//! Errors and logs are written for people: every configured value is erased from those. Results are
//! what callers work with, and a mode or a path in them is no secret though it is configured: only
//! credentials are erased from those, see [`crate::config`]. That happens where messages come in,
//! before anything is made of them.
//!
//! Credentials of the vault are learned before the connection is opened that has them, and are
//! erased from then on, also once they were changed: a server may say those of a connection before.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;
use serde_json::Value;
use toolbus_tools::SecretFinder;
use toolbus_wire::message::Secret;

use crate::config::escape_for_address;

/// Shorter values are not erased from texts: `1` or `info` is no secret, and erasing it would
/// only make the text unreadable.
const ERASED_LENGTH_MIN: usize = 6;
/// How many learned secrets are kept: the tokens of the last hours.
const LEARNED_MAX: usize = 16;
/// How many credentials are kept that the vault had before.
const FORMER_MAX: usize = 64;
/// The shortest line of a credential of several lines that is erased by itself, in bytes: logs are
/// read line by line.
const LINE_LENGTH_MIN: usize = 16;

/// Replaces the secrets of one server in what that server says.
///
/// A server may well repeat its credential in an error or on its stderr. Clones learn together.
#[derive(Clone, Default)]
pub(crate) struct Eraser {
    configured: Vec<Secret>,
    /// Those of them that are credentials.
    credentials: Vec<Secret>,
    learned: Arc<RwLock<LearnedSecrets>>,
}

#[derive(Default)]
struct LearnedSecrets {
    secrets: VecDeque<Secret>,
    /// The credentials of the vault that the last connection has, and those of connections before;
    /// both of them, the longest first.
    current: Vec<Secret>,
    former: VecDeque<Secret>,
    of_vault: Vec<Secret>,
    /// The values of the file of variables, the longest first, and those that are credentials.
    file_values: Vec<Secret>,
    file_credentials: Vec<Secret>,
    /// Finds these and the configured credentials.
    finder: Option<Arc<SecretFinder>>,
}

impl Eraser {
    /// An eraser of these values, the longest first: one may be part of another.
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> = values.into_iter().filter(is_long_enough).collect();
        secrets.sort_by_key(|s| std::cmp::Reverse(s.expose().len()));
        Self { configured: secrets, ..Self::default() }
    }

    /// The same eraser, of which these values are credentials.
    pub(crate) fn with_credentials(mut self, values: impl IntoIterator<Item = Secret>) -> Self {
        self.credentials = values.into_iter().filter(is_long_enough).collect();
        self.learned.write().finder =
            SecretFinder::new(self.credentials.iter().map(Secret::expose)).map(Arc::new);
        self
    }

    /// What finds credentials in whole messages; none where there are no credentials.
    pub(crate) fn finder(&self) -> Option<Arc<SecretFinder>> {
        self.learned.read().finder.clone()
    }

    /// Erases this too from now on, such as a token that was just given. Of many, the oldest are
    /// forgotten.
    pub(crate) fn add_secrets(&self, secret: &Secret) {
        let mut learned = self.learned.write();
        if !is_long_enough(secret) || learned.secrets.contains(secret) {
            return;
        }
        if learned.secrets.len() == LEARNED_MAX {
            learned.secrets.pop_front();
        }
        learned.secrets.push_back(secret.clone());
        learned.update_finder(&self.credentials);
    }

    /// Erases these values of the file of variables from now on, instead of those that it had
    /// before.
    pub(crate) fn set_file_values(&self, values: Vec<Secret>, credentials: Vec<Secret>) {
        let long_enough = |values: Vec<Secret>| values.into_iter().filter(is_long_enough).collect();

        let mut learned = self.learned.write();
        learned.file_values = long_enough(values);
        learned.file_values.sort_by_key(|s| std::cmp::Reverse(s.expose().len()));
        learned.file_credentials = long_enough(credentials);
        learned.update_finder(&self.credentials);
    }

    /// Erases these credentials of the vault from now on, in every form that a server is likely to
    /// say them in. Those that it had before stay secret; of many, the oldest are forgotten.
    pub(crate) fn set_vault_credentials<'a>(&self, values: impl Iterator<Item = &'a Secret>) {
        let forms = values.flat_map(forms_of).filter(is_long_enough);
        let mut current: Vec<Secret> = forms.collect();
        current.sort_by_key(|s| std::cmp::Reverse(s.expose().len()));

        let mut learned = self.learned.write();
        if learned.current != current {
            learned.replace_current(current);
            learned.update_finder(&self.credentials);
        }
    }

    /// Length of the longest secret, in bytes.
    pub(crate) fn longest_secret(&self) -> usize {
        let learned = self.learned.read();
        let secrets = learned.all().chain(&self.configured);
        secrets.map(|secret| secret.expose().len()).max().unwrap_or_default()
    }

    /// The text with `***` where a secret stood.
    pub(crate) fn erase<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut erased = Cow::Borrowed(text);
        let learned = self.learned.read();
        let secrets = learned.all().chain(&self.configured);
        for secret in secrets {
            if erased.contains(secret.expose()) {
                erased = Cow::Owned(erased.replace(secret.expose(), "***"));
            }
        }
        erased
    }
}

impl LearnedSecrets {
    fn all(&self) -> impl Iterator<Item = &Secret> {
        self.of_vault.iter().chain(&self.secrets).chain(&self.file_values)
    }

    fn replace_current(&mut self, current: Vec<Secret>) {
        let before = std::mem::replace(&mut self.current, current);
        let gone = before.into_iter().filter(|secret| !self.current.contains(secret));
        for secret in gone.collect::<Vec<_>>() {
            self.former.retain(|known| *known != secret);
            if self.former.len() == FORMER_MAX {
                self.former.pop_front();
            }
            self.former.push_back(secret);
        }

        self.of_vault = self.current.iter().chain(&self.former).cloned().collect();
        self.of_vault.sort_by_key(|s| std::cmp::Reverse(s.expose().len()));
    }

    fn update_finder(&mut self, configured: &[Secret]) {
        let learned = self.of_vault.iter().chain(&self.file_credentials).chain(&self.secrets);
        let all = configured.iter().chain(learned);
        self.finder = SecretFinder::new(all.map(Secret::expose)).map(Arc::new);
    }
}

/// A credential as it is, as it stands in an address and in a text that is JSON, and its lines.
fn forms_of(secret: &Secret) -> Vec<Secret> {
    let text = secret.expose();
    let in_json = Value::from(text).to_string();
    let in_json = in_json[1..in_json.len() - 1].to_owned();
    let mut forms = vec![text.to_owned(), escape_for_address(text), in_json];
    if text.trim() != text {
        forms.push(text.trim().to_owned());
    }
    if text.contains('\n') {
        let lines = text.lines().map(str::trim);
        forms.extend(lines.filter(|line| line.len() >= LINE_LENGTH_MIN).map(str::to_owned));
    }
    forms.sort();
    forms.dedup();
    forms.into_iter().map(Secret::from).collect()
}

fn is_long_enough(secret: &Secret) -> bool {
    secret.expose().len() >= ERASED_LENGTH_MIN
}

/// The beginning of a text, at most `length_max` bytes, with `…` when something is left out.
pub(crate) fn shorten_text(text: &str, length_max: usize) -> Cow<'_, str> {
    if text.len() <= length_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(length_max);
    Cow::Owned(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests;
