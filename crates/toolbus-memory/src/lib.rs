//! An agent's memory: what a session keeps for a while, and what stays.
//!
//! - [`WorkingMemory`] keeps values of sessions by keys, for minutes; [`ProtectResults`] puts
//!   results there that are too long for a model, in chunks, and gives it an index of them.
//! - [`LongTermMemory`], [`Rules`], [`Preferences`] and [`Skills`] stay across sessions.
//! - [`register`] gives models the tools for all of it. They reach it through the registry alone;
//!   the types here are for whoever puts a model's context together.
//!
//! All of it belongs to a principal with an agent ([`MemoryOwner`]), and nobody else reads it. What
//! does not fit is refused with an error that says so; nothing is dropped to make room.

mod arguments;
mod chunker;
mod config;
mod error;
mod fit;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod items;
mod long_term;
mod long_term_tools;
mod long_text;
mod namespace;
mod outline;
mod owner;
mod protect;
mod ranking;
mod rules;
mod skill_tools;
mod skills;
mod summaries;
mod sweep;
mod tables;
mod texts;
mod tools;
mod working;
mod working_tools;

pub use chunker::{Chunk, ContentChunker, end_of_units, utf16_len};
pub use config::{MemoryConfig, RESULT_THRESHOLD_DEFAULT, ResultThreshold};
pub use error::Error;
pub use long_term::{LongTermMemory, MEMORY_BYTES_MAX, Memory};
pub use long_text::{KeptChunk, KeptText, LongText};
pub use namespace::{Namespace, PATH_BYTES_MAX, PATH_SEGMENTS_MAX, Path};
pub use outline::{OutlineEntry, build_outline};
pub use owner::MemoryOwner;
pub use protect::ProtectResults;
pub use rules::{Preferences, RULE_CHARS_MAX, Rules};
pub use skills::{SKILL_BYTES_MAX, SkillSummary, Skills};
pub use summaries::{Summaries, Summarize};
pub use sweep::MemorySweeper;
pub use tables::MIGRATIONS;
pub use tools::{MemoryDeps, guides, register};
pub use working::{Entry, EntryInfo, Filter, Found, LIST_MAX, List, NewEntry, WorkingMemory};
