//! Shaping: no output leaves larger than a caller can take.

use futures_util::future::BoxFuture;
use toolbus_bus::port::BODY_BYTES_MAX;

use super::Invoker;
use crate::call::Output;
use crate::id::CallId;
use crate::scope::Scope;

/// Longest text of an output, in bytes; the rest is cut off, with a note that says how much. What
/// its parts and its value have together beside that, as JSON, is bounded by the same number.
pub(super) const CONTENT_BYTES_MAX: usize = 8 << 20;
/// Most bytes of an output as JSON, text and parts and value: it is sent as one message, which has
/// names, notes and braces of its own.
const OUTPUT_BYTES_MAX: usize = BODY_BYTES_MAX - (64 << 10);

/// A step that changes the output of every call before its caller sees it: it may store what is
/// large, and put a reference in its place.
pub trait Shape: Send + Sync + 'static {
    /// The output as callers see it.
    fn shape<'a>(&'a self, output: Output, of: ShapeContext<'a>) -> BoxFuture<'a, Output>;
}

/// Whose output is shaped.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ShapeContext<'a> {
    /// Who made the call.
    pub scope: &'a Scope,
    /// The call.
    pub call: &'a CallId,
    /// The tool, as it is registered.
    pub tool: &'a str,
    /// Whether its output is a part of what is stored already; see
    /// [`Tool::reads_stored`](crate::Tool::reads_stored).
    pub reads_stored: bool,
}

/// Cuts an output to what a caller can take.
pub(super) struct TruncateOutput;

impl Shape for TruncateOutput {
    fn shape<'a>(&'a self, output: Output, _of: ShapeContext<'a>) -> BoxFuture<'a, Output> {
        Box::pin(std::future::ready(truncate_output(output)))
    }
}

impl Invoker {
    /// Has every step shape the output, in order.
    pub(super) async fn shape(&self, mut output: Output, of: ShapeContext<'_>) -> Output {
        for shape in &self.inner.shapes {
            output = shape.shape(output, of).await;
        }
        output
    }
}

/// The output, cut to what a caller can take. A result in MCP's form came in one message, and goes
/// as it is.
fn truncate_output(mut output: Output) -> Output {
    if let Some(content) = &mut output.content
        && let end = end_of_text(content)
        && end < content.len()
    {
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
    let text = output.content.as_ref().map_or(0, json_bytes);
    let mut left = OUTPUT_BYTES_MAX.saturating_sub(text).min(CONTENT_BYTES_MAX);
    let mut has_room = |bytes: usize| match left.checked_sub(bytes) {
        Some(rest) => {
            left = rest;
            true
        }
        None => false,
    };

    let before = output.blocks.len();
    output.blocks.retain(|block| has_room(json_bytes(block)));
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

/// Where a text is cut: at its end when it is short enough, in bytes and as JSON.
fn end_of_text(text: &str) -> usize {
    let mut written = 0;
    let fits = |byte: &u8| {
        written += escaped_bytes(*byte);
        written <= OUTPUT_BYTES_MAX
    };
    let end = text.bytes().take(CONTENT_BYTES_MAX).take_while(fits).count();
    text.floor_char_boundary(end)
}

/// How many bytes one byte of a text takes in JSON.
fn escaped_bytes(byte: u8) -> usize {
    match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | b'\x08' | b'\x0c' => 2,
        ..0x20 => 6,
        _ => 1,
    }
}

/// How long a value is as JSON, without writing it anywhere.
fn json_bytes(value: &impl serde::Serialize) -> usize {
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
