//! The parsers of this crate as targets of a fuzzer.

pub use crate::api::fuzzing::{answers, events, json, refusals};
pub use crate::dialect::fuzzing::schemas;
pub use crate::text_calls::fuzzing::text_calls;
