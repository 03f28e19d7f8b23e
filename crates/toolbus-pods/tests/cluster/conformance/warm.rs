//! The conformance suite on pods that wait for a script.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::{KubernetesSettings, WarmSettings};
use toolbus_scripts::Runner;
use toolbus_scripts::conformance::{Canaries, Fixture};
use toolbus_scripts::runner::{Error, Outcome, Run, Script};

use super::Pods;
use crate::support::settings;

/// How long a script waits for a pod that waits, which is there in a second on a node that has
/// nothing else to do. After that it gets a pod of its own, as it would in a fleet.
const SOON: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Pods, of which one waits.
struct WarmPods {
    pods: Pods,
    /// Whether a script ran.
    ran: Arc<AtomicBool>,
}

impl WarmPods {
    async fn start() -> Option<Self> {
        let warm = WarmSettings { size: 1, ..WarmSettings::default() };
        let pods = Pods::start(KubernetesSettings { warm, ..settings() }).await?;
        Some(Self { pods, ran: Arc::default() })
    }
}

impl Fixture for WarmPods {
    fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(Patient { runner: self.pods.runner.clone(), ran: Arc::clone(&self.ran) })
    }

    fn canaries(&self) -> BoxFuture<'_, Canaries> {
        self.pods.canaries()
    }

    fn settle<'a>(&'a self, call_ids: &'a [String]) -> BoxFuture<'a, ()> {
        self.pods.settle(call_ids)
    }

    fn shows_processes(&self) -> bool {
        self.pods.shows_processes()
    }

    fn patience(&self) -> Duration {
        self.pods.patience() + SOON
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        async {
            self.pods.runner.close().await;
            let hits = self.pods.runner.warm().hits;
            assert!(hits > 0 || !self.ran.load(Relaxed), "none ran in a pod that waited");
        }
        .boxed()
    }
}

/// Gives scripts to the runner when a pod waits for one.
struct Patient {
    runner: KubernetesRunner,
    ran: Arc<AtomicBool>,
}

impl Runner for Patient {
    fn name(&self) -> &'static str {
        self.runner.name()
    }

    fn adopts(&self) -> bool {
        self.runner.adopts()
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        async {
            let end = Instant::now() + SOON;
            while self.runner.warm().waiting == 0 && Instant::now() < end {
                // sleeps: looks at the cluster again, within a limit.
                tokio::time::sleep(PAUSE).await;
            }
            let outcome = self.runner.run(script, run).await;
            self.ran.fetch_or(outcome.is_ok(), Relaxed);
            outcome
        }
        .boxed()
    }
}

toolbus_scripts::conformance_tests!(WarmPods::start().await);
