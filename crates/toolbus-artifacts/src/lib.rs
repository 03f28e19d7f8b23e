//! Artifacts: large values that are kept outside a conversation, and passed by reference.
//!
//! What a call gives back that is too large for its caller is stored, and the caller gets a preview
//! and a reference ([`OffloadOutput`]); a reference among the arguments of a later call is replaced
//! by what it stands for ([`ResolveReferences`]), before it is known what a call is about.
//!
//! - An artifact belongs to the session of the call that made it, and nobody else reads it.
//! - It is named by its owner and its content, so the same value is stored once, and a reference
//!   never comes to mean something else.
//! - Bytes are in a folder or an S3 bucket, rows in the store. They are streamed both ways, and
//!   checked against their digest when they are read as a whole.
//! - It is kept for a time, and for as long as somebody pins it; what a session keeps is bounded.

mod artifact_store;
mod config;
mod error;
mod media;
mod offload;
mod owner;
mod place;
mod preview;
mod reading;
mod resolve;
mod sweep;
mod tables;
pub mod tools;
mod writing;

pub use artifact_store::{Artifact, Artifacts, LIST_MAX};
pub use config::ArtifactConfig;
pub use error::Error;
pub use media::{file_ending, media_type_of};
pub use offload::{OffloadOutput, describe};
pub use owner::ArtifactOwner;
pub use place::{Place, PlaceError};
pub use resolve::ResolveReferences;
pub use sweep::Sweeper;
pub use tables::MIGRATIONS;
pub use writing::{ArtifactWriter, NewArtifact};
