//! Shaping: no output leaves larger than a caller can take.

use crate::call::Output;

/// Longest text of an output, in bytes; the rest is cut off, with a note that says how much.
pub(super) const CONTENT_BYTES_MAX: usize = 8 << 20;

/// The output, cut to what a caller can take.
pub(super) fn shape(mut output: Output) -> Output {
    if let Some(content) = &mut output.content
        && content.len() > CONTENT_BYTES_MAX
    {
        let end = content.floor_char_boundary(CONTENT_BYTES_MAX);
        let omitted = content[end..].chars().count();
        content.truncate(end);
        content.push_str(&format!("\n[result truncated — {omitted} chars omitted]"));
    }
    output
}

#[cfg(test)]
mod tests;
