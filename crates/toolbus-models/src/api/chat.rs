//! OpenAI's chat completions, and what imitates them: requests, and the stream of an answer.

mod request;
mod stream;

pub(crate) use request::{ChatRequest, write_body};
pub(crate) use stream::ChatStream;

use crate::dialect::Dialect;

/// The dialect of its definitions of tools.
pub(crate) const DIALECT: Dialect = Dialect::OpenAiChat;

/// Whose API it is. They take the same requests but for a few members, and some refuse a member
/// that they do not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChatFlavour {
    /// OpenAI's own.
    OpenAi,
    /// OpenRouter's.
    OpenRouter,
    /// Another one: what was there from the beginning, and no more.
    Compatible,
}
