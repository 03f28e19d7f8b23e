//! The sections of settings that services share, and the other names they are read from.
//!
//! A service puts the sections it needs into its own settings struct under the names used here:
//! `name`, `bus`, `health`, `log`, `telemetry`, `shutdown`. An alias whose key a service does not
//! have is ignored there.

#[cfg(test)]
mod tests;

use std::fmt::Write;
use std::num::NonZeroU16;
use std::path::PathBuf;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Alias, BusUrls, Environment, HttpUrl, ListenAddress, LogFilter, Setting, TimeSpan};

/// How a service joins the bus.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BusSettings {
    /// The broker to join, such as `amqp://user:password@host:5672/vhost`; for a cluster, the URLs
    /// of its nodes with commas between. One connection is kept, to a node that is picked at
    /// random; when it is lost, the next node is tried. A program that can run embedded does so
    /// when this is not set. Below everything else it is put together from `RabbitMq__HostName`,
    /// `__Port`, `__UserName`, `__Password` and `__VirtualHost`.
    pub url: Option<BusUrls>,
    /// The file that the user's password is in, instead of one in the URL. It is read for each
    /// connection, so a password that is rotated holds from the next one on.
    pub password_file: Option<PathBuf>,
    /// The topic exchange that every message goes through.
    #[schemars(length(min = 1, max = 127))]
    pub exchange: String,
    /// The topic exchange that rejected messages go to.
    #[schemars(length(min = 1, max = 127))]
    pub dead_letter_exchange: String,
    /// How many deliveries each subscription works on at a time. It is the prefetch and the number
    /// of permits at once, so that nothing waits unseen in a worker.
    #[schemars(range(min = 1, max = 1000))]
    pub prefetch: NonZeroU16,
    /// Which version's arguments the queues are declared with that another system declares too.
    pub queue_profile: QueueProfile,
}

impl Default for BusSettings {
    fn default() -> Self {
        Self {
            url: None,
            password_file: None,
            exchange: "rockbot".to_owned(),
            dead_letter_exchange: "rockbot.dlx".to_owned(),
            prefetch: NonZeroU16::new(10).expect("10 is not zero"),
            queue_profile: QueueProfile::UpstreamM,
        }
    }
}

/// Arguments of shared queues: a queue that is declared twice with different ones is an error of
/// the broker (406), so these must be those of whoever else declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueProfile {
    /// Dead-letter queues without arguments.
    #[default]
    UpstreamM,
    /// Dead-letter queues bounded in age, count and bytes.
    UpstreamN,
}

/// Where the process says how it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HealthSettings {
    /// Where `/healthz`, `/readyz` and `/status` are served, such as `127.0.0.1:8080`, or `:8080`
    /// for every address of the machine. Not served when not set.
    pub address: Option<ListenAddress>,
}

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogSettings {
    /// A level (`error`, `warn`, `info`, `debug`, `trace`, `off`) or directives such as
    /// `info,toolbus_bus=debug`. When not set: `info` for services. One-shot commands log from
    /// `warn` up and go by no filter but that of `--log`, `TOOLBUS_LOG` or `RUST_LOG`.
    pub filter: Option<LogFilter>,
    /// How lines are written to standard error.
    pub format: LogFormat,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people on a terminal and from one-shot commands, as JSON from services otherwise.
    #[default]
    Auto,
    /// For people.
    Human,
    /// One JSON object a line.
    Json,
}

/// Where traces, metrics and logs are exported to. The standard `OTEL_` variables hold beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TelemetrySettings {
    /// Whether to export at all; without an endpoint nothing is exported either way.
    pub enabled: bool,
    /// Base URL of an OTLP collector that takes protobuf over HTTP, such as
    /// `http://collector:4318`.
    pub endpoint: Option<HttpUrl>,
    /// `service.name` of what is exported. When not set: the program's name.
    #[schemars(length(min = 1, max = 255))]
    pub service_name: Option<String>,
}

impl Default for TelemetrySettings {
    fn default() -> Self {
        Self { enabled: true, endpoint: None, service_name: None }
    }
}

/// How the process stops.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShutdownSettings {
    /// How long running work may take to end after a stop was asked for; what is not done by then
    /// is cut off. Keep it, with 5 s more, below the time after which the supervisor kills.
    pub grace: TimeSpan,
}

impl Default for ShutdownSettings {
    fn default() -> Self {
        Self { grace: TimeSpan::seconds(20) }
    }
}

/// The other names of the shared settings, lowest first: RockBot's own, OpenTelemetry's, and the
/// short forms of ours. A service adds its own behind them.
pub const SHARED_ALIASES: &[Alias] = &[
    Alias::new("RabbitMq__ExchangeName", "bus.exchange"),
    Alias::new("RabbitMq__DeadLetterExchangeName", "bus.dead_letter_exchange"),
    Alias::new("RabbitMq__PrefetchCount", "bus.prefetch"),
    Alias::new("Telemetry__Enabled", "telemetry.enabled"),
    Alias { name: "Telemetry__OtlpEndpoint", key: "telemetry.endpoint", translate: http_endpoint },
    Alias::new("Telemetry__ServiceName", "telemetry.service_name"),
    Alias { name: "OTEL_SDK_DISABLED", key: "telemetry.enabled", translate: negate_flag },
    Alias::new("OTEL_EXPORTER_OTLP_ENDPOINT", "telemetry.endpoint"),
    Alias::new("OTEL_SERVICE_NAME", "telemetry.service_name"),
    Alias::new("RUST_LOG", "log.filter"),
    Alias::new("TOOLBUS_LOG", "log.filter"),
    Alias::new("TOOLBUS_HEALTH", "health.address"),
    Alias::new("TOOLBUS_BUS", "bus.url"),
];

/// The broker's URL out of `RabbitMq__HostName`, `__Port`, `__UserName`, `__Password` and
/// `__VirtualHost`, with RockBot's defaults for what is missing. `None` without a host name.
#[must_use]
pub fn rabbitmq_url(environment: &Environment) -> Option<Setting> {
    const HOST: &str = "RabbitMq__HostName";
    const PORT: &str = "RabbitMq__Port";

    let host = environment.value(HOST)?;
    let part = |name: &str, default: &'static str| {
        let value = environment.value(name).unwrap_or(default);
        utf8_percent_encode(value, NON_ALPHANUMERIC).to_string()
    };
    let Ok(port) = environment.value(PORT).unwrap_or("5672").trim().parse::<u16>() else {
        return Some(Setting::wrong_value("bus.url", "not a port from 0 to 65535", PORT));
    };

    let mut url = String::from("amqp://");
    let user = part("RabbitMq__UserName", "guest");
    let password = part("RabbitMq__Password", "guest");
    let virtual_host = part("RabbitMq__VirtualHost", "/");
    let host = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]")
    } else {
        host.into()
    };

    write!(url, "{user}:{password}@{host}:{port}/{virtual_host}").expect("a string takes any text");
    Some(Setting::text("bus.url", url, HOST))
}

/// RockBot exports by gRPC, whose port is 4317; the same collector takes protobuf over HTTP at
/// 4318. Its charts name the first, so that one is understood as the second.
fn http_endpoint(text: &str) -> Result<String, String> {
    let trimmed = text.trim_end_matches('/');
    Ok(match trimmed.strip_suffix(":4317") {
        Some(host) => format!("{host}:4318"),
        None => text.to_owned(),
    })
}

fn negate_flag(text: &str) -> Result<String, String> {
    Ok((!text.trim().eq_ignore_ascii_case("true")).to_string())
}
