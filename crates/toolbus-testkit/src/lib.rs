//! Real parts for tests: a private RabbitMQ node, PostgreSQL, MCP servers, a telemetry collector, a
//! metrics store, our own services as processes, and a Python whose scripts reach the test; and a
//! place that keeps the spans of a test.
//!
//! Everything that is started here is ended here: at drop, and by a small guard process when the
//! test process dies without dropping anything. Nothing of the machine is shared or changed: ports
//! are free ones on the loopback interface, files are in folders of their own.
//!
//! A part that is not installed ends a test early with a printed line ([`rabbit::vhost`] and its
//! like return `None`), or fails it when `TOOLBUS_REQUIRE_REAL=1`, as `cargo xtask test` sets it.
//! Nothing is fetched or installed from here; `dev/setup` and `dev/parts/fetch` do that.
//!
//! Only for tests and benchmarks: no crate of the product depends on this one but as a
//! dev-dependency.

use std::env;
use std::io::{self, Write as _};
use std::time::Duration;

pub mod a2a_sdk;
pub mod google;
pub mod grafana;
pub mod litellm;
pub mod mcp;
pub mod memory;
pub mod metrics;
pub mod model_sdks;
pub mod oidc;
pub mod openapi_client;
pub mod openrouter;
pub mod otlp;
pub mod pika;
pub mod postgres;
pub mod process;
pub mod prometheus;
pub mod rabbit;
pub mod s3;
pub mod script_python;
pub mod scripted_server;
pub mod search;
pub mod spans;
pub mod state;
pub mod tools;
pub mod trace;

mod declared;
mod parts;
mod ports;
mod wait;

pub use wait::{eventually, quiet_for};

/// Says that a test cannot run for want of a real part, and fails it where that is not allowed.
///
/// # Panics
/// When `TOOLBUS_REQUIRE_REAL` is `1`.
fn skip(reason: &str) {
    assert!(
        env::var("TOOLBUS_REQUIRE_REAL").as_deref() != Ok("1"),
        "{reason} (TOOLBUS_REQUIRE_REAL=1 forbids skipping)"
    );
    // Written past the test harness, which hides what a passing test prints. A test that cannot
    // say that it was skipped is still skipped.
    let _ = writeln!(io::stderr(), "skipped: {reason}");
}

/// Returns a builder of HTTP clients for loopback: no proxy, and the machine's cryptography.
///
/// A client wants a provider of cryptography even if it will not need it, and each test has a
/// process of its own.
pub fn http_client_builder() -> reqwest::ClientBuilder {
    // Being second is no error: any provider will do.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder().no_proxy()
}

/// Returns an HTTP client for loopback, with ten seconds for each request.
fn http_client() -> anyhow::Result<reqwest::Client> {
    Ok(http_client_builder().timeout(Duration::from_secs(10)).build()?)
}
