//! How metrics and spans are defined.
//!
//! Each crate has one table of the metrics that it records and one of the spans that it makes.
//! Instruments are built from the first, and `docs/telemetry.md` from both, so that the page, the
//! dashboards and the code cannot say different things. How any of it leaves the process is for
//! `toolbus-runtime`; nothing here knows what is measured, but for requests of the Model Context
//! Protocol, which several crates record alike: see [`mcp`].
//!
//! The number of time series is bounded where they begin: what others may name (agents, servers,
//! tools) goes through a [`Bounded`] before it is an attribute.

mod bounded;
pub mod mcp;
mod metric;
mod span;

pub use bounded::{Bounded, OTHER};
pub use metric::{CALL_SECONDS, Kind, MESSAGE_SECONDS, Metric};
pub use span::{Span, SpanKind};
