//! The interface to tools, over HTTP, on every kind of store.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bench;
mod bodies;
mod calls;
mod generated_client;
mod hostile;
mod jobs;
mod keys;
mod limits;
mod openapi;
mod webhooks;
