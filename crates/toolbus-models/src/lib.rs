//! Models and their APIs.
//!
//! A [`Model`] is asked with a [`ModelRequest`] and answers with a [`Completion`], of which it
//! tells while it is written. Sessions are made of [`Message`]s, which know nothing of any API.
//! [`dialect`] is what an API is told of tools, and the way back from a model's call.
//!
//! What goes over the network is behind the feature `http`: an engine without I/O uses the rest.

#[cfg(feature = "http")]
mod api;
mod call_arguments;
pub mod completion;
#[cfg(feature = "http")]
pub mod connect;
pub mod dialect;
#[cfg(feature = "http")]
pub mod doctor;
pub mod error;
pub mod fallback;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod json_text;
pub mod message;
#[cfg(feature = "http")]
pub mod metrics;
pub mod model;
pub mod models;
pub mod outside;
pub mod request;
pub mod settings;
pub mod text_calls;

pub use completion::{Completion, StopReason, TokenUsage};
#[cfg(feature = "http")]
pub use connect::{ConnectError, ModelDeps};
pub use dialect::{Deferral, Dialect, Listing, LoweredTool, LoweredTools, lower};
pub use error::{ErrorKind, ModelError, TimedPhase};
pub use fallback::{FallbackModel, RetryLimits};
pub use message::{
    AssistantMessage, AssistantPart, CallArguments, Message, ModelCall, OpaqueReasoning, Reasoning,
    ReasoningForm, ToolResult,
};
pub use model::{Model, ModelEvent, OnEvent};
pub use models::Models;
pub use outside::{NOTICES_TOOL, OutsideText, outside_messages};
pub use request::{ModelRequest, ToolList};
pub use settings::{ModelSettings, Tier};
pub use text_calls::TextCallModel;
