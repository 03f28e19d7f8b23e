//! Ours: an agent's gates, RabbitMQ, and `scripts-manager` as a process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, Progress};
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_scripts::ScriptAllowance;
use toolbus_testkit::process::{Launch, Service};
use toolbus_tools::call::{Call, Output};
use toolbus_tools::{Guides, Invoker, Registry, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::cluster::{Cluster, NAMESPACE};
use crate::{AT_ONCE, PRINTS, SCRIPT};

const READY_WITHIN: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(20);

/// What the manager tells of its warm pods.
pub(crate) struct WarmStatus {
    pub(crate) size: u64,
    pub(crate) waiting: u64,
    pub(crate) hits: u64,
}

/// The manager, and an agent that has scripts run.
pub(crate) struct Manager {
    pub(crate) service: Service,
    caller: Invoker,
}

impl Manager {
    /// Starts a manager that keeps so many warm pods, and waits until it has done what belongs to
    /// its start.
    pub(crate) async fn start(cluster: &Cluster, broker: &str, warm: u16) -> anyhow::Result<Self> {
        let mut service = Launch::new("scripts-manager")
            .args(["--bus", broker, "--runner", "kubernetes", "--prepare-namespace"])
            .env("KUBECONFIG", &cluster.kubeconfig)
            .env("TOOLBUS_KUBERNETES__NAMESPACE", NAMESPACE)
            .env("TOOLBUS_SCRIPTS__MAX_CONCURRENT", AT_ONCE.to_string())
            .env("TOOLBUS_KUBERNETES__WARM__SIZE", warm.to_string())
            .start()?;
        service.ready(READY_WITHIN).await?;

        let mut config = Config::new(broker)?;
        config.start = Start::Within(READY_WITHIN);
        let bus: Arc<dyn Bus> = RabbitBus::connect(config).await?;
        let name = AgentName::parse("caller")?;
        let requester = Requester::start(bus, name, &InstanceId::random()).await?;
        let registry = Registry::new();
        toolbus_scripts::tool::register(
            &registry,
            &Guides::default(),
            requester,
            ScriptAllowance::default(),
        )?;
        let manager = Self { service, caller: Invoker::new(Arc::new(registry)) };
        manager.has_probed().await?;
        Ok(manager)
    }

    /// Waits until its probe of the network policy has come to an end.
    async fn has_probed(&self) -> anyhow::Result<()> {
        let end = Instant::now() + READY_WITHIN;
        while self.details().await?["network_policy"]["state"] == "untried" {
            ensure!(Instant::now() < end, "the network policy is being probed");
            sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn details(&self) -> anyhow::Result<Value> {
        let (_, status) = self.service.look("/status").await?;
        let mut status: Value = serde_json::from_str(&status)?;
        Ok(status["details"].take())
    }

    /// Has the script of the benchmark run, and checks what it prints.
    pub(crate) async fn answer(&self) -> anyhow::Result<()> {
        let output = self.run(SCRIPT, Progress::none()).await?;
        let text = output.content.as_deref();
        ensure!(!output.is_error && text == Some(PRINTS), "not what it prints: {text:?}");
        Ok(())
    }

    /// How it stands with its warm pods.
    pub(crate) async fn warm(&self) -> anyhow::Result<WarmStatus> {
        let details = self.details().await?;
        let number = |name: &str| details["warm"][name].as_u64().context("no number");
        Ok(WarmStatus { size: number("size")?, waiting: number("waiting")?, hits: number("hits")? })
    }

    /// Waits until all of its warm pods wait.
    pub(crate) async fn full(&self) -> anyhow::Result<()> {
        let end = Instant::now() + READY_WITHIN;
        loop {
            let warm = self.warm().await?;
            if warm.waiting == warm.size {
                return Ok(());
            }
            ensure!(Instant::now() < end, "{} warm pods of {}", warm.waiting, warm.size);
            sleep(PAUSE).await;
        }
    }

    /// Ends it, and with it its warm pods.
    pub(crate) async fn stop(mut self) -> anyhow::Result<()> {
        self.service.process().terminate(READY_WITHIN).await?;
        Ok(())
    }

    /// Has any script run.
    pub(crate) async fn run(&self, script: &str, progress: Progress) -> anyhow::Result<Output> {
        self.call(serde_json::json!({"script": script}), progress, CancellationToken::new()).await
    }

    /// Has a script run with these arguments, until this is cancelled.
    pub(crate) async fn call(
        &self,
        arguments: Value,
        progress: Progress,
        cancelled: CancellationToken,
    ) -> anyhow::Result<Output> {
        let call = Call::by_name(
            &Scope::local(AgentName::standard()),
            toolbus_scripts::tool::NAME,
            arguments,
        )
        .expect("a short name")
        .with_cancelled(cancelled)
        .with_progress(progress);
        Ok(self.caller.invoke(call).await?)
    }
}
