//! What the end of a worker means.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::process::Signal;
use toolbus_json::Limits;

use super::{ANSWER_BYTES_MAX, REPLY_BYTES_AROUND};
use crate::protocol::Reply;
use crate::{Answer, Error};

/// A reply: one text with every byte escaped, and what is around it.
const REPLY_LIMITS: Limits =
    Limits::of_bytes(ANSWER_BYTES_MAX * 6 + REPLY_BYTES_AROUND).with_values(4_096);
/// Most characters of a worker's last words in an error.
const MESSAGE_CHARS_MAX: usize = 300;
/// How Rust says that there is no memory, before it aborts.
const ALLOCATION_FAILED: &str = "memory allocation of";
/// How it says that something is larger than memory can be.
const CAPACITY_OVERFLOW: &str = "capacity overflow";
/// How it says that a thread's stack is full, before it aborts.
const STACK_OVERFLOWED: &str = "has overflowed its stack";

/// How a worker ended.
pub(super) struct Ending {
    pub(super) status: ExitStatus,
    /// Its standard output.
    pub(super) reply: Vec<u8>,
    /// Its standard error.
    pub(super) messages: Vec<u8>,
}

impl Ending {
    pub(super) fn into_answer(self, late: impl Fn() -> Error) -> Result<Answer, Error> {
        if self.status.success() {
            let reply = toolbus_json::from_slice(&self.reply, &REPLY_LIMITS);
            return match reply.map_err(|error| Error::failed(format!("its reply: {error}")))? {
                Reply::Answer(answer) => Ok(answer),
                Reply::Invalid(message) => Err(Error::Invalid { message }),
                Reply::OutOfMemory => Err(Error::OutOfMemory),
                Reply::Failed(message) => Err(Error::failed(message)),
            };
        }

        let messages = String::from_utf8_lossy(&self.messages);
        if messages.contains(ALLOCATION_FAILED) || messages.contains(CAPACITY_OVERFLOW) {
            return Err(Error::OutOfMemory);
        }
        if messages.contains(STACK_OVERFLOWED) {
            return Err(Error::invalid("the question recurses too deeply"));
        }
        if self.status.signal() == Some(Signal::XCPU.as_raw()) {
            return Err(late());
        }

        let last_words: String =
            messages.chars().filter(|char| !char.is_control()).take(MESSAGE_CHARS_MAX).collect();
        Err(Error::failed(format!("{}: {last_words}", self.status)))
    }
}
