//! The HTTP client that export requests go through.
//!
//! The SDK exports on plain threads of its own; requests are handed from there to a small runtime
//! that serves nothing else. So exporting neither waits for the service's runtime nor slows it,
//! and works while that runtime is busy or gone. The runtime's thread has no tracing subscriber:
//! what the HTTP stack says there is not exported, which would make the next request, and so on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::{Builder, Runtime};
use tokio_util::task::TaskTracker;
use tracing::Dispatch;

use super::outage::Outages;

/// Largest answer of a collector that is read, in bytes; they are a few bytes long.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The runtime that export requests run on, with the one HTTP client of all signals.
pub(super) struct Transport {
    runtime: Option<Runtime>,
    http: reqwest::Client,
    failures: Arc<AtomicU64>,
    outages: Arc<Outages>,
}

impl Transport {
    /// Makes the runtime and the client; no I/O.
    pub(super) fn new() -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        crate::tls::install();
        let http = reqwest::Client::builder()
            // A redirect would carry the credentials of the headers to somewhere else.
            .redirect(reqwest::redirect::Policy::none())
            .pool_max_idle_per_host(1)
            .build()?;

        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(1)
            .thread_name("telemetry-http")
            .enable_io()
            .enable_time()
            .on_thread_start(|| {
                // Kept for the life of the thread, so the guard is not to be dropped.
                std::mem::forget(tracing::dispatcher::set_default(&Dispatch::none()));
            })
            .build()?;

        let (failures, outages) = (Arc::default(), Arc::default());
        Ok(Self { runtime: Some(runtime), http, failures, outages })
    }

    /// The client for one signal.
    /// `timeout` is for one request from its start to the end of its answer.
    pub(super) fn client(&self, signal: &'static str, timeout: Duration) -> SignalClient {
        let runtime = self.runtime.as_ref().expect("the runtime is only taken when dropped");
        SignalClient {
            signal,
            timeout,
            http: self.http.clone(),
            runtime: runtime.handle().clone(),
            requests: TaskTracker::new(),
            failures: Arc::clone(&self.failures),
            outages: Arc::clone(&self.outages),
        }
    }

    /// How many requests failed so far.
    pub(super) fn failures(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.failures)
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        // A plain drop waits for the threads, which async code must not.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").field("failures", &self.failures).finish_non_exhaustive()
    }
}

/// Sends the requests of one signal, counts those that fail and warns once of an outage.
#[derive(Debug)]
pub(super) struct SignalClient {
    signal: &'static str,
    timeout: Duration,
    http: reqwest::Client,
    runtime: tokio::runtime::Handle,
    requests: TaskTracker,
    failures: Arc<AtomicU64>,
    outages: Arc<Outages>,
}

#[async_trait::async_trait]
impl HttpClient for SignalClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let port = request.uri().port_u16();
        let (parts, body) = request.into_parts();
        let request = self
            .http
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .timeout(self.timeout)
            .body(body);

        let sent = send_request(request);
        let outcome = match self.requests.spawn_on(sent, &self.runtime).await {
            Ok(outcome) => outcome,
            Err(_) => Err("exporting has ended".into()),
        };

        match &outcome {
            Ok(response) if response.status().is_success() => self.record_success(),
            Ok(response) => {
                self.record_failure(&format!("HTTP status {}", response.status()), port)
            }
            Err(error) => self.record_failure(&error_chain(&**error), port),
        }

        outcome
    }
}

impl SignalClient {
    fn record_success(&self) {
        if self.outages.record_success(self.signal) {
            tracing::info!(signal = self.signal, "telemetry is exported again");
        }
    }

    /// Runs on the SDK's thread, where the process's subscriber hears it and the SDK keeps it from
    /// being exported.
    fn record_failure(&self, cause: &str, port: Option<u16>) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed) + 1;
        if !self.outages.record_failure(self.signal, cause) {
            return;
        }
        let hint = match port {
            Some(4317) => "port 4317 is usually gRPC; this is protobuf over HTTP, usually 4318",
            _ => "it is dropped until the collector takes it again",
        };
        tracing::warn!(signal = self.signal, cause, failures, "telemetry is not exported: {hint}");
    }
}

async fn send_request(request: reqwest::RequestBuilder) -> Result<Response<Bytes>, HttpError> {
    // Errors name no URL: it may hold a password.
    let mut answer = request.send().await.map_err(reqwest::Error::without_url)?;
    let mut response = Response::builder().status(answer.status());
    if let Some(headers) = response.headers_mut() {
        *headers = std::mem::take(answer.headers_mut());
    }

    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err("the collector's answer is too large".into());
        }
        body.extend_from_slice(&chunk);
    }

    Ok(response.body(body.into())?)
}

fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
