//! The parsers of this crate as targets of a fuzzer.

use std::fmt::Debug;

use serde_json::Value;
use toolbus_json::{Limits, from_slice};
use toolbus_wire::message::a2a::AgentTaskState;
use toolbus_wire::{Message, json};

use crate::protocol::{Answered, RemoteCard, read_answered};

pub use crate::http_server::fuzzing::requests;

/// What an answer may have.
const LIMITS: Limits = Limits::of_bytes(64 << 10);

/// Reads what a remote agent answers to a message. Asserts that the result can be told on the bus.
pub fn answers(bytes: &[u8]) {
    let Ok(answer) = from_slice::<Value>(bytes, &LIMITS) else { return };
    if let Some(Answered::Task(task)) = read_answered(answer.clone(), "task") {
        let _ = task.into_remark();
    }

    match read_answered(answer, "task") {
        Some(Answered::Task(task)) => {
            let _ = task.state();
            check_message(&task.into_result(AgentTaskState::Completed, "task"));
        }
        Some(Answered::Message(result)) => check_message(&result),
        None => {}
    }
}

/// Reads the card of a remote agent. Asserts that it can be told on the bus.
pub fn cards(bytes: &[u8]) {
    let Ok(card) = from_slice::<RemoteCard>(bytes, &LIMITS) else { return };
    if let Some(interface) = card.interface() {
        check_message(&card.into_card("agent", &interface));
    }
}

fn check_message<T: Message + PartialEq + Debug>(message: &T) {
    assert_eq!(json::read::<T>(&json::write(message)).as_ref(), Ok(message));
}
