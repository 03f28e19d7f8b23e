//! The transports to a server, all behind rmcp's transport port: a child process, HTTP, and older
//! HTTP.
//!
//! A transport carries messages and nothing else: it neither retries nor knows what a tool is.
//! Everything that a server can do to it is bounded here: lines, waits for a write, its stderr, its
//! processes.

use std::borrow::Cow;

use rmcp::model::ErrorData;
use toolbus_json::Limits;

use stdio::{NO_MESSAGE, TOO_MANY_VALUES, too_long_text};

mod batch;
mod bounded_lines;
pub(crate) mod child_environment;
pub(crate) mod environment_file;
#[cfg(test)]
pub(crate) mod fuzz;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod http_post;
pub(crate) mod intercept;
pub(crate) mod older_sse;
pub(crate) mod process;
mod rate_window;
pub(crate) mod requested_pause;
pub(crate) mod sandbox;
pub(crate) mod shield;
mod sse_events;
pub(crate) mod stdio;
mod stream_watch;
pub(crate) mod streamable_http;

/// Longest message of a server, in bytes: a line on stdout, a JSON body, an event of a stream.
pub const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Most values in a message that is read into types: each takes up to a hundred bytes of memory.
const MESSAGE_VALUES_MAX: usize = 512 << 10;
/// What a message may have that is read into types.
pub(crate) const MESSAGE_LIMITS: Limits =
    Limits::of_bytes(MESSAGE_BYTES_MAX).with_values(MESSAGE_VALUES_MAX);
/// What a message may have whose parts are kept as they were written: they take their text in
/// memory, however many values and levels are in it.
const PARTS_LIMITS: Limits = MESSAGE_LIMITS.with_values(usize::MAX).with_depth(usize::MAX);

/// The data of errors that a transport puts in the place of a server's answer.
const REPLACED_ANSWER: &str = "toolbus: the answer cannot be used";

/// An error in the place of an answer that cannot be used, because of what the server has done.
fn unusable_answer(what: impl Into<Cow<'static, str>>) -> ErrorData {
    ErrorData::internal_error(what, Some(REPLACED_ANSWER.into()))
}

const HOLDS_CREDENTIAL: &str = "gave an answer that holds a credential where there may be none";

/// Whether a transport has put this error in the place of an answer that cannot be used. Its text
/// is then what the server has done. A server that sends such an error itself can say nothing else
/// with it.
pub(crate) fn is_replaced_answer(error: &ErrorData) -> bool {
    let is_marked = error.data.as_ref().is_some_and(|data| data == REPLACED_ANSWER);
    is_marked && is_replaced_text(&error.message)
}

fn is_replaced_text(text: &str) -> bool {
    let length = text.strip_prefix("gave an answer of ").and_then(|rest| rest.split(' ').next());
    let length = length.and_then(|bytes| bytes.parse().ok());
    [NO_MESSAGE, TOO_MANY_VALUES, HOLDS_CREDENTIAL].contains(&text)
        || length.is_some_and(|bytes| text == too_long_text(bytes))
}
