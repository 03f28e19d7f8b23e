//! Joining a fleet: connects to the broker of a program's settings and reports the health of the
//! bus.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::Bus;
pub use toolbus_bus::Health as BusHealth;
use toolbus_config::shared_settings::{self, BusSettings};

use crate::{Config, ConnectError, QueueProfile, RabbitBus, Start};

/// How often the health of the bus is reported.
const HEALTH_INTERVAL: Duration = Duration::from_millis(250);

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

/// What joining takes from the program that joins.
#[derive(Debug, Clone)]
pub struct JoinDeps {
    /// What the broker's operator sees as the name of the connection.
    pub connection_name: String,
    /// Fires when the program is told to stop.
    pub stop: CancellationToken,
    /// Where the task that watches the bus is spawned.
    pub tasks: TaskTracker,
}

/// Connects to the broker of the settings. With [`Start::Whenever`] it waits for as long as it
/// takes. From then on until `stop` fires or the bus is closed, `report_health` is called with the
/// health of the bus, several times a second.
///
/// # Errors
/// When no broker is set, it cannot be had within `start`, or the program is told to stop.
pub async fn join(
    settings: &BusSettings,
    start: Start,
    deps: JoinDeps,
    report_health: impl Fn(BusHealth) + Send + Sync + 'static,
) -> Result<Arc<dyn Bus>, Error> {
    let JoinDeps { connection_name, stop, tasks } = deps;
    let config = config_of(settings, start, connection_name)?;
    let rabbit = RabbitBus::connect(config).await?;
    let report_health = Arc::new(report_health);

    let watched = Arc::clone(&rabbit);
    let report = Arc::clone(&report_health);
    let stop_watching = stop.clone();
    tasks.spawn(async move {
        // Either end is our own doing and nothing that is wrong with the bus.
        tokio::select! {
            () = watch_health(&*watched, &*report) => {}
            () = watched.closed() => {}
            () = stop_watching.cancelled() => {}
        }
    });

    tokio::select! {
        () = rabbit.connected() => {
            // At once: who waits for this program to be ready need not wait for the next look.
            report_health(rabbit.health());
            Ok(rabbit)
        }
        () = stop.cancelled() => Err(Error::Stopped),
    }
}

/// The adapter's configuration for the settings that services share.
pub(crate) fn config_of(
    settings: &BusSettings,
    start: Start,
    connection_name: String,
) -> Result<Config, Error> {
    let urls = settings.url.as_ref().ok_or(Error::NoBroker)?;
    let mut config = Config::new(&urls.expose())?;

    config.password_file.clone_from(&settings.password_file);
    config.exchange.clone_from(&settings.exchange);
    config.dead_letter_exchange.clone_from(&settings.dead_letter_exchange);
    config.queue_profile = match settings.queue_profile {
        shared_settings::QueueProfile::UpstreamM => QueueProfile::UpstreamM,
        shared_settings::QueueProfile::UpstreamN => QueueProfile::UpstreamN,
    };
    config.connection_name = connection_name;
    config.start = start;

    Ok(config)
}

/// Reports the health of the bus again and again. The first report is a while after the start: a
/// bus that connects at once was never down.
async fn watch_health(bus: &dyn Bus, report_health: &(impl Fn(BusHealth) + Sync)) {
    loop {
        tokio::time::sleep(HEALTH_INTERVAL).await;
        report_health(bus.health());
    }
}
