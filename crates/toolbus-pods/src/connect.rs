//! The connection to the cluster.
//!
//! The client library leaves Nagle's algorithm on (<https://github.com/kube-rs/kube/issues/2056>):
//! what follows the first part of a request, such as its body, waits until the API server has
//! acknowledged that part, which takes it 40 ms where it has nothing to answer yet. The library
//! takes no setting for that, so its layers are put around a connector that sends at once.

use std::time::Duration;

use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use kube::{Client, Config, Error};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

/// How long a connection is kept that is quiet. The API server keeps it for 90 s: with as much
/// here, a request would now and then be sent over one that it closes at that moment.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// A client of the cluster that a configuration names, like the library's own.
///
/// # Errors
/// When the configuration cannot be used.
pub fn connect(config: Config) -> Result<Client, Error> {
    if config.proxy_url.is_some() {
        // The library knows the way, or says that it does not.
        return Client::try_from(config);
    }

    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);

    let mut http = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    http.pool_idle_timeout(IDLE_TIMEOUT).pool_timer(TokioTimer::new());
    let retries = config.default_retry.then(|| RetryLayer::new(RetryPolicy::server_retry()));

    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(retries)
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http.build::<_, Body>(connector));

    Ok(ClientBuilder::new(service, config.default_namespace).build())
}
