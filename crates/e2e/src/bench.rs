//! What the benchmarks share: rounds of measurements, goals, and the report.
//!
//! A benchmark measures the same thing in several rounds and reports medians over the rounds, with
//! the smallest and the largest beside them, because the machine it runs on is seldom alone. What
//! is compared with a peer is measured in turns with it, round by round, and compared round by
//! round.

mod benchmark;
mod broken_off;
mod lane;
mod machine;
pub mod peer;
pub mod process;
mod report;
mod rounds;

pub use benchmark::Benchmark;
pub use broken_off::at_end;
pub use lane::{Burst, Lane, at_once, one_by_one, runtime};
pub use machine::Machine;
pub use report::{Goal, Report, Row};
pub use rounds::{Latencies, Rounds, process_time};
