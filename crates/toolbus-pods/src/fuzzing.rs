//! The parsers of this crate as targets of a fuzzer.

use crate::attach;

/// Reads what a container sends, a message of its connection in a line.
pub fn container_output(bytes: &[u8]) {
    attach::fuzz(bytes.split(|byte| *byte == b'\n'));
}
