//! Text from outside: text that another agent, a server, a page or a model wrote, on its way into
//! the context of a model.
//!
//! [`ForeignText`] is the only form in which such text enters a context, and its constructors clean
//! it. Cleaning removes characters that are invisible to people (see [`hidden_text`]) and control
//! sequences of terminals, and visibly breaks imitations of fences and of chat template tokens.
//! Cleaning is idempotent.
//!
//! A fence marks the beginning and the end of text from outside. Each turn has a new [`Nonce`], so
//! text from before the turn cannot name it. Text that learns the nonce during the turn cannot
//! close the fence either, because cleaning breaks every mark.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toolbus_wire::envelope::new_id;

use crate::canonical::sha256_hex;
use crate::hidden_text::{self, HiddenCounts};

mod marks;

use marks::{BREAK, break_marks};

/// Maximum size of a text from outside, in bytes.
pub const FOREIGN_BYTES_MAX: usize = 2 << 20;
/// Maximum size of the name of a source, in bytes.
pub const SOURCE_BYTES_MAX: usize = 256;
/// Input bytes that are read for each byte of the maximum size, because most of a text may be
/// characters that cleaning removes.
const READ_FACTOR: usize = 4;
/// Number of hexadecimal digits of a nonce: 80 bits.
const NONCE_CHARS: usize = 20;
const BEGIN: &str = "<<outside ";
const END: &str = "<<end ";
/// More than the size of the longest mark, in bytes.
const MARK_BYTES_MAX: usize = 512;
/// Ends a truncated text.
const CUT: &str = "\n[cut: the text is longer]";
/// Ends a truncated line.
const LINE_CUT: &str = "…";

/// Text from outside, cleaned for a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignText(String);

/// The random number in the marks of one turn: 20 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

/// The error of a text that is not a [`Nonce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a nonce has {NONCE_CHARS} hexadecimal digits")]
pub struct NonceError;

impl ForeignText {
    /// Cleans a text. Truncates it to `bytes_max` and ends it with a note if it is longer.
    #[must_use]
    pub fn new(text: &str, bytes_max: usize) -> Self {
        Self(clean(text, bytes_max).into_owned())
    }

    /// Cleans a name or a description and joins it into one line.
    #[must_use]
    pub fn line(text: &str, bytes_max: usize) -> Self {
        let (head, is_cut) = beginning(text, bytes_max);
        let head = hidden_text::without_control_sequences(head);
        let line = hidden_text::clean_line(&head);
        let line = break_marks(&line);
        Self(fit(line, bytes_max, is_cut, LINE_CUT).into_owned())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text as an owned string.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns true if the text is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ForeignText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for ForeignText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Cleans the text that it reads: rows of older releases hold raw text.
impl<'de> Deserialize<'de> for ForeignText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::new(&text, FOREIGN_BYTES_MAX))
    }
}

impl Nonce {
    /// Returns a new random nonce.
    #[must_use]
    pub fn random() -> Self {
        Self::of(&new_id())
    }

    /// Derives a nonce for one place from a secret.
    #[must_use]
    pub fn derived(secret: &str, place: &str) -> Self {
        Self::of(&format!("{secret}\n{place}"))
    }

    /// Returns the nonce for rows that were written before nonces existed.
    #[must_use]
    pub fn unknown() -> Self {
        Self("0".repeat(NONCE_CHARS))
    }

    fn of(text: &str) -> Self {
        let mut digits = sha256_hex(text);
        digits.truncate(NONCE_CHARS);
        Self(digits)
    }

    /// Returns the digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text from outside in marks that name its source.
    #[must_use]
    pub fn fence(&self, from: &ForeignText, text: &ForeignText) -> String {
        let nonce = &self.0;
        let from = label_of(from.as_str());
        let mut text = Cow::Borrowed(text.as_str());
        // A text that contains the nonce imitates this fence, so the nonce is broken too.
        if text.contains(nonce.as_str()) {
            let (head, tail) = nonce.split_at(NONCE_CHARS / 2);
            text = Cow::Owned(text.replace(nonce, &format!("{head}{BREAK}{tail}")));
        }
        format!("{BEGIN}{nonce} from=\"{from}\">>\n{text}\n{END}{nonce}>>")
    }
}

impl TryFrom<String> for Nonce {
    type Error = NonceError;

    fn try_from(text: String) -> Result<Self, NonceError> {
        let is_nonce = text.len() == NONCE_CHARS && text.bytes().all(is_digit);
        if is_nonce { Ok(Self(text)) } else { Err(NonceError) }
    }
}

impl From<Nonce> for String {
    fn from(nonce: Nonce) -> Self {
        nonce.0
    }
}

/// Returns the line that ends a fenced text, so that a truncated text can keep it. `None`: the text
/// is not fenced.
#[must_use]
pub fn end_of_fence(fenced: &str) -> Option<String> {
    let nonce = fenced.strip_prefix(BEGIN)?.get(..NONCE_CHARS)?;
    nonce.bytes().all(is_digit).then(|| format!("\n{END}{nonce}>>"))
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Formats the name of a source for the quotation marks of a fence.
fn label_of(name: &str) -> String {
    let line = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut label: String = line
        .chars()
        .map(|c| match c {
            '"' => '\'',
            '<' => '(',
            '>' => ')',
            c => c,
        })
        .collect();
    label.truncate(label.floor_char_boundary(SOURCE_BYTES_MAX));
    label
}

/// Cleans a text. Borrows a text that needs no change.
fn clean(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let (head, is_cut) = beginning(text, bytes_max);
    let text = hidden_text::without_control_sequences(head);
    let text = then(text, |text| hidden_text::clean_text(text, &mut HiddenCounts::default()));
    let text = then(text, break_marks);

    fit(text, bytes_max, is_cut, CUT)
}

/// Returns the beginning of a text that is read, and whether more text follows.
fn beginning(text: &str, bytes_max: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(bytes_max.saturating_mul(READ_FACTOR));
    (&text[..end], end < text.len())
}

/// Applies a step of the cleaning, which borrows an unchanged text.
fn then<'a>(text: Cow<'a, str>, step: impl FnOnce(&str) -> Cow<'_, str>) -> Cow<'a, str> {
    match text {
        Cow::Borrowed(text) => step(text),
        Cow::Owned(text) => {
            let changed = match step(&text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(changed) => Some(changed),
            };
            Cow::Owned(changed.unwrap_or(text))
        }
    }
}

/// Returns true if the end of a text has a mark when a note follows.
fn has_mark(text: &str, note: &str) -> bool {
    let tail = text.floor_char_boundary(text.len().saturating_sub(MARK_BYTES_MAX));
    let tail = format!("{}{note}", &text[tail..]);
    matches!(break_marks(&tail), Cow::Owned(_))
}

/// Truncates a clean text to this many bytes, with a note if there is room for one.
fn fit<'a>(text: Cow<'a, str>, bytes_max: usize, is_cut: bool, note: &str) -> Cow<'a, str> {
    if !is_cut && text.len() <= bytes_max {
        return text;
    }

    let note = if note.len() < bytes_max { note } else { "" };
    let mut end = text.floor_char_boundary(bytes_max - note.len());
    loop {
        // A character that is kept only because of its neighbor is removed with it.
        let head = hidden_text::clean_text(&text[..end], &mut HiddenCounts::default());
        // The cut must not complete a mark: `<<ends` would become `<<end`.
        if end == 0 || !has_mark(&head, note) {
            return Cow::Owned(format!("{head}{note}"));
        }
        end = text.floor_char_boundary(end - 1);
    }
}

#[cfg(test)]
mod tests;
