//! Joining a fleet: from a program's settings to a bus whose health its health port tells.

use std::sync::Arc;
use std::time::Duration;

use toolbus_bus::{Bus, Health};
use toolbus_runtime::health::{Component, Need, State};
use toolbus_runtime::service::Context;
use toolbus_runtime::settings::{self, BusSettings};

use crate::{Config, ConnectError, QueueProfile, RabbitBus, Start};

/// How often the health port looks at the bus.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Why a fleet could not be joined.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No broker is set.
    #[error("no broker is set: name one with --bus or TOOLBUS_BUS")]
    NoBroker,
    /// The program was told to stop while it waited for the broker.
    #[error("told to stop before the broker was there")]
    Stopped,
    /// The broker cannot be had.
    #[error(transparent)]
    Connect(#[from] ConnectError),
}

impl Error {
    /// Whether the broker is there and does not let us in.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Connect(ConnectError::WrongCredentials { .. } | ConnectError::VirtualHost { .. })
        )
    }
}

/// Connects to the broker of the settings and keeps the health component `bus` true. With
/// [`Start::Whenever`] it waits for as long as it takes, and the health port says for what.
///
/// # Errors
/// When no broker is set, it cannot be had within `start`, or the program is told to stop.
pub async fn join(
    settings: &BusSettings,
    context: &Context,
    start: Start,
) -> Result<Arc<dyn Bus>, Error> {
    let url = settings.url.as_ref().ok_or(Error::NoBroker)?;
    let mut config = Config::new(url.expose())?;
    config.password_file.clone_from(&settings.password_file);
    config.exchange.clone_from(&settings.exchange);
    config.dead_letter_exchange.clone_from(&settings.dead_letter_exchange);
    config.queue_profile = match settings.queue_profile {
        settings::QueueProfile::UpstreamM => QueueProfile::UpstreamM,
        settings::QueueProfile::UpstreamN => QueueProfile::UpstreamN,
    };
    config.connection_name = format!("{} {}", context.identity.program, context.identity.instance);
    config.start = start;
    let component = context.health.component("bus", Need::Required);
    let rabbit = RabbitBus::connect(config).await?;
    let bus: Arc<dyn Bus> = rabbit.clone();
    let (stop, watched) = (context.shutdown.requested().clone(), Arc::clone(&rabbit));
    let watcher = component.clone();
    context.shutdown.tasks().spawn(async move {
        // Either end is our own doing and nothing that is wrong with the bus.
        tokio::select! {
            () = watch(&*watched, watcher) => {}
            () = watched.closed() => {}
            () = stop.cancelled() => {}
        }
    });
    tokio::select! {
        () = rabbit.connected() => {
            // At once: whoever waits for this program to be ready need not wait for the next look.
            component.set(state_of(&*bus));
            Ok(bus)
        }
        () = context.shutdown.requested().cancelled() => Err(Error::Stopped),
    }
}

/// The first look is a while after the start: a bus that connects at once was never down.
async fn watch(bus: &dyn Bus, component: Component) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        component.set(state_of(bus));
    }
}

fn state_of(bus: &dyn Bus) -> State {
    match bus.health() {
        Health::Up => State::Up,
        Health::Blocked { reason } => State::degraded(reason),
        Health::Down { reason } => State::down(reason),
    }
}
