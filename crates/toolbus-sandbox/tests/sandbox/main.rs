//! The runner against the real bubblewrap, kernel and interpreter.
//!
//! Without them the tests are skipped, or fail when `TOOLBUS_REQUIRE_REAL=1` says that they must
//! not be.

mod conformance;
mod files;
mod life;
mod limits;
mod ordinary;
mod packages;
mod support;
mod workspace;
