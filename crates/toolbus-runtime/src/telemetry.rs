//! Logs to standard error and, when a collector is named, traces, metrics and logs by OTLP.
//!
//! Telemetry serves the work and never the other way round: starting it does no I/O, exporting
//! happens on threads of its own from bounded queues that drop what does not fit, a collector that
//! is gone costs one warning, and the last flush is bounded in time. It owns the process's only
//! global state: the tracing subscriber, OpenTelemetry's meter provider and its propagator. The
//! instruments of a crate must therefore be made after [`start`], or they record nothing.

mod client;
mod correlate;
mod one_line;
mod otlp;
mod outage;
mod span_fields;

#[cfg(test)]
mod tests;

use std::io::IsTerminal;
use std::time::Duration;

use opentelemetry_sdk::propagation::TraceContextPropagator;
use toolbus_telemetry::{Kind, Metric};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, Registry};

use self::correlate::Correlated;
use self::one_line::OneLine;
use self::span_fields::SpanFields;
use crate::report;
use toolbus_config::shared_settings::{LogFormat, LogSettings, TelemetrySettings};
use toolbus_config::{Environment, Mistake};

const EXPORT_FAILURES: Metric = Metric {
    name: "toolbus.telemetry.export.failures",
    kind: Kind::ObservedCounter,
    unit: "{request}",
    description: "Export requests that failed; what they carried is lost",
    attributes: &[],
};

/// Every metric of this crate.
pub const METRICS: &[Metric] = &[EXPORT_FAILURES];

/// Who is speaking: the resource of everything that is exported.
#[derive(Debug, Clone)]
pub struct Identity {
    /// The program, such as `mcp-bridge`: `service.name` where the settings do not name another.
    pub program: &'static str,
    /// Its version.
    pub version: &'static str,
    /// Unique id of this process: `service.instance.id`.
    pub instance: String,
    /// What the operator calls this instance: `toolbus.name`.
    pub name: Option<String>,
}

impl Identity {
    /// The name that a broker's operator sees this process's connection by.
    #[must_use]
    pub fn connection_name(&self) -> String {
        format!("{} {}", self.program, self.instance)
    }
}

/// What telemetry is started with.
#[derive(Debug)]
pub struct Options<'a> {
    /// Who is speaking.
    pub identity: &'a Identity,
    /// What is logged, and how.
    pub log: &'a LogSettings,
    /// The level when the settings name no filter.
    pub default_level: LevelFilter,
    /// The format where the settings name none and standard error is not a terminal.
    pub default_format: LogFormat,
    /// Whether and where to export.
    pub export: &'a TelemetrySettings,
    /// The process's environment, for the standard `OTEL_` variables. Those that the OpenTelemetry
    /// SDK reads by itself (sampler, queue sizes, intervals, resource attributes, headers) it
    /// takes from the process.
    pub environment: &'a Environment,
}

/// Telemetry could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another subscriber is installed in this process.
    #[error("logs are set up already")]
    AlreadyStarted(#[source] tracing::subscriber::SetGlobalDefaultError),
    /// A thread or a client for exporting could not be made.
    #[error("cannot set up the export of {what}")]
    Export {
        /// What was to be exported.
        what: &'static str,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Running telemetry. Dropping it without [`Telemetry::shutdown`] loses what is not exported yet
/// and never blocks.
#[derive(Debug)]
pub struct Telemetry {
    exports: Option<otlp::Exports>,
    human: bool,
}

impl Telemetry {
    /// Whether log lines are written for people rather than as JSON.
    #[must_use]
    pub fn is_human(&self) -> bool {
        self.human
    }

    /// How many export requests failed so far.
    #[must_use]
    pub fn export_failures(&self) -> u64 {
        self.exports.as_ref().map_or(0, otlp::Exports::failures)
    }

    /// Exports what is left, for `timeout` at most, and ends exporting. Logs to standard error go
    /// on.
    pub async fn shutdown(self, timeout: Duration) {
        if let Some(exports) = self.exports
            && !exports.shutdown(timeout).await
        {
            tracing::warn!("some telemetry was not exported in time and is lost");
        }
    }
}

/// What is wrong with the `OTEL_` variables that matter with these settings, for the one report of
/// all mistakes.
#[must_use]
pub fn find_mistakes(export: &TelemetrySettings, environment: &Environment) -> Vec<Mistake> {
    otlp::find_mistakes(export, environment)
}

/// Sets up logs, and exports when an endpoint is known. Once in a process.
///
/// # Errors
///
/// When it was called before, or an exporter cannot be made. A collector that cannot be reached is
/// no error.
pub fn start(options: &Options<'_>) -> Result<Telemetry, Error> {
    let exports = otlp::start(options)?;
    let human = match options.log.format {
        LogFormat::Auto => {
            options.default_format == LogFormat::Human || std::io::stderr().is_terminal()
        }
        LogFormat::Human => true,
        LogFormat::Json => false,
    };
    let subscriber = Registry::default()
        .with(console_layer(human).with_filter(log_filter(options, options.default_level)))
        .with(exports.as_ref().map(|exports| exports.layers(options)));
    tracing::subscriber::set_global_default(subscriber).map_err(Error::AlreadyStarted)?;

    opentelemetry::global::set_text_map_propagator(TraceContextPropagator::new());
    if let Some(exports) = &exports {
        exports.install_meter();
    }
    Ok(Telemetry { exports, human })
}

/// Libraries that log what whoever uses them reports anyway (every end of a connection is an error
/// to lapin, and to rmcp's workers), or what others say at length (rmcp logs a server's whole
/// introduction) or again and again (every break of an event stream that is opened again), or what
/// is a client's own mistake and in its answer (rmcp warns of every wrong name of a tool, and takes
/// an answer to a call that its client has cancelled for an error). The settings can still ask for
/// them by name.
const QUIET_LIBRARIES: &str = "lapin=off,rmcp=warn,rmcp::service=off,\
    rmcp::transport::worker=off,rmcp::transport::streamable_http_server=off,\
    rmcp::transport::common::client_side_sse=error";

/// The filter that the settings name, else `level`. It knows targets and levels only: a filter that
/// can also go by spans would have to look at each of them whenever it is entered and left.
fn log_filter(options: &Options<'_>, level: LevelFilter) -> Targets {
    let level = level.to_string();
    let directives = options.log.filter.as_ref().map_or(&*level, |filter| filter.as_str());
    // Of two directives for one target the later one holds.
    let directives = format!("{QUIET_LIBRARIES},{directives}").parse();
    directives.expect("ours are right, and those of the settings were checked when they were read")
}

fn console_layer(human: bool) -> Box<dyn Layer<Registry> + Send + Sync> {
    // Complaints about a closed standard error must not go to standard error.
    let base = tracing_subscriber::fmt::layer().log_internal_errors(false);
    if human {
        let base = base.with_writer(|| OneLine(std::io::stderr()));
        base.with_ansi(report::has_color()).boxed()
    } else {
        let base = base.with_writer(std::io::stderr);
        let json = tracing_subscriber::fmt::format().json().flatten_event(true);
        let line = Correlated(json.with_span_list(false));
        base.fmt_fields(SpanFields).event_format(line).boxed()
    }
}
