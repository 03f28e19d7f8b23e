//! The tools as models call them: through the invoker, on real files, in the real sandbox, and on
//! servers of this machine's loopback.
//!
//! Without bubblewrap the tests of commands are skipped, or fail when `TOOLBUS_REQUIRE_REAL=1` says
//! that they must not be.

mod files;
mod google;
mod guides;
mod hostile_commands;
mod hostile_files;
mod openapi_documents;
mod principals;
mod reports;
mod rest;
mod search;
mod settings;
mod shell;
mod support;
mod web;
