//! What an engine and its worker say to each other.
//!
//! The worker has the value as standard input, and a socket as standard error: there the question
//! comes in, as a length and JSON, so that no list of processes shows it, and what a panic or an
//! allocator writes goes out. Its [`Reply`] is standard output, as JSON.

use serde::{Deserialize, Serialize};

use crate::{Answer, Question};

/// Longest request: a program with every byte escaped, and what is around it.
pub(crate) const REQUEST_BYTES_MAX: usize = 1 << 20;

/// What a worker is told.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) question: Question,
    /// Most bytes of the answer's text.
    pub(crate) answer_bytes: usize,
    /// What the worker may have above what it starts with.
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_seconds: u64,
    /// The id of the process that asks.
    pub(crate) caller: u32,
    pub(crate) media_type: Option<String>,
    /// The size of the value, if that is known.
    pub(crate) size: Option<u64>,
}

/// What a worker says before it ends.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Answer(Answer),
    Invalid(String),
    OutOfMemory,
    Failed(String),
}

/// The request as it goes over the socket.
pub(crate) fn frame(request: &Request) -> serde_json::Result<Vec<u8>> {
    let body = serde_json::to_vec(request)?;
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut frame = length.to_le_bytes().to_vec();
    frame.extend(body);
    Ok(frame)
}
