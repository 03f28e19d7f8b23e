//! Wisps through the invoker: tools of a test behind the gateways, working memory on SQLite.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod agents;
mod definitions;
mod gates;
mod hostile;
mod inputs;
mod models;
mod resumed;
mod running;
mod stopping;
mod support;
mod telemetry;
