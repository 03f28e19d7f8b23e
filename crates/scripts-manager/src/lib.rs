//! Runs scripts for a fleet: serves `script.invoke` with the local runner or with one that makes
//! pods.
//!
//! The service is thin: arguments, settings and wiring. What a pod is, and what becomes of a script
//! in it, is in `toolbus-pods`; the local sandbox is `toolbus-sandbox`.

pub mod arguments;
mod examine;
pub mod settings;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use toolbus_bus::Bus;
use toolbus_bus::responder::Responder;
use toolbus_config::build_features::BuildFeature;
use toolbus_config::shared_settings::BusSettings;
use toolbus_pods::{ClusterState, KubernetesRunner};
use toolbus_rabbitmq::Start;
use toolbus_rabbitmq::join::{self, BusHealth, JoinDeps};
use toolbus_runtime::health::{Component, Need, State};
use toolbus_runtime::service::{self, BoxError, Context, Exit, Program, Role};
use toolbus_scripts::{FairRunner, Runner, WorkerOptions};
use toolbus_wire::name::InstanceId;

use arguments::{Arguments, Command};
use settings::{RunnerKind, Settings};

/// How often a manager that could not take calls again tries to.
const UNPAUSE_INTERVAL: Duration = Duration::from_secs(1);
/// How long stopping waits for the last pods to be deleted.
const DELETION_TIMEOUT: Duration = Duration::from_secs(2);

/// Optional parts that this build leaves out.
const LEFT_OUT: &[BuildFeature] = &[
    #[cfg(not(feature = "jemalloc"))]
    BuildFeature::Jemalloc,
];

/// Runs the program, from its arguments to its exit code.
#[must_use]
pub fn main(arguments: Arguments) -> Exit {
    let program = Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        role: Role::Service,
        aliases: &[],
        left_out: LEFT_OUT,
    };
    let Arguments { common, service, .. } = &arguments;
    if let Some(Command::Doctor(options)) = &arguments.command {
        return examine::run(Program { role: Role::Command, ..program }, &arguments, options);
    }
    if service.probe {
        return service::probe::<Settings>(&program, common, arguments.settings());
    }
    service::run(&program, common, arguments.settings(), serve)
}

async fn serve(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("scripts", Need::Required);
    let grants = settings.grants.load_check("scripts manager")?;
    // Both at once, and the first failure is reported: without a runner there is nothing to serve,
    // though the broker may be away for long.
    let joining = async { Ok(join_bus(&settings.bus, &context).await?) };
    let started: Result<_, BoxError> = tokio::select! {
        biased;
        () = context.shutdown.requested().cancelled() => return Ok(Exit::SUCCESS),
        started = async { tokio::try_join!(start_runner(&settings), joining) } => started,
    };
    let ((runner, pods), bus) = match started {
        // Told to stop since it was looked at above.
        Err(error) if matches!(error.downcast_ref(), Some(join::Error::Stopped)) => {
            return Ok(Exit::SUCCESS);
        }
        started => started?,
    };

    let name = runner.name();
    let memory = runner.memory_accounting();
    let instance = InstanceId::parse(&context.identity.instance)?;
    let shares = settings.agents.shares(settings.scripts.max_concurrent);
    let fair = Arc::new(FairRunner::new(runner, shares));

    let options = WorkerOptions {
        concurrency: settings.concurrency(),
        allowance: settings.scripts.allowance(),
        grants,
    };
    let runner: Arc<dyn Runner> = fair.clone();
    let mut worker = toolbus_scripts::serve(bus.clone(), &instance, runner, options).await?;

    let warm = pods.clone();
    context.health.describe(move || match &warm {
        Some(pods) => serde_json::json!({
            "runner": name, "warm": pods.warm(), "network_policy": pods.policy(),
        }),
        None => serde_json::json!({"runner": name, "memory": memory}),
    });
    ready.set(State::Up);
    tracing::info!(
        runner = name,
        running_max = shares.running,
        running_max_per_agent = shares.running_of_one,
        waiting_max = shares.waiting,
        waiting_max_per_agent = shares.waiting_of_one,
        "serving scripts"
    );

    if let Some(pods) = &pods {
        pods.probe_policy();
        let cluster = context.health.component("cluster", Need::Required);
        // Stopped between two changes: a subscription that is half made ends with the bus.
        let following = follow_cluster(&mut worker, pods.cluster_state(), &cluster);
        context.shutdown.requested().run_until_cancelled(following).await;
    }

    context.shutdown.requested().cancelled().await;

    // A part of the grace stays for leaving the bus.
    let grace = settings.shutdown.grace.duration() * 4 / 5;
    let queue_end = Instant::now() + grace / 2;
    fair.close_queue_at(queue_end);
    if let Some(pods) = &pods {
        pods.prepare_stop(queue_end);
    }
    worker.stop(grace).await;

    if let Some(pods) = pods {
        // Cancelled calls have been answered; their pods take a moment to be deleted.
        let _ = timeout(DELETION_TIMEOUT, pods.close()).await;

        if let Ok(Err(error)) = timeout(DELETION_TIMEOUT, pods.leave()).await {
            tracing::debug!(%error, "failed to delete the Lease of this manager");
        }
    }

    bus.close(Duration::from_secs(1)).await;
    Ok(Exit::SUCCESS)
}

/// Takes calls while the cluster answers, and leaves them to other managers while it does not.
async fn follow_cluster(
    worker: &mut Responder,
    mut states: watch::Receiver<ClusterState>,
    component: &Component,
) {
    loop {
        let state = states.borrow_and_update().clone();
        let is_done = match state {
            ClusterState::Reachable => match worker.unpause().await {
                Ok(()) => {
                    component.set(State::Up);
                    true
                }
                Err(error) => {
                    tracing::warn!(%error, "failed to take calls again");
                    component.set(State::down(&error));
                    false
                }
            },
            ClusterState::Unreachable { reason } => {
                worker.pause();
                tracing::warn!(reason, "the cluster does not answer, so no calls are taken");
                component.set(State::down(format!("the cluster does not answer: {reason}")));
                true
            }
        };

        // Either arm only waits.
        tokio::select! {
            changed = states.changed() => if changed.is_err() { return },
            () = sleep(UNPAUSE_INTERVAL), if !is_done => {}
        }
    }
}

/// Starts the runner that the settings ask for; the second is the same one, where it has pods to
/// delete.
async fn start_runner(
    settings: &Settings,
) -> Result<(Arc<dyn Runner>, Option<KubernetesRunner>), BoxError> {
    match settings.runner {
        RunnerKind::Local => Ok((settings.scripts.runner().await?, None)),
        RunnerKind::Kubernetes => {
            let runner = KubernetesRunner::start_inferred(settings.kubernetes.clone()).await?;
            Ok((Arc::new(runner.clone()), Some(runner)))
        }
    }
}

/// Joins the bus. The health component `bus` says how it is, from then on.
async fn join_bus(settings: &BusSettings, context: &Context) -> Result<Arc<dyn Bus>, join::Error> {
    let component = context.health.component("bus", Need::Required);
    let report_health = move |health| {
        component.set(match health {
            BusHealth::Up => State::Up,
            BusHealth::Blocked { reason } => State::degraded(reason),
            BusHealth::Down { reason } => State::down(reason),
        });
    };

    let deps = JoinDeps {
        connection_name: context.identity.connection_name(),
        stop: context.shutdown.requested().clone(),
        tasks: context.shutdown.tasks().clone(),
    };
    join::join(settings, Start::Whenever, deps, report_health).await
}
