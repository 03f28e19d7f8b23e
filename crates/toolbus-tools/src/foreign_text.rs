//! Text from outside: what another agent, a server, a page or a model wrote, on its way into the
//! context of a model.
//!
//! [`ForeignText`] is the only form in which such text enters a context, and its constructors are
//! the one cleaning: they remove what a person does not see (see [`hidden_text`]) and the control
//! sequences of terminals, and break what imitates a fence or a token of a chat template, visibly.
//! Cleaning twice is cleaning once.
//!
//! A fence marks where text from outside begins and ends. Its [`Nonce`] is new for each turn, so
//! that text that was written before the turn cannot name it; text that learns it within the turn
//! cannot close the fence, because the cleaning breaks every mark.

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
/// Bytes that are read of a text for each byte that may stay of it: characters that a model does
/// not need may be most of a text.
const READ_FACTOR: usize = 4;
/// Digits of a nonce: 80 bits.
const NONCE_CHARS: usize = 20;
const BEGIN: &str = "<<outside ";
const END: &str = "<<end ";
/// Stands at the end of a text that was cut.
const CUT: &str = "\n[cut: the text is longer]";
/// Stands at the end of a line that was cut.
const LINE_CUT: &str = "…";

/// Text from outside, cleaned for a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForeignText(String);

/// The number that the marks of one turn carry: 20 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

/// A text that is no [`Nonce`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a nonce has {NONCE_CHARS} hexadecimal digits")]
pub struct NonceError;

impl ForeignText {
    /// Cleans a text. What is beyond so many bytes is cut off, and a note says so.
    #[must_use]
    pub fn new(text: &str, bytes_max: usize) -> Self {
        Self(clean(text, bytes_max).into_owned())
    }

    /// Cleans a name or a description, and puts it on one line.
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

    /// Returns the text by value.
    #[must_use]
    pub fn into_string(self) -> String {
        self.0
    }

    /// Returns whether nothing is left.
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

/// Cleans what it reads: rows of older releases hold text as it came.
impl<'de> Deserialize<'de> for ForeignText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::new(&text, FOREIGN_BYTES_MAX))
    }
}

impl Nonce {
    /// Returns a nonce that nobody knows.
    #[must_use]
    pub fn random() -> Self {
        Self::of(&new_id())
    }

    /// Derives the nonce of one place from a secret.
    #[must_use]
    pub fn derived(secret: &str, place: &str) -> Self {
        Self::of(&format!("{secret}\n{place}"))
    }

    /// Returns the nonce of rows that were written before there were nonces.
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

    /// Puts a text from outside between marks that name its source.
    #[must_use]
    pub fn fence(&self, from: &ForeignText, text: &ForeignText) -> String {
        let nonce = &self.0;
        let from = label_of(from.as_str());
        let mut text = Cow::Borrowed(text.as_str());
        // A text that knows the nonce knows what it imitates.
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

/// Returns the line that ends a fenced text, for its beginning where the rest is cut off. `None`:
/// the text is not fenced.
#[must_use]
pub fn end_of_fence(fenced: &str) -> Option<String> {
    let nonce = fenced.strip_prefix(BEGIN)?.get(..NONCE_CHARS)?;
    nonce.bytes().all(is_digit).then(|| format!("\n{END}{nonce}>>"))
}

fn is_digit(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// The name of a source within the quotation marks of a fence.
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

/// The one cleaning. Text that needs none is borrowed.
fn clean(text: &str, bytes_max: usize) -> Cow<'_, str> {
    let (head, is_cut) = beginning(text, bytes_max);
    let text = hidden_text::without_control_sequences(head);
    let text = then(text, |text| hidden_text::clean_text(text, &mut HiddenCounts::default()));
    let text = then(text, break_marks);

    fit(text, bytes_max, is_cut, CUT)
}

/// The beginning of a text that is looked at, and whether something is behind it.
fn beginning(text: &str, bytes_max: usize) -> (&str, bool) {
    let end = text.floor_char_boundary(bytes_max.saturating_mul(READ_FACTOR));
    (&text[..end], end < text.len())
}

/// Applies a step of the cleaning, which borrows what it does not change.
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

/// Cuts a clean text to so many bytes, with a note where there is room for one.
fn fit<'a>(text: Cow<'a, str>, bytes_max: usize, is_cut: bool, note: &str) -> Cow<'a, str> {
    if !is_cut && text.len() <= bytes_max {
        return text;
    }

    let note = if note.len() < bytes_max { note } else { "" };
    let end = text.floor_char_boundary(bytes_max - note.len());
    // A character that stays because of its neighbor goes with it.
    let head = hidden_text::clean_text(&text[..end], &mut HiddenCounts::default());
    Cow::Owned(format!("{head}{note}"))
}

#[cfg(test)]
mod tests;
