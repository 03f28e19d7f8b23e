//! Chains in the local sandbox, by the numbers of their contract. The same tests run on pods among
//! those of `toolbus-pods`.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod approvals;
mod artifacts;
mod calls;
mod endings;
mod journals;
mod support;

use std::sync::Arc;

use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::Runner;

/// Where the programs of these tests run: a sandbox on this machine.
struct ScriptPlace(Arc<Sandbox>);

impl ScriptPlace {
    #[allow(clippy::unnecessary_wraps, reason = "other places may not be there")]
    async fn open() -> Option<Self> {
        Some(Self(Arc::new(Sandbox::probe(Config::default()).await.expect("a sandbox"))))
    }

    fn runner(&self) -> Arc<dyn Runner> {
        Arc::clone(&self.0) as Arc<dyn Runner>
    }

    /// Nothing is left of a program that has ended.
    async fn settle(&self) {}
}
