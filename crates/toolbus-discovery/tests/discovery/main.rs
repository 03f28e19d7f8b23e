//! Discovery as callers see it: over a registry, an index and calls of tools, and on both
//! databases.

mod following;
mod learning;
mod listing;
mod popularity;
mod retrieval;
mod store;
mod support;
