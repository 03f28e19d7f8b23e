//! Texts of strangers as words: what cannot be seen is removed, identifiers are split, words are
//! brought to their stems. Everything is cut at limits first.

use toolbus_tools::hidden_text::{self, HiddenKind};
use unicode_normalization::UnicodeNormalization as _;

/// Longest word, in characters; the rest of a longer one is not looked at.
const WORD_CHARS_MAX: usize = 40;

/// Words of English that say nothing about what a tool does.
const STOP_WORDS: &[&str] = &[
    "a", "about", "all", "am", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by",
    "can", "could", "d", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in",
    "into", "is", "it", "its", "let", "ll", "me", "my", "need", "of", "on", "or", "our", "please",
    "s", "should", "so", "some", "t", "that", "the", "their", "them", "then", "there", "these",
    "they", "this", "to", "tool", "us", "use", "want", "was", "we", "were", "what", "when",
    "which", "who", "will", "with", "would", "you", "your",
];

/// A text without what a person cannot see but line breaks, in one spelling of its characters
/// (NFKC), of at most so many bytes.
pub(super) fn clean(text: &str, bytes_max: usize) -> String {
    let cut = &text[..text.floor_char_boundary(bytes_max)];
    let visible = cut.chars().filter(|c| !is_hidden(*c));
    let spaced = visible.map(|c| if c.is_control() && c != '\n' { ' ' } else { c });
    let mut clean = String::with_capacity(cut.len());

    for c in spaced.nfkc() {
        // Single characters become up to eighteen.
        if clean.len() + c.len_utf8() > bytes_max {
            break;
        }
        clean.push(c);
    }
    clean
}

/// Returns true for zero-width and bidirectional characters, tags and variation selectors.
/// Separators and control characters are not among them: they become spaces.
fn is_hidden(c: char) -> bool {
    match hidden_text::invisible_kind(c) {
        None | Some(HiddenKind::PrivateUse) => false,
        Some(HiddenKind::Control) => !c.is_control() && !c.is_whitespace(),
        Some(_) => true,
    }
}

/// Returns whether a lower-case word says nothing about what a tool does, such as `the`.
#[must_use]
pub fn is_stop_word(word: &str) -> bool {
    STOP_WORDS.binary_search(&word).is_ok()
}

/// The parts of all identifiers and words of a clean text.
pub(super) fn parts(text: &str) -> impl Iterator<Item = &str> {
    let runs = text.split(|c: char| !c.is_alphanumeric());
    runs.flat_map(|run| {
        let mut rest = run;
        std::iter::from_fn(move || {
            let (part, after) = rest.split_at(part_length(rest));
            rest = after;
            (!part.is_empty()).then_some(part)
        })
    })
}

/// Calls `take` with each word of a clean text: its parts (3c.8), and what has several parts
/// without a break as a whole too, so that `GitHub` is found by `github`. Stops when `take` says
/// so.
pub(super) fn for_each_word(text: &str, mut take: impl FnMut(&str) -> bool) {
    let mut lower = String::new();
    for run in text.split(|c: char| !c.is_alphanumeric()).filter(|run| !run.is_empty()) {
        let mut parts = 0;
        let mut rest = run;
        while !rest.is_empty() {
            let (part, after) = rest.split_at(part_length(rest));
            rest = after;
            parts += 1;
            lower_into(&mut lower, part);
            if !take(&lower) {
                return;
            }
        }

        if parts > 1 && !is_ideographic(run.chars().next().unwrap_or_default()) {
            lower_into(&mut lower, run);
            if !take(&lower) {
                return;
            }
        }
    }
}

fn lower_into(lower: &mut String, word: &str) {
    lower.clear();
    lower.extend(word.chars().take(WORD_CHARS_MAX).flat_map(char::to_lowercase));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Ideograph,
}

fn kind(c: char) -> Kind {
    if is_ideographic(c) {
        Kind::Ideograph
    } else if c.is_numeric() {
        Kind::Digit
    } else if c.is_uppercase() {
        Kind::Upper
    } else {
        Kind::Lower
    }
}

/// Scripts that are written without spaces: each character is a word.
fn is_ideographic(c: char) -> bool {
    matches!(u32::from(c), 0x0E00..=0x0EFF | 0x3040..=0x30FF | 0x3400..=0x9FFF | 0x20000..=0x3FFFF)
}

/// How many bytes the first part of a run has: up to a change of case or between letters and
/// digits, where the last capital of several belongs to what follows (`HTTPServer`).
fn part_length(run: &str) -> usize {
    let mut chars = run.char_indices().peekable();
    let Some((_, first)) = chars.next() else { return 0 };
    let mut before = kind(first);
    if before == Kind::Ideograph {
        return first.len_utf8();
    }

    while let Some((at, c)) = chars.next() {
        let now = kind(c);
        let next = chars.peek().map(|(_, next)| kind(*next));
        let ends = match (before, now) {
            (Kind::Upper, Kind::Upper) => next == Some(Kind::Lower),
            (Kind::Upper, Kind::Lower) => false,
            (before, now) => before != now,
        };
        if ends {
            return at;
        }
        before = now;
    }
    run.len()
}

/// A word without the endings of English, cheaply: `creating`, `created` and `creates` are one.
pub(super) fn stem(word: &str) -> &str {
    if word.len() < 4 || !word.is_ascii() {
        return word;
    }
    let mut word = match word.strip_suffix('s') {
        Some(rest) if rest.ends_with("sse") || rest.ends_with("xe") => &rest[..rest.len() - 1],
        Some(rest) if rest.ends_with("ie") => &rest[..rest.len() - 1],
        Some(rest) if rest.ends_with(['s', 'u', 'i']) => word,
        Some(rest) => rest,
        None => word,
    };

    for ending in ["ing", "ed", "er", "or"] {
        if let Some(rest) = word.strip_suffix(ending)
            && rest.len() >= 3
            && rest.contains(['a', 'e', 'i', 'o', 'u', 'y'])
        {
            let bytes = rest.as_bytes();
            let is_doubled = bytes[bytes.len() - 1] == bytes[bytes.len() - 2];
            let keeps = matches!(bytes[bytes.len() - 1], b'l' | b's' | b'z');
            word = if is_doubled && !keeps { &rest[..rest.len() - 1] } else { rest };
            break;
        }
    }

    match word.strip_suffix(['e', 'y', 'i']) {
        Some(rest) if rest.len() >= 3 => rest,
        _ => word,
    }
}
