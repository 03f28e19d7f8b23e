//! Turns of an agent: what it does, what is kept of it, and how it goes on after an end.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod bus_users;
mod interrupted;
mod lineages;
mod notices;
mod outside;
mod support;
mod texts;
mod turns;
