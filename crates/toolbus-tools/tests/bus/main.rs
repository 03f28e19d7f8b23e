//! Both ends of a tool call over the in-memory broker: what a caller sees of a tool that another
//! process runs.

#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test too")]

mod calls;
mod parking;
mod strangers;
mod support;
mod trace;
mod workers;
