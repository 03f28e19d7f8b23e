//! Models behind an API: OpenAI's chat completions, and what imitates them, and Anthropic's
//! messages.
//!
//! A request is one POST whose answer is a stream of server-sent events. Everything that comes is
//! bounded: an event, the whole answer, the number of calls, the time to connect, between two
//! events, and of it all. The connection is closed when the future is dropped.

mod answer;
mod anthropic;
mod arguments;
mod chat;
mod client;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
mod key;
mod model_list;
mod refusal;
mod retry_after;
mod sse;
mod stream;
mod wire_ids;

pub(crate) use chat::ChatFlavour;
pub(crate) use client::{ApiModel, HttpClients, Protocol};
pub(crate) use key::KeySource;
pub(crate) use model_list::{ModelList, request_models};
