//! What has changed between two definitions, in lines that a person can read.
//!
//! A line names the place as a path of members, and what stood and stands there, shortened to
//! where the two begin to differ. Lines quote text of servers, as JSON strings, so that no line
//! can pretend to be another.

use serde_json::Value;

use crate::eraser::shorten_text;

/// Most lines of one difference.
const LINES_MAX: usize = 20;
/// Longest value that a line quotes, and longest name in a path, in bytes.
const VALUE_BYTES_MAX: usize = 120;
const NAME_BYTES_MAX: usize = 60;
/// How much of what two long texts have in common is shown before they differ, in bytes.
const LEAD_BYTES: usize = 24;

/// What the members are called whose names are the server's own words.
const OTHER_MEMBERS: &str = "other members";

/// Describes the difference of two definitions in at least one line. Texts that are not JSON differ
/// as a whole.
pub(crate) fn describe_difference(old: &str, new: &str) -> Vec<String> {
    let read = |text: &str| toolbus_json::from_trusted(text).unwrap_or_else(|_| Value::from(text));
    let mut lines = DifferenceLines { lines: Vec::new(), omitted: 0 };
    compare_values("", &read(old), &read(new), &mut lines);
    let mut described = lines.lines;

    if lines.omitted > 0 {
        described.push(format!("and {} more", lines.omitted));
    }

    if described.is_empty() {
        described.push("the order of its members".to_owned());
    }

    described
}

/// The members that have changed, without a word of the server's: for readers who might obey one.
pub(crate) fn changed_members(old: &str, new: &str) -> Vec<&'static str> {
    const MEMBERS: [&str; 9] = [
        "name",
        "title",
        "description",
        "instructions",
        "arguments",
        "inputSchema",
        "outputSchema",
        "annotations",
        "websiteUrl",
    ];
    let read = |text: &str| toolbus_json::from_trusted::<Value>(text).unwrap_or_default();
    let (old, new) = (read(old), read(new));
    let mut changed: Vec<_> =
        MEMBERS.into_iter().filter(|member| old.get(member) != new.get(member)).collect();

    let others = |definition: &Value| {
        let mut others = definition.as_object().cloned().unwrap_or_default();
        others.retain(|name, _| !MEMBERS.contains(&name.as_str()));
        others
    };
    if others(&old) != others(&new) {
        changed.push(OTHER_MEMBERS);
    }
    changed
}

struct DifferenceLines {
    lines: Vec<String>,
    omitted: usize,
}

impl DifferenceLines {
    fn push(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < LINES_MAX {
            self.lines.push(line());
        } else {
            self.omitted += 1;
        }
    }
}

fn compare_values(path: &str, old: &Value, new: &Value, lines: &mut DifferenceLines) {
    match (old, new) {
        (old, new) if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            for (name, old) in before {
                match after.get(name) {
                    Some(new) => compare_values(&member_path(path, name), old, new, lines),
                    None => lines.push(|| {
                        format!("{} is gone: {}", member_path(path, name), quote_value(old, 0))
                    }),
                }
            }
            for (name, new) in after.iter().filter(|(name, _)| !before.contains_key(*name)) {
                lines.push(|| {
                    format!("{} is new: {}", member_path(path, name), quote_value(new, 0))
                });
            }
        }

        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (old, new)) in before.iter().zip(after).enumerate() {
                compare_values(&format!("{path}[{index}]"), old, new, lines);
            }
        }

        (old, new) => lines.push(|| {
            let same = common_prefix_length(old, new);
            format!("{path}: {} → {}", quote_value(old, same), quote_value(new, same))
        }),
    }
}

fn member_path(path: &str, name: &str) -> String {
    let plain =
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_$-".contains(c));
    let name = shorten_text(name, NAME_BYTES_MAX);
    match (path, plain) {
        ("", true) => name.into_owned(),
        (path, true) => format!("{path}.{name}"),
        (path, false) => format!("{path}[{}]", Value::from(name)),
    }
}

/// The length of what two texts have in common and need not show, in bytes.
fn common_prefix_length(old: &Value, new: &Value) -> usize {
    let (Value::String(old), Value::String(new)) = (old, new) else { return 0 };
    let same = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
    old.floor_char_boundary(same.saturating_sub(LEAD_BYTES))
}

/// The value as JSON, without the first `skip` bytes of a text, and not too long.
fn quote_value(value: &Value, skip: usize) -> String {
    match value {
        Value::String(text) => {
            let lead = if skip > 0 { "…" } else { "" };
            let text = shorten_text(text.get(skip..).unwrap_or_default(), VALUE_BYTES_MAX);
            Value::from(format!("{lead}{text}")).to_string()
        }
        value => shorten_text(&value.to_string(), VALUE_BYTES_MAX).into_owned(),
    }
}

#[cfg(test)]
mod tests;
