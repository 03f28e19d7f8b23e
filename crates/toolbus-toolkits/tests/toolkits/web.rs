//! The web, from a server on loopback: searches, pages in markdown, pages in text.

mod browse;
mod fetch;
mod search;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tempfile::TempDir;
use toolbus_fetch::ResolveHost;
use toolbus_memory::{MemoryConfig, MemoryDeps, ResultThreshold, Summaries, WorkingMemory};
use toolbus_store::LazyStore;
use toolbus_testkit::scripted_server::{Asked, Reply, Server};
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::web::{self, Web, WebDeps, WebSettings};
use toolbus_tools::call::{Call, Output};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope};
use toolbus_wire::name::AgentName;

/// Tools of the web, and the server that they ask.
pub(crate) struct WebBench {
    pub(crate) server: Server,
    /// Where it is, without a slash at the end.
    pub(crate) base: String,
    pub(crate) invoker: Invoker,
    _folder: TempDir,
}

/// What stands for a key in these tests.
pub(crate) const KEY: &str = "canary-key-of-a-search-provider";

impl WebBench {
    pub(crate) async fn start(
        answer: impl Fn(&Asked) -> Reply + Send + 'static,
        change: impl FnOnce(&mut WebSettings, &str),
    ) -> Self {
        let environment = |name: &str| (name == "BRAVE_API_KEY").then(|| KEY.to_owned());
        Self::start_with(answer, change, Some(Arc::new(environment))).await
    }

    pub(crate) async fn start_with(
        answer: impl Fn(&Asked) -> Reply + Send + 'static,
        change: impl FnOnce(&mut WebSettings, &str),
        environment: Option<Arc<toolbus_toolkits::Lookup>>,
    ) -> Self {
        let credentials = CredentialPlaces { environment, vault: None };
        Self::start_with_deps(answer, change, WebDeps { credentials, ..WebDeps::default() }).await
    }

    /// `deps` without a memory, which is the test's.
    pub(crate) async fn start_with_deps(
        answer: impl Fn(&Asked) -> Reply + Send + 'static,
        change: impl FnOnce(&mut WebSettings, &str),
        deps: WebDeps,
    ) -> Self {
        let server = Server::answering_any(move |asked| answer(asked)).await;
        let base = server.url.strip_suffix("/v1").expect("it ends so").to_owned();
        let host = base.strip_prefix("http://").expect("a host").parse().expect("a host");
        let mut settings = WebSettings { allowed_hosts: vec![host], ..WebSettings::default() };
        change(&mut settings, &base);

        let folder = tempfile::tempdir().expect("a folder");
        let location = format!("sqlite:{}", folder.path().join("state.db").display());
        let location = location.parse().expect("a location");
        let store = LazyStore::new(location, &[toolbus_memory::MIGRATIONS]);
        let config = MemoryConfig::default();
        let registry = Registry::new();
        let memory = Some(WorkingMemory::new(store.clone(), config.clone()));
        let deps = WebDeps { memory, ..deps };
        web::register(&registry, Web::new(&settings, deps).expect("a client")).expect("names");
        let (threshold, summaries) = (ResultThreshold::default(), Summaries::default());
        let deps = MemoryDeps { store, config, threshold, summaries };
        toolbus_memory::register(&registry, deps).expect("names");
        let invoker = Invoker::builder(Arc::new(registry)).build();
        Self { server, base, invoker, _folder: folder }
    }

    /// Pages by their paths, without settings of their own.
    pub(crate) async fn pages(answer: impl Fn(&str) -> Reply + Send + 'static) -> Self {
        Self::start(move |asked| answer(&asked.path), |_, _| {}).await
    }

    pub(crate) async fn output(&self, tool: &str, arguments: Value) -> Output {
        let session = SessionId::parse("session/s1").expect("a session");
        let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
        let scope = Arc::new(Scope { session: Some(session), ..scope });
        let call = Call::by_name(&scope, tool, arguments).expect("a name");
        self.invoker.invoke(call).await.unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// What a tool says, with `BASE` for the server.
    pub(crate) async fn say(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(!output.is_error, "{tool}: {:?}", output.content);
        output.content.expect("a text").replace(&self.base, "BASE")
    }

    pub(crate) async fn fail(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(output.is_error, "{tool}: {:?}", output.content);
        output.content.expect("a text").replace(&self.base, "BASE")
    }
}

/// A resolver for which every name is on this machine.
pub(crate) struct AllLocal;

impl ResolveHost for AllLocal {
    fn resolve<'a>(&'a self, _name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::ready(Ok(vec![IpAddr::from([127, 0, 0, 1])])))
    }
}

pub(crate) fn html(page: impl Into<String>) -> Reply {
    Reply::body(200, "text/html; charset=utf-8", page.into())
}
