//! Artifacts on both databases, alone and behind an invoker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod damage;
mod offload;
mod places;
mod questions;
mod resolve;
#[cfg(feature = "s3")]
mod s3;
mod storing;
mod support;
