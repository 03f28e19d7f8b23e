//! The parsers of this crate as targets of a fuzzer.

pub use crate::frame_filter::fuzzing::{payloads, stream};
