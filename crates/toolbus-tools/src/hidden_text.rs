//! Hidden text: characters that a model reads and a person does not see, removed from text from
//! outside and counted; and control sequences of terminals.
//!
//! This module has the only table of invisible characters. It keeps those that ordinary text needs:
//! joiners between letters that join (Arabic, Indic and others), emoji sequences, and line-break
//! marks between the letters of scripts without spaces. It removes all others, so people review the
//! text that models read. Plain ASCII text is scanned and never copied.

use std::borrow::Cow;
use std::fmt;

use serde_json::Value;

mod sequences;

pub use sequences::without_control_sequences;

/// Sequences of tag characters that are emoji: the flags of England, Scotland and Wales.
const TAGGED_FLAGS: [&str; 3] = ["gbeng", "gbsct", "gbwls"];
const BLACK_FLAG: char = '\u{1F3F4}';
const CANCEL_TAG: char = '\u{E007F}';
const ZERO_WIDTH_SPACE: char = '\u{200B}';
const EMOJI_STYLE: char = '\u{FE0F}';
const KEYCAP: char = '\u{20E3}';

/// A kind of hidden character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HiddenKind {
    /// Control characters beside tab and line ends, and noncharacters.
    Control,
    /// Characters without width that join or separate nothing where they stand.
    ZeroWidth,
    /// Characters that turn the direction of text around.
    Bidi,
    /// An invisible copy of ASCII.
    Tag,
    /// Variation selectors that select no variation of an emoji.
    VariationSelector,
    /// Characters without a meaning that anybody else knows.
    PrivateUse,
}

const HIDDEN_KINDS: [(HiddenKind, &str); 6] = [
    (HiddenKind::Control, "control"),
    (HiddenKind::ZeroWidth, "zero-width"),
    (HiddenKind::Bidi, "bidirectional"),
    (HiddenKind::Tag, "tag"),
    (HiddenKind::VariationSelector, "variation selector"),
    (HiddenKind::PrivateUse, "private-use"),
];

/// Counts of the hidden characters of each kind that were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HiddenCounts([usize; HIDDEN_KINDS.len()]);

impl HiddenCounts {
    /// Returns true if nothing was found.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    fn count(&mut self, kind: HiddenKind) {
        self.0[kind as usize] += 1;
    }
}

/// `3 zero-width, 1 tag`.
impl fmt::Display for HiddenCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (kind, name) in HIDDEN_KINDS {
            let count = self.0[kind as usize];
            if count > 0 {
                write!(f, "{separator}{count} {name}")?;
                separator = ", ";
            }
        }
        Ok(())
    }
}

/// The text without its hidden characters; each is counted in `found`. A text that was cleaned has
/// none.
pub fn clean_text<'a>(text: &'a str, found: &mut HiddenCounts) -> Cow<'a, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }

    let chars: Vec<char> = text.chars().collect();
    let mut cleaned = String::with_capacity(text.len());
    let before = *found;
    let mut at = 0;

    while let Some(&c) = chars.get(at) {
        let length = tagged_flag_length(&chars[at..]);
        if length > 0 {
            cleaned.extend(&chars[at..at + length]);
            at += length;
            continue;
        }

        let kept = cleaned.chars().next_back();
        match hidden_kind_between(kept, c, chars.get(at + 1).copied()) {
            None => cleaned.push(c),
            Some(kind) => {
                found.count(kind);
                // Without these two, words would grow together.
                if matches!(c, '\u{2028}' | '\u{2029}') {
                    cleaned.push('\n');
                }
            }
        }

        at += 1;
    }

    if *found == before { Cow::Borrowed(text) } else { Cow::Owned(cleaned) }
}

