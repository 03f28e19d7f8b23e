//! Export by OTLP: protobuf over HTTP, one pipeline a signal.
//!
//! What the standard `OTEL_` variables say is honoured where it is supported; what is asked for
//! and not supported is a mistake that is told, not a surprise in the collector.

use std::sync::atomic::Ordering;
use std::time::Duration;

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{
    LogExporter, MetricExporter, Protocol, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::resource::{
    EnvResourceDetector, ResourceDetector, TelemetryResourceDetector,
};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::sync::oneshot;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;

use super::client::{SignalClient, Transport};
use super::{Error, Identity, Options, log_filter};
use toolbus_config::shared_settings::TelemetrySettings;
use toolbus_config::{Environment, HttpUrl, Mistake};

/// How long one request may take when no variable says otherwise; the standard's default.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Signal {
    Traces,
    Metrics,
    Logs,
}

impl Signal {
    const ALL: [Self; 3] = [Self::Traces, Self::Metrics, Self::Logs];

    fn name(self) -> &'static str {
        match self {
            Self::Traces => "traces",
            Self::Metrics => "metrics",
            Self::Logs => "logs",
        }
    }

    /// The variables for one question, such as `ENDPOINT`: the signal's own before the common one.
    fn environment_variables(self, question: &str) -> [String; 2] {
        let own = self.name().to_ascii_uppercase();
        [format!("OTEL_EXPORTER_OTLP_{own}_{question}"), format!("OTEL_EXPORTER_OTLP_{question}")]
    }

    /// Where the signal goes, `None` when it is not exported. The common endpoint is a base that
    /// the signal's path is added to; the signal's own is taken as it is.
    fn endpoint(
        self,
        export: &TelemetrySettings,
        environment: &Environment,
    ) -> Option<Result<HttpUrl, Mistake>> {
        let exporter = format!("OTEL_{}_EXPORTER", self.name().to_ascii_uppercase());
        if !export.enabled || environment.value(&exporter) == Some("none") {
            return None;
        }

        let [own, _] = self.environment_variables("ENDPOINT");
        if let Some(text) = environment.value(&own) {
            return Some(text.parse().map_err(|what: String| {
                Mistake::new(own, format!("not the URL of an HTTP endpoint: {what}"))
            }));
        }

        Some(Ok(export.endpoint.as_ref()?.below(&["v1", self.name()])))
    }

    /// How long one request may take; milliseconds in the variable.
    fn timeout(self, environment: &Environment) -> Duration {
        let own_or_common = self.environment_variables("TIMEOUT");
        let text = own_or_common.iter().find_map(|name| environment.value(name));
        text.and_then(|text| text.parse().ok()).map_or(REQUEST_TIMEOUT, Duration::from_millis)
    }
}

/// See [`super::find_mistakes`].
pub(super) fn find_mistakes(export: &TelemetrySettings, environment: &Environment) -> Vec<Mistake> {
    let mut found = Vec::new();
    for signal in Signal::ALL {
        match signal.endpoint(export, environment) {
            None => continue,
            Some(Err(mistake)) => found.push(mistake),
            Some(Ok(_)) => {}
        }

        for (question, problem) in QUESTIONS {
            let names = signal.environment_variables(question);
            let set = names.into_iter().find_map(|name| Some((environment.value(&name)?, name)));
            if let Some((text, name)) = set
                && let Some(what) = problem(text)
            {
                found.push(Mistake::new(name, what));
            }
        }
    }

    found
}

/// What is wrong with the answer that a variable gives, if anything.
type Problem = fn(&str) -> Option<String>;

