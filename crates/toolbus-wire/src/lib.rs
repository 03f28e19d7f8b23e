//! The wire contract: what the processes of a fleet say to each other, byte for byte.
//!
//! This crate owns the message bodies, the names of topics, queues and headers, the error codes,
//! and the two codecs between a message and what AMQP carries: [`frame`] for properties and
//! headers, [`json`] for bodies. It knows nothing of brokers and sockets, and depends on no async
//! runtime.
//!
//! The names are those of the C# project `RockBot`, whose processes may share a broker with ours.

#[macro_use]
mod text_enum;

pub mod clock;
pub mod envelope;
pub mod error_code;
pub mod execution;
#[cfg(feature = "fixtures")]
pub mod fixtures;
pub mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod header;
pub mod json;
pub mod message;
pub mod name;
pub mod queue;
pub mod topic;

pub use envelope::{Envelope, TraceContext};
pub use error_code::ErrorCode;
pub use execution::Execution;
pub use message::Message;
pub use name::{AgentName, InstanceId};
pub use topic::Topic;
