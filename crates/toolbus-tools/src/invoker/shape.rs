//! Shaping: no output leaves larger than a caller can take.

use futures_util::future::BoxFuture;
use toolbus_wire::message::tool::ContentBlock;

use super::Invoker;
use crate::call::Output;

/// Longest text of an output, in bytes; the rest is cut off, with a note that says how much. What
/// its parts and its value have together beside that is bounded by the same number.
pub(super) const CONTENT_BYTES_MAX: usize = 8 << 20;

/// A step that changes the output of every call before its caller sees it: it may store what is
/// large, and put a reference in its place.
pub trait Shape: Send + Sync + 'static {
    /// The output as callers see it.
    fn shape(&self, output: Output) -> BoxFuture<'_, Output>;
}

/// Cuts an output to what a caller can take.
pub(super) struct TruncateOutput;

impl Shape for TruncateOutput {
    fn shape(&self, output: Output) -> BoxFuture<'_, Output> {
        Box::pin(std::future::ready(truncate_output(output)))
    }
}

impl Invoker {
    /// Has every step shape the output, in order.
    pub(super) async fn shape(&self, mut output: Output) -> Output {
        for shape in &self.inner.shapes {
            output = shape.shape(output).await;
        }
        output
    }
}

/// The output, cut to what a caller can take.
fn truncate_output(mut output: Output) -> Output {
    if let Some(content) = &mut output.content
        && content.len() > CONTENT_BYTES_MAX
    {
        let end = content.floor_char_boundary(CONTENT_BYTES_MAX);
        let omitted = content[end..].chars().count();
        content.truncate(end);
        content.push_str(&format!("\n[result truncated — {omitted} chars omitted]"));
    }

    drop_oversized_parts(&mut output);
    output
}

/// Parts are kept for as long as there is room, and the value only where there is room for all of
/// it; a note says what is missing.
fn drop_oversized_parts(output: &mut Output) {
    let mut left = CONTENT_BYTES_MAX;
    let mut has_room = |bytes: usize| match left.checked_sub(bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };

    let before = output.blocks.len();
    output.blocks.retain(|block| has_room(bytes_of(block)));
    let omitted = before - output.blocks.len();
    let is_too_large = output.structured.as_ref().is_some_and(|value| !has_room(json_bytes(value)));
    if is_too_large {
        output.structured = None;
    }

    let mut note = String::new();
    if omitted > 0 {
        note.push_str(&format!("\n[result truncated — {omitted} parts omitted]"));
    }
    if is_too_large {
        note.push_str("\n[result truncated — its structured value is omitted]");
    }
    if !note.is_empty() {
        output.content.get_or_insert_default().push_str(&note);
    }
}

fn bytes_of(block: &ContentBlock) -> usize {
    [&block.text, &block.data, &block.mime_type, &block.uri]
        .into_iter()
        .flatten()
        .map(String::len)
        .sum()
}

/// How long a value is as JSON, without writing it anywhere.
fn json_bytes(value: &serde_json::Value) -> usize {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

#[cfg(test)]
mod tests;
