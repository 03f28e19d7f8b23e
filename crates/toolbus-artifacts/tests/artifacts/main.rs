//! Artifacts on both databases, alone and behind an invoker.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod damage;
mod offload;
mod questions;
mod resolve;
mod s3;
mod storing;
mod support;
