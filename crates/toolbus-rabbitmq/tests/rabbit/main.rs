//! The adapter on a real RabbitMQ: what it declares, what it sends and reads byte for byte, and
//! what it does when something goes wrong. What every broker must do is in `conformance.rs`.

#![allow(clippy::unwrap_used)] // Helpers of tests may panic as tests may.

mod connecting;
mod frames;
mod held;
mod nodes;
mod outages;
mod prefetch;
mod publishing;
mod room;
mod settling;
mod stopping;
mod strangers;
mod support;
mod topology;
mod traffic;
