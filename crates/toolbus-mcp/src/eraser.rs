//! Takes the secrets of a server out of what that server says before anybody reads it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::RwLock;
use toolbus_wire::message::Secret;

/// Shorter values are not erased from texts: `1` or `info` is no secret, and erasing it would
/// only make the text unreadable.
const ERASED_LENGTH_MIN: usize = 6;
/// How many learned secrets are kept: the tokens of the last hours.
const LEARNED_MAX: usize = 16;

/// Replaces the secrets of one server in what that server says.
///
/// A server may well repeat its credential in an error or on its stderr. Clones learn together.
#[derive(Clone, Default)]
pub(crate) struct Eraser {
    configured: Vec<Secret>,
    learned: Arc<RwLock<VecDeque<Secret>>>,
}

impl Eraser {
    /// An eraser of these values, the longest first: one may be part of another.
    pub(crate) fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut secrets: Vec<Secret> =
            values.into_iter().filter(|s| s.expose().len() >= ERASED_LENGTH_MIN).collect();
        secrets.sort_by_key(|s| std::cmp::Reverse(s.expose().len()));
        Self { configured: secrets, learned: Arc::default() }
    }

    /// Erases this too from now on, such as a token that was just given. Of many, the oldest are
    /// forgotten.
    pub(crate) fn learn(&self, secret: &Secret) {
        let mut learned = self.learned.write();
        if secret.expose().len() < ERASED_LENGTH_MIN || learned.contains(secret) {
            return;
        }
        if learned.len() == LEARNED_MAX {
            learned.pop_front();
        }
        learned.push_back(secret.clone());
    }

    /// The text with `***` where a secret stood.
    pub(crate) fn erase<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut erased = Cow::Borrowed(text);
        let learned = self.learned.read();
        for secret in learned.iter().chain(&self.configured) {
            if erased.contains(secret.expose()) {
                erased = Cow::Owned(erased.replace(secret.expose(), "***"));
            }
        }
        erased
    }
}

/// The beginning of a text, at most `length_max` bytes, with `…` when something is left out.
pub(crate) fn shortened(text: &str, length_max: usize) -> Cow<'_, str> {
    if text.len() <= length_max {
        return Cow::Borrowed(text);
    }
    let end = text.floor_char_boundary(length_max);
    Cow::Owned(format!("{}…", &text[..end]))
}

#[cfg(test)]
mod tests;
