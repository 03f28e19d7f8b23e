//! Models that turn texts into vectors, behind the port [`Embed`](toolbus_search::Embed).
//!
//! - [`StaticModel`] and [`TransformerModel`] run in the process. They need the feature `local`.
//! - [`EmbeddingSettings`] select one of them or an endpoint with `/embeddings` of OpenAI's API.
//!
//! Invariants: files are read up to fixed limits and checked before use; the key of an endpoint is
//! in no error.

#[cfg(all(feature = "fuzzing", feature = "local"))]
pub mod fuzzing;
#[cfg(feature = "local")]
mod local;
mod settings;

#[cfg(feature = "local")]
pub use local::{StaticModel, TransformerModel};
pub use settings::EmbeddingSettings;
