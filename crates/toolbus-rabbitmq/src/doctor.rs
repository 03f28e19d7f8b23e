//! What is the matter with the broker of the settings, for `doctor`.

use std::time::{Duration, Instant};

use toolbus_bus::Bus as _;
use toolbus_config::shared_settings::BusSettings;
use toolbus_config::{Finding, on_one_line};

use crate::join::{self, config_of};
use crate::{ConnectError, RabbitBus, Start};

/// How long to try to reach the broker.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the broker may take to say who takes from a queue.
const ASK_TIMEOUT: Duration = Duration::from_secs(3);
/// How long leaving may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
const BROKER: &str = "broker";

/// A service that takes from a queue.
#[derive(Debug, Clone)]
pub struct Service {
    /// What it is called, such as `scripts-manager`.
    pub name: &'static str,
    /// The subscription by which it is known.
    pub subscription: String,
    /// What ends without it.
    pub needed_for: &'static str,
}

/// Connects to the broker of the settings, as `connection_name`, and looks which of these services
/// take from their queues there.
pub async fn examine(
    settings: &BusSettings,
    connection_name: String,
    services: &[Service],
) -> Vec<Finding> {
    let began_at = Instant::now();
    let config = match config_of(settings, Start::Within(CONNECT_TIMEOUT), connection_name) {
        Ok(config) => config,
        Err(error) => return vec![describe_failure(&error)],
    };
    let nodes: Vec<_> = config.nodes.iter().map(|node| format!("{node:?}")).collect();
    let bus = match RabbitBus::connect(config).await {
        Ok(bus) => bus,
        Err(error) => return vec![describe_failure(&error.into())],
    };

    let broker = bus.describe_broker().unwrap_or_default();
    let took = began_at.elapsed().as_millis();
    let detail = format!("{broker} at {}, logged in after {took} ms", nodes.join(" or "));
    let mut findings = vec![Finding::ok(BROKER, detail)];
    for service in services {
        let counting = bus.count_consumers(&service.subscription);
        let count = tokio::time::timeout(ASK_TIMEOUT, counting).await;
        findings.push(service.describe(count.ok().flatten().unwrap_or_default()));
    }

    bus.close(CLOSE_TIMEOUT).await;
    findings
}

impl Service {
    /// So many processes take from the queue.
    fn describe(&self, count: usize) -> Finding {
        let Self { name, needed_for, .. } = *self;
        match count {
            0 => {
                let detail = format!("none is on the broker, so {needed_for} end as `unroutable`");
                Finding::note(name, detail).mended_by(format!("start a {name} with the same bus"))
            }
            1 => Finding::ok(name, "one is on the broker"),
            count => Finding::ok(name, format!("{count} are on the broker")),
        }
    }
}

fn describe_failure(error: &join::Error) -> Finding {
    let finding = Finding::wrong(BROKER, on_one_line(error));
    let join::Error::Connect(error) = error else {
        return finding.mended_by("set TOOLBUS_BUS, or bus.url");
    };

    let mend = match error {
        ConnectError::InvalidUrl | ConnectError::InvalidConfig(_) => {
            "correct TOOLBUS_BUS, or bus.url".to_owned()
        }
        ConnectError::Password { .. } => "correct bus.password_file".to_owned(),
        ConnectError::Unreachable { .. } | ConnectError::TimedOut { .. } => {
            "start the broker, or correct TOOLBUS_BUS (bus.url)".to_owned()
        }
        ConnectError::WrongCredentials { user, .. } => format!(
            "correct user and password in TOOLBUS_BUS (bus.url, bus.password_file), or set them \
             anew: rabbitmqctl change_password {user}"
        ),
        ConnectError::VirtualHost { virtual_host, .. } => {
            format!("rabbitmqctl add_vhost {virtual_host}, and set_permissions for the user there")
        }
        ConnectError::Refused { .. } => {
            "the user may configure, write and read: rabbitmqctl set_permissions USER '.*' '.*' \
             '.*'"
                .to_owned()
        }
    };
    finding.mended_by(mend)
}
