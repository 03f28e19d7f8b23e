//! Marks that a model could take for the structure of its context: marks of our fences, and tokens
//! and role markers of chat templates. Each is broken by one visible character.

use std::borrow::Cow;

/// Inserted into a mark to break it.
pub(super) const BREAK: char = '·';

/// Maximum length of the name of a token, in characters.
const TOKEN_CHARS_MAX: usize = 64;
/// Words after `<<` that begin or end a fence, or a system prompt of Llama 2.
const FENCES: [&str; 3] = ["outside", "end", "sys"];
/// Names of tokens between plain `<` and `>`.
const TAGS: [&str; 12] = [
    "s",
    "bos",
    "eos",
    "pad",
    "unk",
    "start_of_turn",
    "end_of_turn",
    "tool_call",
    "tool_calls",
    "tool_response",
    "function_calls",
    "function_results",
];
/// Names of tokens in brackets.
const BRACKETED: [&str; 6] =
    ["INST", "SYSTEM_PROMPT", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS", "gMASK"];
/// Names of roles that follow an empty line.
const ROLES: [&str; 2] = ["Human", "Assistant"];

/// Returns the text with its marks broken.
pub(super) fn break_marks(text: &str) -> Cow<'_, str> {
    let mut broken = String::new();
    let mut copied = 0;
    for (at, _) in text.match_indices(['<', '[', 'H', 'A']) {
        if let Some(offset) = mark_at(text, at) {
            broken.push_str(&text[copied..at + offset]);
            broken.push(BREAK);
            copied = at + offset;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }

    broken.push_str(&text[copied..]);
    Cow::Owned(broken)
}

/// Returns the offset at which a mark that starts here is broken, in bytes from its start.
fn mark_at(text: &str, at: usize) -> Option<usize> {
    let (before, rest) = text.split_at(at);
    match rest.as_bytes().first()? {
        b'<' => (is_fence(rest) || is_token(rest)).then_some(1),
        b'[' => is_bracketed(rest).then_some(1),
        _ => role_length(before, rest),
    }
}

/// Recognizes `<<end `, in any case and with spaces or a slash.
fn is_fence(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("<<") else { return false };
    let rest = rest.trim_start_matches([' ', '\t', '/']);
    FENCES.iter().any(|name| {
        let word = rest.get(..name.len());
        let goes_on = |c: char| c.is_alphanumeric() || c == '_';
        word.is_some_and(|word| word.eq_ignore_ascii_case(name))
            && !rest[name.len()..].starts_with(goes_on)
    })
}

/// Recognizes `<|im_start|>`, `<|turn>`, `<turn|>`, `</s>` and the like.
fn is_token(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('<') else { return false };
    let (rest, begins_with_bar) = strip_bar(rest);
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    let mut chars = rest.char_indices().take(TOKEN_CHARS_MAX + 1);
    let Some((end, _)) = chars.find(|(_, c)| !is_of_name(*c)) else { return false };

    let (name, rest) = rest.split_at(end);
    let (rest, ends_with_bar) = strip_bar(rest);
    let is_known = || TAGS.iter().any(|tag| name.eq_ignore_ascii_case(tag));
    !name.is_empty() && rest.starts_with('>') && (begins_with_bar || ends_with_bar || is_known())
}

/// Strips the bar of a token, which is ASCII or, for DeepSeek, full-width.
fn strip_bar(text: &str) -> (&str, bool) {
    match text.strip_prefix(['|', '｜']) {
        Some(rest) => (rest, true),
        None => (text, false),
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '▁')
}

/// Recognizes `[INST]`, `[/INST]` and the like.
fn is_bracketed(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('[') else { return false };
    let rest = rest.strip_prefix('/').unwrap_or(rest);
    BRACKETED
        .iter()
        .any(|name| rest.strip_prefix(name).is_some_and(|behind| behind.starts_with(']')))
}

/// Returns the length of a role name that follows an empty line or the beginning of the text.
fn role_length(before: &str, text: &str) -> Option<usize> {
    let is_alone = before.is_empty() || before.ends_with("\n\n") || before.ends_with("\n\r\n");
    let is_role =
        |name: &&&str| text.strip_prefix(**name).is_some_and(|behind| behind.starts_with(':'));
    let name = ROLES.iter().find(is_role).filter(|_| is_alone)?;
    Some(name.len())
}
