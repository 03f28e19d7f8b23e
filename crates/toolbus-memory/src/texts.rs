//! Texts: what is checked of them before they are kept, and how they are shown.

use crate::Error;
use crate::chunker::end_of_units;

/// Longest category, in characters.
const CATEGORY_CHARS_MAX: usize = 100;
/// Longest tag, in characters.
const TAG_CHARS_MAX: usize = 64;
/// Most tags.
const TAGS_MAX: usize = 20;
/// How much of a value is shown where it is found, in characters.
const PREVIEW_CHARS: usize = 120;

const MINUTE_MS: i64 = 60 * 1000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// A text of one line: space of any kind becomes one blank, and there is something in it.
pub(crate) fn parse_line(
    what: &'static str,
    text: &str,
    chars_max: usize,
) -> Result<String, Error> {
    let text = single_line(text);
    let error = |reason: String| Err(Error::Text { what, reason });
    match text.chars().count() {
        0 => error("it is empty".to_owned()),
        chars if chars > chars_max => {
            error(format!("it has {chars} characters, and may have {chars_max}"))
        }
        _ if text.chars().any(char::is_control) => error("it has a control character".to_owned()),
        _ => Ok(text),
    }
}

/// A category; none where nothing is written.
pub(crate) fn parse_category(text: Option<&str>) -> Result<Option<String>, Error> {
    let text = text.filter(|text| !text.trim().is_empty());
    text.map(|text| parse_line("category", text, CATEGORY_CHARS_MAX)).transpose()
}

/// Tags, with commas between them.
pub(crate) fn parse_tags(text: Option<&str>) -> Result<Vec<String>, Error> {
    let written = text.into_iter().flat_map(|text| text.split(','));
    let written = written.filter(|tag| !tag.trim().is_empty());
    let mut tags: Vec<String> = Vec::new();
    for tag in written {
        let tag = parse_line("tag", tag, TAG_CHARS_MAX)?;
        if !tags.iter().any(|known| eq_ignore_case(known, &tag)) {
            tags.push(tag);
        }
        if tags.len() > TAGS_MAX {
            let reason = format!("there are more than {TAGS_MAX}");
            return Err(Error::Text { what: "tags", reason });
        }
    }
    Ok(tags)
}

/// The text where it has something in it, and is not too large to be kept.
pub(crate) fn check_content(
    what: &'static str,
    text: &str,
    bytes_max: usize,
) -> Result<String, Error> {
    if text.trim().is_empty() {
        return Err(Error::Text { what, reason: "it is empty".to_owned() });
    }
    if text.len() > bytes_max {
        let (bytes, max) = (text.len() as u64, bytes_max as u64);
        return Err(Error::TooLarge { what, bytes, max });
    }
    Ok(text.to_owned())
}

pub(crate) fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// In lower case, each character by itself.
pub(crate) fn to_lower(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// Whether two texts are the same but for their case.
pub(crate) fn eq_ignore_case(one: &str, other: &str) -> bool {
    one.chars().flat_map(char::to_lowercase).eq(other.chars().flat_map(char::to_lowercase))
}

/// The beginning of a value in one line.
pub(crate) fn make_preview(text: &str) -> String {
    // A line of it has no more space than the text, so a part of the text is enough.
    let part = &text[..end_of_units(text, 64 * PREVIEW_CHARS)];
    truncate_chars(&single_line(part), PREVIEW_CHARS)
}

pub(crate) fn truncate_chars(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How long something is still kept, such as `4m59s` or `42s`.
pub(crate) fn format_time_left(ms: i64) -> String {
    let seconds = ms.max(0) / 1000;
    match seconds / 60 {
        0 => format!("{seconds}s"),
        minutes => format!("{minutes}m{}s", seconds % 60),
    }
}

/// How long ago something was.
pub(crate) fn format_age(ms: i64) -> String {
    let (unit_ms, unit) = match ms {
        _ if ms < MINUTE_MS => return "just now".to_owned(),
        _ if ms < HOUR_MS => (MINUTE_MS, "minute"),
        _ if ms < DAY_MS => (HOUR_MS, "hour"),
        _ => (DAY_MS, "day"),
    };
    let number = ms / unit_ms;
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

/// A number with a blank between its thousands.
pub(crate) fn group_thousands(number: usize, separator: char) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(separator);
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
