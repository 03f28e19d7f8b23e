//! Models and their APIs.
//!
//! For now that is what an API is told of tools: see [`dialect`]. It makes no requests.

pub mod dialect;

pub use dialect::{Deferral, Dialect, Listing, LoweredTool, LoweredTools, lower};
