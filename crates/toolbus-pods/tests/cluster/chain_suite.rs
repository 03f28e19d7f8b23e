//! The tests of chains by the numbers of their contract, which are at home among those of the whole
//! fleet, with programs that run in pods.

#[path = "../../../e2e/tests/chain/approvals.rs"]
mod approvals;
#[path = "../../../e2e/tests/chain/artifacts.rs"]
mod artifacts;
#[path = "../../../e2e/tests/chain/calls.rs"]
mod calls;
#[path = "../../../e2e/tests/chain/endings.rs"]
mod endings;
#[path = "../../../e2e/tests/chain/journals.rs"]
mod journals;
#[path = "../../../e2e/tests/chain/support.rs"]
mod support;

use std::sync::Arc;

use toolbus_pods::KubernetesRunner;
use toolbus_scripts::Runner;

/// Where the programs of these tests run: pods of the tests' cluster.
struct ScriptPlace(KubernetesRunner);

impl ScriptPlace {
    async fn open() -> Option<Self> {
        crate::support::runner().await.map(Self)
    }

    fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(self.0.clone())
    }

    /// Waits until the pods of programs that have ended are gone.
    async fn settle(&self) {
        self.0.idle().await;
    }
}
