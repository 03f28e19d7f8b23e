//! Search: texts ranked by BM25 as RockBot ranks them, and the search over services.
//!
//! - [`Bm25Index`] is built once and queried often; [`rank`] ranks texts that are searched once.
//!   Both give the same order and the same scores.
//! - [`KnownServices`] are the MCP servers and agents that an agent knows. Whoever knows them
//!   replaces the list; the tool `search_known_services` ([`register`]) and the hint of a turn
//!   ([`KnownServices::hint`]) read it.
//!
//! - A [`ToolIndex`] holds tools, and finds them by what they are for: by words, and with a model
//!   ([`Embed`]) by meaning.
//!
//! Nothing here knows where services or texts come from.

mod bm25;
mod embed;
mod services;
mod tool;
mod tool_index;

pub use bm25::{Bm25Index, QUERY_BYTES_MAX, QUERY_TERMS_MAX, Ranked, rank};
pub use embed::{BATCH_TEXTS_MAX, Embed, EmbedError};
pub use services::{Ability, KnownServices, SERVICES_MAX, Service, ServiceIndex, ServiceKind};
pub use tool::{NAME, guide, register};
pub use tool_index::{
    Candidate, Candidates, DIMENSIONS_MAX, Embedding, EmbeddingConfig, FITTING_SIMILARITY,
    STEPS_MAX, TOOLS_MAX, ToolDocument, ToolIndex, is_stop_word, split_task,
};
