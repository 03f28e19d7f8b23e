//! MCP servers for a fleet: connects to the servers of an `mcp.json` and serves their tools on the
//! bus. It holds their sessions and credentials, and nothing else.

mod accept;
pub mod arguments;
mod examine;
mod login;
pub mod settings;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::Bus;
use toolbus_config::Environment;
use toolbus_config::build_features::BuildFeature;
use toolbus_config::shared_settings::BusSettings;
use toolbus_mcp::ServerCredentials;
use toolbus_mcp::bridge::Bridge;
use toolbus_mcp::supervisor::Supervisor;
use toolbus_rabbitmq::Start;
use toolbus_rabbitmq::join::{self, BusHealth, JoinDeps};
use toolbus_runtime::doctor;
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{self, BoxError, Context, Exit, Program, Role};
use toolbus_wire::name::{AgentName, InstanceId};

use arguments::{Arguments, Command};
use settings::{OfflineSettings, Settings};

/// Optional parts that this build leaves out.
const LEFT_OUT: &[BuildFeature] = &[
    #[cfg(not(feature = "jemalloc"))]
    BuildFeature::Jemalloc,
    #[cfg(not(feature = "postgres"))]
    BuildFeature::Postgres,
];

/// Runs the program, from its arguments to its exit code. `supervisor` looks after the servers that
/// it starts.
#[must_use]
pub fn main(arguments: Arguments, supervisor: Supervisor) -> Exit {
    let program = |role| Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        role,
        aliases: settings::ALIASES,
        left_out: LEFT_OUT,
    };

    let own = arguments.settings();
    let file = arguments.common.file(&Environment::of_process());
    let file = file.path().map(Path::to_owned);
    match arguments.command {
        None if arguments.service.probe => {
            service::probe::<Settings>(&program(Role::Service), &arguments.common, own)
        }
        None => {
            let work = |mut settings: Settings, context| {
                settings.mcp.supervisor = Some(supervisor);
                settings.hide_secrets(file);
                settings.mcp.elects_owners = true;
                serve(settings, context)
            };
            service::run(&program(Role::Service), &arguments.common, own, work)
        }
        Some(Command::Accept(options)) => {
            let work = |settings, _| accept::run(options, settings);
            service::run(&program(Role::Command), &arguments.common, own, work)
        }
        Some(Command::Doctor(options)) => {
            let work = |mut settings: Settings, context| {
                settings.mcp.supervisor = Some(supervisor);
                settings.hide_secrets(file);
                settings.mcp.caller_tells_mistakes = true;
                examine::examine(settings, context)
            };
            doctor::run(&program(Role::Command), &arguments.common, own, &options, work)
        }
        Some(Command::Login(login)) => {
            let work = |settings: OfflineSettings, context| login::run(login, settings, context);
            service::run(&program(Role::Command), &arguments.common, own, work)
        }
    }
}

async fn serve(mut settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let Some((vault, store)) = settings.vault() else {
        return serve_servers(settings, context).await;
    };
    let location = store.location();
    tracing::info!(%location, "credentials of MCP servers are read from here, once one needs any");
    settings.mcp.credentials = Some(ServerCredentials(Arc::new(vault)));

    let served = serve_servers(settings, context).await;
    store.close().await;
    served
}

async fn serve_servers(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("bridge", Need::Required);
    let agents: Result<Vec<_>, _> = settings.agents.iter().map(AgentName::parse).collect();
    let instance = InstanceId::parse(&context.identity.instance)?;
    let grants = settings.grants.load_check("bridge")?;
    let options = settings.mcp.bridge_options(agents?, instance, grants);

    // The file first: a mistake in it is reported at once, not when the broker is there.
    let pool = settings.mcp.start_servers()?;
    let bus = match join_bus(&settings.bus, &context).await {
        Err(join::Error::Stopped) => {
            pool.close(Duration::ZERO).await;
            return Ok(Exit::SUCCESS);
        }
        joined => joined?,
    };

    let bridge = Bridge::start(&bus, pool.clone(), options).await?;
    context.health.describe(move || toolbus_mcp::status(&pool));
    ready.set(State::Up);
    tracing::info!(agents = settings.agents.join(", "), "serving MCP servers on the bus");

    context.shutdown.requested().cancelled().await;
    // A part of the grace stays for ending the servers and leaving the bus.
    bridge.stop(settings.shutdown.grace.duration() * 3 / 5).await;
    bus.close(Duration::from_secs(1)).await;
    Ok(Exit::SUCCESS)
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
