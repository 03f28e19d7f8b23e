//! A program that embeds an agent: what can be opened, what its calls come to, and that closing ends
//! everything.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod close;
mod examples;
mod fleet;
mod open;
mod served;
mod support;
