//! Whole-fleet tests and benchmarks; nothing depends on it.

pub mod bench;
