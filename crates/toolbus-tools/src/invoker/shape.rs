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
mod tests {
    use super::*;

    #[test]
    fn a_text_at_the_limit_passes_and_one_above_is_cut_between_characters() {
        let at_limit = "x".repeat(CONTENT_BYTES_MAX);
        assert_eq!(shape(Output::text(&at_limit)), Output::text(&at_limit));
        let above = "x".repeat(CONTENT_BYTES_MAX - 1) + "éé";
        let shaped = shape(Output::text(above)).content.unwrap();
        assert!(shaped.ends_with("x\n[result truncated — 2 chars omitted]"));
    }
}
