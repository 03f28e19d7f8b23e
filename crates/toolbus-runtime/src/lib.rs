//! What every service needs around its work: configuration, telemetry, health and shutdown.
//!
//! Whatever links this crate allocates its memory with jemalloc.

mod allocator;
pub mod arguments;
pub mod config;
pub mod health;
pub mod http;
pub mod service;
pub mod settings;
pub mod telemetry;
pub mod tls;
