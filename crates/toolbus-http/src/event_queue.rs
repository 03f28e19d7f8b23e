//! What a client has yet to be told: bounded in bytes, and never waited for.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::turn_message::TurnMessage;

/// What may wait for a client that reads slowly, in bytes.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Messages on their way to one client. Text that waits is put together, so that a client that is
/// behind catches up.
#[derive(Default)]
pub(crate) struct EventQueue {
    waiting: Mutex<Waiting>,
    changed: Notify,
}

#[derive(Default)]
struct Waiting {
    messages: VecDeque<TurnMessage>,
    bytes: usize,
    is_closed: bool,
}

/// The client has not read for too long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooSlow;

impl EventQueue {
    pub(crate) fn push(&self, message: TurnMessage) -> Result<(), TooSlow> {
        let mut waiting = self.waiting.lock();
        let bytes = message.bytes();
        if waiting.bytes + bytes > WAITING_BYTES_MAX {
            waiting.is_closed = true;
            self.changed.notify_one();
            return Err(TooSlow);
        }
        waiting.bytes += bytes;
        let rest = match waiting.messages.back_mut() {
            Some(last) => last.append(message),
            None => Some(message),
        };
        waiting.messages.extend(rest);
        self.changed.notify_one();
        Ok(())
    }

    /// Nothing more comes.
    pub(crate) fn close(&self) {
        self.waiting.lock().is_closed = true;
        self.changed.notify_one();
    }

    /// The next message; `None` at the end. For one reader.
    pub(crate) async fn next(&self) -> Option<TurnMessage> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                if let Some(message) = waiting.messages.pop_front() {
                    waiting.bytes = waiting.messages.iter().map(TurnMessage::bytes).sum();
                    return Some(message);
                }
                if waiting.is_closed {
                    return None;
                }
            }
            self.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests;
