//! A fetcher of a test, and names that resolve to what the test says.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use toolbus_fetch::{
    Body, BodyLimit, Error, FetchConfig, FetchRequest, Fetcher, Oversize, ResolveHost,
};
use toolbus_testkit::scripted_server::{Reply, Server};
use url::Url;

/// Names of a test. No other is asked for.
#[derive(Default)]
pub(crate) struct Names(BTreeMap<String, Vec<IpAddr>>);

impl Names {
    pub(crate) fn with(mut self, name: &str, addresses: &[&str]) -> Self {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address"));
        self.0.insert(name.to_owned(), addresses.collect());
        self
    }
}

impl ResolveHost for Names {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        let found = self.0.get(name).cloned();
        Box::pin(std::future::ready(found.ok_or_else(|| io::Error::other("no such name"))))
    }
}

pub(crate) fn fetcher(allowed: &[&str]) -> Fetcher {
    fetcher_with(allowed, Names::default())
}

pub(crate) fn fetcher_with(allowed: &[&str], names: Names) -> Fetcher {
    let allowed_hosts = allowed.iter().map(|entry| entry.parse().expect("an entry")).collect();
    let config = FetchConfig { allowed_hosts, resolver: Arc::new(names) };
    Fetcher::new(config).expect("a client")
}

/// A server that answers any path so, and where it is, without a slash at the end.
pub(crate) async fn server(reply: impl Fn(&str) -> Reply + Send + 'static) -> (Server, String) {
    let server = Server::answering_any(move |asked| reply(&asked.path)).await;
    let base = server.url.strip_suffix("/v1").expect("it ends so").to_owned();
    (server, base)
}

pub(crate) fn get(url: &str) -> FetchRequest {
    FetchRequest::get(Url::parse(url).expect(url))
}

pub(crate) const REFUSE: BodyLimit = BodyLimit { bytes_max: 10_000, oversize: Oversize::Refuse };
pub(crate) const CUT: BodyLimit = BodyLimit { bytes_max: 10_000, oversize: Oversize::Cut };

pub(crate) async fn read(
    fetcher: &Fetcher,
    request: FetchRequest,
    limit: BodyLimit,
) -> Result<Body, Error> {
    fetcher.send(request).await?.read(limit).await
}

pub(crate) fn port_of(base: &str) -> &str {
    base.rsplit(':').next().expect("a port")
}
