//! The parsers of this crate as targets of a fuzzer.

use crate::search_gateway::protocol;
use crate::terminal_text::{clean, is_printable};

/// Cleans a text for a terminal. What is left is printable, and clean.
pub fn terminal_text(bytes: &[u8]) {
    let cleaned = clean(&String::from_utf8_lossy(bytes));
    assert!(cleaned.chars().all(is_printable), "{cleaned:?}");
    assert_eq!(clean(&cleaned), cleaned);
}

/// Reads a message of a client of the search gateway, and answers it in one line of ASCII.
pub fn search_gateway_message(bytes: &[u8]) {
    protocol::fuzz(bytes);
}