const QUESTIONS: [(&str, Problem); 6] = [
    ("PROTOCOL", |protocol| {
        (protocol != "http/protobuf").then(|| {
            let port = "usually at port 4318";
            format!("`{protocol}` is not supported, only `http/protobuf` is ({port})")
        })
    }),
    ("COMPRESSION", |compression| {
        (!["none", "gzip"].contains(&compression))
            .then(|| format!("`{compression}` is not supported, only `gzip` and `none` are"))
    }),
    ("CERTIFICATE", |_| {
        Some("not supported; SSL_CERT_FILE names a file of certificates to trust".to_owned())
    }),
    ("CLIENT_CERTIFICATE", |_| Some("not supported".to_owned())),
    ("TIMEOUT", |timeout| {
        timeout.parse::<u64>().err().map(|_| "not a number of milliseconds".to_owned())
    }),
    ("HEADERS", |headers| {
        let bad = |pair: &str| !pair.trim().is_empty() && !pair.contains('=');
        // The entry itself may be a credential.
        let index = headers.split(',').position(bad)?;
        Some(format!("entry {} is not of the form name=value", index + 1))
    }),
];

/// The pipelines of a process.
#[derive(Debug)]
pub(super) struct Exports {
    traces: Option<SdkTracerProvider>,
    metrics: Option<SdkMeterProvider>,
    logs: Option<SdkLoggerProvider>,
    transport: Transport,
}

/// Makes a pipeline for every signal that has an endpoint; `None` when none has.
pub(super) fn start(options: &Options<'_>) -> Result<Option<Exports>, Error> {
    let endpoint = |signal: Signal| signal.endpoint(options.export, options.environment)?.ok();
    let endpoints = Signal::ALL.map(endpoint);
    if endpoints.iter().all(Option::is_none) {
        return Ok(None);
    }

    let transport =
        Transport::new().map_err(|source| Error::Export { what: "telemetry", source })?;
    let resource = service_resource(options);
    let client =
        |signal: Signal| transport.client(signal.name(), signal.timeout(options.environment));
    let [traces, metrics, logs] = endpoints;

    Ok(Some(Exports {
        traces: traces
            .map(|url| tracer_provider(client(Signal::Traces), &url, &resource))
            .transpose()?,
        metrics: metrics
            .map(|url| meter_provider(client(Signal::Metrics), &url, &resource))
            .transpose()?,
        logs: logs.map(|url| logger_provider(client(Signal::Logs), &url, &resource)).transpose()?,
        transport,
    }))
}

impl Exports {
    /// The layers that feed traces and logs.
    pub(super) fn layers<S>(&self, options: &Options<'_>) -> Vec<Box<dyn Layer<S> + Send + Sync>>
    where
        S: tracing::Subscriber + for<'a> tracing_subscriber::registry::LookupSpan<'a> + Send + Sync,
    {
        let mut layers = Vec::new();
        if let Some(traces) = &self.traces {
            let tracer = traces.tracer("toolbus");
            let layer = tracing_opentelemetry::layer()
                .with_tracer(tracer)
                .with_location(false)
                .with_target(false)
                .with_threads(false)
                .with_tracked_inactivity(false);
            layers.push(layer.with_filter(span_filter(options.identity)).boxed());
        }

        if let Some(logs) = &self.logs {
            let filter = log_filter(options, LevelFilter::INFO);
            layers.push(OpenTelemetryTracingBridge::new(logs).with_filter(filter).boxed());
        }

        layers
    }

    /// Makes the instruments of the whole process record.
    pub(super) fn install_meter(&self) {
        let Some(metrics) = &self.metrics else { return };
        opentelemetry::global::set_meter_provider(metrics.clone());
        let failures = self.transport.failures();
        let meter = opentelemetry::global::meter("toolbus.runtime");
        super::EXPORT_FAILURES.observed_counter(&meter, move |observer| {
            observer.observe(failures.load(Ordering::Relaxed), &[]);
        });
    }

    pub(super) fn failures(&self) -> u64 {
        self.transport.failures().load(Ordering::Relaxed)
    }

    /// Flushes all signals at once and tells whether all of them ended within `timeout`.
    pub(super) async fn shutdown(self, timeout: Duration) -> bool {
        let Self { traces, metrics, logs, transport } = self;
        let ended = [
            traces.map(|traces| on_thread(move || traces.shutdown_with_timeout(timeout))),
            metrics.map(|metrics| on_thread(move || metrics.shutdown_with_timeout(timeout))),
            logs.map(|logs| on_thread(move || logs.shutdown_with_timeout(timeout))),
        ];
        let deadline = tokio::time::Instant::now() + timeout;
        let mut all = true;

        for end in ended.into_iter().flatten() {
            all &= matches!(tokio::time::timeout_at(deadline, end).await, Ok(Ok(true)));
        }

        drop(transport);
        all
    }
}

/// Each provider's queue is bounded by the SDK (2048 items unless an `OTEL_` variable says
/// otherwise) and drops what does not fit.
fn tracer_provider(
    client: SignalClient,
    url: &HttpUrl,
    resource: &Resource,
) -> Result<SdkTracerProvider, Error> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url.expose())
        .build()
        .map_err(|error| Error::Export { what: "traces", source: error.into() })?;
    let provider = SdkTracerProvider::builder().with_resource(resource.clone());
    Ok(provider.with_batch_exporter(exporter).build())
}

