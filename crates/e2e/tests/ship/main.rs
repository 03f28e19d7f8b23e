//! What is shipped, run as it is shipped: the archives on this machine, the images and the compose
//! file on a Docker engine, the chart on a cluster.
//!
//! Runs where `TOOLBUS_TEST_DOCKER` and `TOOLBUS_TEST_KUBECONFIG` name them, and they have the
//! images already: `cargo xtask test` sees to both.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "what a failed test leaves is told")]

mod archive;
mod compose;
mod earlier;
mod external;
mod images;
mod install;
mod kept;
mod observe;
mod outside;
mod parts;
mod release;
mod support;
mod up;
mod upgrade;
mod volumes;
