//! Runs scripts for a fleet: serves `script.invoke` with a runner of this machine.

pub mod arguments;
pub mod settings;

use std::time::Duration;

use toolbus_rabbitmq::{Start, join};
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{self, BoxError, Context, Exit, Program, Role};
use toolbus_wire::name::InstanceId;

use arguments::Arguments;
use settings::Settings;

/// Runs the program, from its arguments to its exit code.
#[must_use]
pub fn main(arguments: Arguments) -> Exit {
    let program = Program {
        name: env!("CARGO_PKG_NAME"),
        version: env!("CARGO_PKG_VERSION"),
        role: Role::Service,
        aliases: &[],
    };
    service::run(&program, &arguments.common, arguments.settings(), serve)
}

async fn serve(settings: Settings, context: Context) -> Result<Exit, BoxError> {
    let ready = context.health.component("scripts", Need::Required);
    // The runner first: without one there is nothing to serve, and this says why.
    let runner = settings.scripts.runner().await?;
    let name = runner.name();
    let bus = match join::join(&settings.bus, &context, Start::Whenever).await {
        Err(join::Error::Stopped) => return Ok(Exit::SUCCESS),
        joined => joined?,
    };
    let instance = InstanceId::parse(&context.identity.instance)?;
    let concurrency = settings.scripts.max_concurrent;
    let worker = toolbus_scripts::serve(bus.clone(), &instance, concurrency, runner).await?;
    context.health.describe(move || serde_json::json!({"runner": name}));
    ready.set(State::Up);
    tracing::info!(runner = name, concurrency, "serving");

    context.shutdown.requested().cancelled().await;
    // A part of the grace stays for leaving the bus.
    worker.stop(settings.shutdown.grace.duration() * 4 / 5).await;
    bus.close(Duration::from_secs(1)).await;
    Ok(Exit::SUCCESS)
}