fn meter_provider(
    client: SignalClient,
    url: &HttpUrl,
    resource: &Resource,
) -> Result<SdkMeterProvider, Error> {
    let exporter = MetricExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url.expose())
        .build()
        .map_err(|error| Error::Export { what: "metrics", source: error.into() })?;
    let provider = SdkMeterProvider::builder().with_resource(resource.clone());
    Ok(provider.with_periodic_exporter(exporter).build())
}

fn logger_provider(
    client: SignalClient,
    url: &HttpUrl,
    resource: &Resource,
) -> Result<SdkLoggerProvider, Error> {
    let exporter = LogExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url.expose())
        .build()
        .map_err(|error| Error::Export { what: "logs", source: error.into() })?;
    let provider = SdkLoggerProvider::builder().with_resource(resource.clone());
    Ok(provider.with_batch_exporter(exporter).build())
}

/// What every span, metric and log line says of its process. `OTEL_RESOURCE_ATTRIBUTES` wins over
/// what we know; a service name in the settings, which is `OTEL_SERVICE_NAME` too, wins over it.
fn service_resource(options: &Options<'_>) -> Resource {
    let identity = options.identity;
    let mut ours = vec![
        KeyValue::new("service.name", identity.program),
        KeyValue::new("service.version", identity.version),
        KeyValue::new("service.instance.id", identity.instance.clone()),
    ];

    ours.extend(identity.name.clone().map(|name| KeyValue::new("toolbus.name", name)));
    let detectors: [Box<dyn ResourceDetector>; 2] =
        [Box::new(TelemetryResourceDetector), Box::new(EnvResourceDetector::new())];
    let builder = Resource::builder_empty().with_attributes(ours).with_detectors(&detectors);

    match &options.export.service_name {
        Some(name) => builder.with_service_name(name.clone()).build(),
        None => builder.build(),
    }
}

/// Only our own spans are traces: those of libraries are for their authors.
fn span_filter(identity: &Identity) -> Targets {
    Targets::new()
        .with_target("toolbus", LevelFilter::INFO)
        .with_target(identity.program.replace('-', "_"), LevelFilter::INFO)
}

/// Runs a blocking end of the SDK on a thread of its own: some take seconds longer than they are
/// told to, and then nobody waits for that thread. The receiver says whether it ended well.
fn on_thread(end: impl FnOnce() -> OTelSdkResult + Send + 'static) -> oneshot::Receiver<bool> {
    let (ended, wait) = oneshot::channel();
    let run = move || {
        // Nobody listens any more when the time was up before.
        let _ = ended.send(end().is_ok());
    };
    let thread = std::thread::Builder::new().name("telemetry-end".to_owned()).spawn(run);
    // Without a thread the sender is gone, which the receiver takes for a failure.
    drop(thread);
    wait
}
