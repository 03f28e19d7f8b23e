//! Chains in the local sandbox, by the numbers of their contract.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod artifacts;
mod calls;
mod endings;
mod journals;
mod support;