/// The text on one line, without hidden characters. Where others' words stand among ours, a line
/// end of theirs must not look like the end of what they said.
#[must_use]
pub fn clean_line(text: &str) -> String {
    let cleaned = clean_text(text, &mut HiddenCounts::default());
    cleaned.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a name can be shown as it is: nothing in it is hidden, and it stays on its line.
#[must_use]
pub fn is_clean_name(name: &str) -> bool {
    let mut found = HiddenCounts::default();
    clean_text(name, &mut found);
    found.is_empty() && !name.contains(['\t', '\n', '\r'])
}

/// Cleans every text of a JSON value in place. Answers whether all names of members were clean: a
/// name cannot be changed without changing what the value means.
pub fn clean_json(value: &mut Value, found: &mut HiddenCounts) -> bool {
    match value {
        Value::String(text) => {
            if let Cow::Owned(cleaned) = clean_text(text, found) {
                *text = cleaned;
            }
            true
        }

        // Everything is cleaned, also after a name that is not clean.
        Value::Array(items) => {
            let mut clean = true;
            for item in items {
                clean &= clean_json(item, found);
            }
            clean
        }

        Value::Object(members) => {
            let mut clean = true;
            for (name, value) in members.iter_mut() {
                clean &= clean_json(value, found);
                clean &= is_clean_name(name);
            }
            clean
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

fn is_plain(text: &str) -> bool {
    // Without a branch a character, so that it is done many bytes at a time.
    text.bytes().fold(true, |plain, byte| {
        plain & ((0x20..0x7F).contains(&byte) | matches!(byte, b'\t' | b'\n' | b'\r'))
    })
}

/// How many characters at the beginning are a flag that is made of tags; 0 when there is none.
fn tagged_flag_length(chars: &[char]) -> usize {
    if chars.first() != Some(&BLACK_FLAG) {
        return 0;
    }
    let tag = |letter: char| char::from_u32(0xE0000 + u32::from(letter));
    let is_flag = |letters: &&str| {
        let tags = letters.chars().map(tag).chain([Some(CANCEL_TAG)]);
        chars.len() > letters.len() + 1
            && tags.eq(chars[1..letters.len() + 2].iter().copied().map(Some))
    };
    TAGGED_FLAGS.iter().find(|letters| is_flag(letters)).map_or(0, |letters| letters.len() + 2)
}

/// What kind of hidden character stands between its two neighbors, if it is one. `previous` is the
/// last that stays, and `next` counts only where it is one that always stays: so what stays has the
/// same neighbors in the text that was cleaned, and stays there, too.
fn hidden_kind_between(previous: Option<char>, c: char, next: Option<char>) -> Option<HiddenKind> {
    let kind = invisible_kind(c)?;
    let stays = match c {
        '\u{200C}' | '\u{200D}' if previous.is_some_and(is_joining) => true,
        '\u{200D}' => previous.is_some_and(ends_emoji) && next.is_some_and(is_pictograph),
        ZERO_WIDTH_SPACE => previous.is_some_and(is_unspaced) && next.is_some_and(is_unspaced),
        '\u{FE0E}' | EMOJI_STYLE => previous.is_some_and(|base| match base {
            '0'..='9' | '#' | '*' => next == Some(KEYCAP),
            base => is_pictograph(base),
        }),
        '\u{115F}' | '\u{1160}' => [previous, next].into_iter().flatten().any(is_jamo),
        '\u{180B}'..='\u{180F}' => previous.is_some_and(is_mongolian),
        _ => false,
    };

    (!stays).then_some(kind)
}

/// The kind of a character that is invisible wherever it stands.
#[must_use]
pub fn invisible_kind(c: char) -> Option<HiddenKind> {
    Some(match c {
        '\t' | '\n' | '\r' | ' '..='~' => return None,

        '\0'..='\u{1F}' | '\u{7F}'..='\u{9F}' | '\u{2028}' | '\u{2029}' => HiddenKind::Control,
        '\u{FFF0}'..='\u{FFFB}' | '\u{FDD0}'..='\u{FDEF}' => HiddenKind::Control,
        c if u32::from(c) & 0xFFFE == 0xFFFE => HiddenKind::Control,
        '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' => HiddenKind::Bidi,
        '\u{2066}'..='\u{2069}' => HiddenKind::Bidi,
        '\u{AD}' | '\u{34F}' | '\u{115F}' | '\u{1160}' | '\u{3164}' | '\u{FFA0}' => {
            HiddenKind::ZeroWidth
        }
        '\u{17B4}' | '\u{17B5}' | '\u{180E}' | '\u{200B}'..='\u{200D}' => HiddenKind::ZeroWidth,
        '\u{2060}'..='\u{2065}' | '\u{206A}'..='\u{206F}' | '\u{FEFF}' => HiddenKind::ZeroWidth,
        '\u{1BCA0}'..='\u{1BCA3}' | '\u{1D173}'..='\u{1D17A}' => HiddenKind::ZeroWidth,
        '\u{180B}'..='\u{180D}' | '\u{180F}' | '\u{FE00}'..='\u{FE0F}' => {
            HiddenKind::VariationSelector
        }
        '\u{E0100}'..='\u{E01EF}' => HiddenKind::VariationSelector,
        '\u{E0000}'..='\u{E0FFF}' => HiddenKind::Tag,
        '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{10FFFF}' => HiddenKind::PrivateUse,
        _ => return None,
    })
}

/// Letters and marks of scripts whose shapes a joiner changes, also at the end of a word.
fn is_joining(c: char) -> bool {
    matches!(c,
        '\u{620}'..='\u{6FF}' | '\u{710}'..='\u{7FF}' | '\u{840}'..='\u{88F}' | '\u{8A0}'..='\u{8FF}'
        | '\u{900}'..='\u{DFF}' | '\u{F40}'..='\u{FBC}' | '\u{1000}'..='\u{109F}'
        | '\u{1700}'..='\u{17B3}' | '\u{17B6}'..='\u{17DD}' | '\u{1820}'..='\u{18AA}'
        | '\u{1A20}'..='\u{1AAD}' | '\u{1B00}'..='\u{1C4F}' | '\u{A800}'..='\u{A8FF}'
        | '\u{A930}'..='\u{A9DF}' | '\u{AA00}'..='\u{AA5F}' | '\u{AAE0}'..='\u{AAFF}'
        | '\u{ABC0}'..='\u{ABFF}' | '\u{FB50}'..='\u{FDCF}' | '\u{FE70}'..='\u{FEFC}'
        | '\u{10A00}'..='\u{10A5F}' | '\u{10D00}'..='\u{10D2F}' | '\u{11000}'..='\u{11FFF}'
        | '\u{1E900}'..='\u{1E95F}')
}

/// Letters of scripts that put no space between words, so that a mark says where a line may end;
/// without the two of Khmer that are invisible.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{E00}'..='\u{FFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17B3}'
        | '\u{17B6}'..='\u{17DD}' | '\u{1950}'..='\u{19DF}' | '\u{1A20}'..='\u{1AAD}'
        | '\u{A9E0}'..='\u{A9FF}' | '\u{AA60}'..='\u{AADF}')
}

/// Pictures, and signs that can be shown as pictures.
fn is_pictograph(c: char) -> bool {
    matches!(c,
        '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}'
        | '\u{2194}'..='\u{21AA}' | '\u{231A}'..='\u{23FF}' | '\u{24C2}'
        | '\u{25AA}'..='\u{27BF}' | '\u{2934}' | '\u{2935}' | '\u{2B05}'..='\u{2B55}'
        | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}')
}

fn ends_emoji(c: char) -> bool {
    c == EMOJI_STYLE || is_pictograph(c)
}

fn is_jamo(c: char) -> bool {
    let filler = matches!(c, '\u{115F}' | '\u{1160}');
    !filler
        && matches!(c, '\u{1100}'..='\u{11FF}' | '\u{A960}'..='\u{A97C}' | '\u{D7B0}'..='\u{D7FB}')
}

fn is_mongolian(c: char) -> bool {
    matches!(c, '\u{1820}'..='\u{18AA}')
}

#[cfg(test)]
mod tests;
