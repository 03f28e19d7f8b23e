//! Fetching from addresses that models and strangers name.
//!
//! - [`is_public`] and its neighbours say which addresses are those of the public Internet. It is
//!   the one place that does: MCP servers of agents are guarded by the same functions.
//! - [`Fetcher`] makes requests. It connects to public addresses and to what the operator allows
//!   ([`AllowedHost`]), checked where the connection is made and at every redirect, which it
//!   follows itself.
//! - [`FetchResponse`] is read within limits of bytes and time, unpacked here, so that they hold
//!   for what comes out; [`ContentType`] and [`decode_text`] make a text of it.
//!
//! Invariants: no name is connected to at an address that was not checked at that moment; no proxy
//! is used, for it would resolve names by itself; credentials go to the origin that they are for
//! and nowhere else; nothing is read without a limit.

mod address;
mod allowed;
mod charset;
mod content_type;
mod encoding;
mod error;
mod fetcher;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod resolver;
mod response;

pub use address::{
    NotPublic, check_literal, check_resolved, is_metadata, is_metadata_name, is_public,
    lookup_public,
};
pub use allowed::AllowedHost;
pub use charset::decode_text;
pub use content_type::ContentType;
pub use error::{Error, root_cause};
pub use fetcher::{FetchConfig, FetchRequest, Fetcher};
pub use resolver::{ResolveHost, SystemResolver};
pub use response::{Body, BodyLimit, FetchResponse, Oversize};
