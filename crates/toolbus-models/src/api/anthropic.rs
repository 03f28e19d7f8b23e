//! Anthropic's messages: requests, and the stream of an answer.

mod request;
mod stream;

pub(crate) use request::{AnthropicRequest, write_body};
pub(crate) use stream::AnthropicStream;

use crate::dialect::Dialect;

/// The dialect of its definitions of tools.
pub(crate) const DIALECT: Dialect = Dialect::Anthropic;

/// The version of the API, as its header has it.
pub(crate) const VERSION: &str = "2023-06-01";

/// Most tokens of an answer where nobody says: the API wants to be told. Every model that it still
/// serves takes as many.
pub(crate) const OUTPUT_TOKENS: u32 = 16_384;
