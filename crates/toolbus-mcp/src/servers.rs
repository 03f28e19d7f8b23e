//! All servers of a bridge: which there are, which of them takes a call, and what has changed.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::mcp::{McpGetServiceDetailsResponse, McpServerSummary};

use crate::call::{Call, CallError};
use crate::call_result::CallResult;
use crate::claims::Claims;
use crate::config::{Entry, ToolChanges};
use crate::connection::Means;
use crate::failure::Failure;
use crate::http;
use crate::metrics::Metrics;
use crate::registrations::Registrations;
use crate::server::{Origin, Server, State};
use crate::server_name::ServerName;
use crate::supervisor::Supervisor;
use crate::transport::environment;
use crate::trust::findings::{Reader, quote_name};
use crate::trust::{AcceptError, Pins, Trust};

mod apply;
mod changes;
mod lookup;
mod observe;
mod register;
mod route;

pub(crate) use apply::Wanted;
pub use changes::{Change, Changes};
pub use register::{REGISTERED_MAX, Registered, UnregisterError};

/// Most clashes of names that are told of one server.
const CLASHES_TOLD_MAX: usize = 20;
/// How long calls that are running on a server may go on after it was removed.
const REMOVE_GRACE: Duration = Duration::from_secs(10);

/// What holds for every server that does not say otherwise.
#[derive(Debug, Clone)]
pub struct Options {
    /// How long connecting may take, the list of tools included.
    pub connect_timeout: Duration,
    /// How long a call may take when nobody says.
    pub call_timeout: Duration,
    /// How long a call may take at most, unless the entry of its server says.
    pub call_timeout_max: Duration,
    /// Calls of one server at a time; more are refused as busy.
    pub calls_per_server_max: usize,
    /// Who looks after servers that are children of this process. Without one they are started
    /// directly, and a descendant that leaves their process group may outlive them.
    pub supervisor: Option<Supervisor>,
    /// Where the servers are written down that agents register; without, they are forgotten.
    pub(crate) registrations: Option<Arc<Registrations>>,
    /// What becomes of a tool whose definition changes, unless the entry of its server says.
    pub tool_changes: ToolChanges,
    /// Where the definitions of tools are pinned.
    pub pins: Pins,
    /// The folder that keeps the tokens of servers where a person has logged in. Without one
    /// nobody can.
    pub tokens: Option<PathBuf>,
    /// The environment of which children get a small part, see [`Options::new`].
    environment: Vec<(OsString, OsString)>,
}

impl Options {
    /// The defaults: 15 s to connect, 60 s and at most 120 s for a call, 64 calls of a server
    /// at a time.
    ///
    /// Of `environment`, usually that of this process, children get what programs need to find
    /// their way (`PATH`, `HOME`, proxies, certificates and the like) and nothing else.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self {
            connect_timeout: Duration::from_secs(15),
            call_timeout: Duration::from_secs(60),
            call_timeout_max: Duration::from_secs(120),
            calls_per_server_max: 64,
            supervisor: None,
            registrations: None,
            tool_changes: ToolChanges::default(),
            pins: Pins::in_memory(),
            tokens: None,
            environment: environment::minimal(environment),
        }
    }
}

/// All servers. A cheap handle; the last one to go stops them.
#[derive(Clone)]
pub struct Set(Arc<Inner>);

/// All servers, if anybody still has them.
pub(crate) struct Reference(std::sync::Weak<Inner>);

impl Reference {
    pub(crate) fn upgrade(&self) -> Option<Set> {
        self.0.upgrade().map(Set)
    }
}

struct Inner {
    shared: Arc<Shared>,
    /// In the order of the configuration; what was added later comes last.
    servers: RwLock<Vec<Arc<Server>>>,
}

/// What the servers of one set share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) means: Means,
    pub(crate) stop: CancellationToken,
    pub(crate) trust: Trust,
    pub(crate) claims: Claims,
    revision: AtomicU64,
    news: watch::Sender<()>,
}

/// One server as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its name.
    pub name: ServerName,
    /// Where it stands.
    pub state: State,
    /// The line about it for agents, with its tools; `None` until it has listed them once.
    pub summary: Option<McpServerSummary>,
    /// What an operator should know of its tools: changes, what is held back, hidden characters,
    /// names that another server had first. It quotes text of the server.
    pub notices: Vec<String>,
}

/// Why the servers cannot be started at all.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be built")]
pub struct StartError(#[from] reqwest::Error);

/// Why a server was not added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddError {
    /// There is a server of that name already.
    #[error("there is an MCP server '{0}' already")]
    Exists(ServerName),
    /// There is one of the operator's of that name.
    #[error("the MCP server '{0}' is the operator's")]
    Operators(ServerName),
    /// Agents have registered [`REGISTERED_MAX`] servers.
    #[error("there are {REGISTERED_MAX} registered servers already")]
    TooMany,
    /// There is a server whose name looks almost the same.
    #[error("the name looks like that of MCP server '{0}'")]
    LooksLike(ServerName),
    /// It cannot be connected to, so it was not kept.
    #[error("{0}")]
    Failed(Failure),
    /// Everything is closed.
    #[error("the servers are closed")]
    Closed,
}

impl Shared {
    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Says that there may be something new.
    pub(crate) fn announce(&self) {
        self.news.send_replace(());
    }
}

impl Set {
    /// Starts to connect to all servers at the same time, and returns at once. Needs a tokio
    /// runtime to be running.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(entries: Vec<Entry>, options: Options) -> Result<Self, StartError> {
        if options.supervisor.is_none() {
            tracing::warn!("MCP servers are not supervised: what they start may outlive them");
        }
        let means = Means {
            clients: http::Clients::new()?,
            tracker: TaskTracker::new(),
            environment: options.environment.clone(),
            supervisor: options.supervisor.clone(),
            tokens: options.tokens.clone(),
            metrics: Arc::new(Metrics::new()),
        };
        let (pins, beginning) = (options.pins.clone(), options.connect_timeout);
        let shared = Arc::new(Shared {
            trust: Trust::new(pins, options.tool_changes, beginning),
            claims: Claims::default(),
            options,
            means,
            stop: CancellationToken::new(),
            revision: AtomicU64::new(0),
            news: watch::Sender::new(()),
        });
        let start = |entry| {
            let server = Server::new(entry, Origin::Operator, Arc::clone(&shared));
            shared.means.tracker.spawn(Arc::clone(&server).keep());
            server
        };
        let servers = RwLock::new(entries.into_iter().map(start).collect());
        let set = Self(Arc::new(Inner { shared, servers }));
        observe::observe(set.downgrade());
        Ok(set)
    }

    /// Waits until the first attempt of every server has ended, well or not: at most the time that
    /// connecting may take.
    pub async fn settled(&self) {
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.settled())).await;
    }

    /// All servers, in order.
    #[must_use]
    pub fn list(&self) -> Vec<Status> {
        self.servers().iter().map(|server| self.status(server)).collect()
    }

    /// Where each of them stands.
    pub(crate) fn states(&self) -> Vec<(ServerName, State)> {
        let servers = self.servers();
        servers.iter().map(|server| (server.entry.name.clone(), server.state())).collect()
    }

    /// One server, by its name in any case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<Status> {
        self.server(name).map(|server| self.status(&server))
    }

    /// All about one server, once it has listed its tools.
    #[must_use]
    pub fn details(&self, name: &str) -> Option<McpGetServiceDetailsResponse> {
        self.server(name)?.details()
    }

    /// How long a call may take when its caller does not say.
    #[must_use]
    pub fn call_timeout(&self, server: Option<&str>, tool: &str) -> Duration {
        let route = self.route(server, tool).ok();
        let granted = route.and_then(|route| route.server.entry.timeout_of(route.tool(tool)));
        granted.unwrap_or(self.0.shared.options.call_timeout)
    }

    /// Whether a call may be made again when nobody knows whether it was: the server says that the
    /// tool changes nothing, or nothing more the second time.
    #[must_use]
    pub fn may_repeat(&self, server: Option<&str>, tool: &str) -> bool {
        self.route(server, tool).is_ok_and(|route| route.server.may_repeat(route.tool(tool)))
    }

    /// Calls a tool.
    ///
    /// A call that names its server goes there, whatever that lists; a server that is away is
    /// tried first. A call that names none goes to the server that had the tool's name first: by
    /// the pins, else by the order of the configuration. No other server can take the name over.
    /// Names that are not exact are understood where they can mean one thing only.
    ///
    /// # Errors
    /// When there is no result; see [`CallError`].
    pub async fn call(&self, call: Call) -> Result<CallResult, CallError> {
        let mut call = self.unwrapped(call);
        let mut route = self.route(call.server.as_deref(), &call.tool)?;
        call.tool = route.tool.take().unwrap_or(call.tool);
        let mut outcome = route.server.call(&call).await;
        if matches!(outcome, Err(CallError::NotConnected { .. })) && route.server.is_closing() {
            // It may have been replaced before it was sent the call.
            let next = self.route(call.server.as_deref(), &call.tool)?;
            if !Arc::ptr_eq(&next.server, &route.server) {
                route = next;
                outcome = route.server.call(&call).await;
            }
        }
        route.server.with_hints(&call, outcome)
    }

    /// Accepts what has changed of a tool, or of all tools of a server, as
    /// [`Pins::accept`] does, and lists the server's tools again.
    ///
    /// # Errors
    /// When the pins cannot be used, or no such change waits.
    pub async fn accept(
        &self,
        server: &str,
        tool: Option<&str>,
    ) -> Result<Vec<String>, AcceptError> {
        let pins = self.0.shared.trust.pins().clone();
        let (name, tool) = (server.to_owned(), tool.map(str::to_owned));
        let accepted = tokio::task::spawn_blocking(move || pins.accept(&name, tool.as_deref()));
        let accepted =
            accepted.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
        self.refresh(Some(server)).await;
        Ok(accepted)
    }

    /// Asks one server, or all at the same time, for their tools again. Connections and the calls
    /// on them go on; servers that are away are tried. A server that does not answer keeps the list
    /// that it had.
    pub async fn refresh(&self, name: Option<&str>) {
        let servers = match name {
            Some(name) => self.server(name).into_iter().collect(),
            None => self.servers(),
        };
        join_all(servers.iter().map(async |server| {
            if let Err(failure) = server.refresh().await {
                tracing::debug!(server = %server.entry.name, %failure, "not refreshed");
            }
        }))
        .await;
    }

    /// Adds a server and waits until it is connected.
    ///
    /// # Errors
    /// When its name is taken, or it cannot be connected to: then it is as if it had never been
    /// there.
    pub async fn add(&self, entry: Entry) -> Result<McpServerSummary, AddError> {
        self.add_as(entry, Origin::Agent).await?.summary().ok_or(AddError::Closed)
    }

    async fn add_as(&self, entry: Entry, origin: Origin) -> Result<Arc<Server>, AddError> {
        let shared = &self.0.shared;
        let server = Server::new(entry, origin, Arc::clone(shared));
        let name = server.entry.name.clone();
        {
            // Put in its place before it is connected, so that of two with one name one is refused.
            let mut servers = self.0.servers.write();
            if shared.stop.is_cancelled() {
                return Err(AddError::Closed);
            }
            if servers.iter().any(|other| other.entry.name == name) {
                return Err(AddError::Exists(name));
            }
            if let Some(other) = servers.iter().find(|other| other.entry.name.looks_like(&name)) {
                server.give_up_names();
                return Err(AddError::LooksLike(other.entry.name.clone()));
            }
            servers.push(Arc::clone(&server));
        }
        shared.means.tracker.spawn(Arc::clone(&server).keep());
        let unfinished = Unfinished { set: self, server: Some(Arc::clone(&server)) };
        if let Err(failure) = server.settled().await {
            return Err(AddError::Failed(failure));
        }
        unfinished.finish();
        Ok(server)
    }

    /// Removes a server and tells whether it was there. Calls that run on it may go on for a
    /// while; then it is closed. One that a followed file lists comes back; for those of agents see
    /// [`Set::unregister`]. Needs a tokio runtime to be running.
    pub fn remove(&self, name: &str) -> bool {
        let removed = {
            let mut servers = self.0.servers.write();
            let index = servers.iter().position(|server| server.entry.name.matches(name));
            index.map(|index| servers.remove(index))
        };
        let Some(server) = removed else { return false };
        server.give_up_names();
        self.0.shared.announce();
        self.0.shared.means.tracker.spawn(async move { server.close(REMOVE_GRACE).await });
        true
    }

    /// Ends everything: takes no more calls, waits up to `grace` for those that run, closes every
    /// connection, and returns when every child is gone.
    pub async fn close(&self, grace: Duration) {
        let servers = self.servers();
        join_all(servers.iter().map(|server| server.close(grace))).await;
        self.0.shared.stop.cancel();
        self.0.shared.announce();
        let tracker = &self.0.shared.means.tracker;
        tracker.close();
        tracker.wait().await;
    }

    /// Ends with everything else: for tasks that look after the set.
    pub(crate) fn tasks(&self) -> (&TaskTracker, CancellationToken) {
        (&self.0.shared.means.tracker, self.0.shared.stop.clone())
    }

    /// A handle that does not keep the servers running.
    pub(crate) fn downgrade(&self) -> Reference {
        Reference(Arc::downgrade(&self.0))
    }

    fn servers(&self) -> Vec<Arc<Server>> {
        self.0.servers.read().clone()
    }

    fn server(&self, name: &str) -> Option<Arc<Server>> {
        self.0.servers.read().iter().find(|server| server.entry.name.matches(name)).cloned()
    }

    fn status(&self, server: &Server) -> Status {
        let mut notices = server.notices(Reader::Operator);
        for (tool, owner) in
            self.0.shared.claims.clashes(server.position).iter().take(CLASHES_TOLD_MAX)
        {
            let servers = self.0.servers.read();
            let owner = servers.iter().find(|server| server.position == *owner);
            let owner = owner.map_or("another server", |server| server.entry.name.as_str());
            notices.push(format!(
                "tool {} is also one of '{owner}', which had it first",
                quote_name(tool)
            ));
        }
        Status {
            name: server.entry.name.clone(),
            state: server.state(),
            summary: server.summary(),
            notices,
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

/// A server that is being added. Dropped before it is finished, also with the future of its
/// [`Set::add`], the server is removed.
struct Unfinished<'a> {
    set: &'a Set,
    server: Option<Arc<Server>>,
}

impl Unfinished<'_> {
    fn finish(mut self) {
        self.server = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            let mut servers = self.set.0.servers.write();
            servers.retain(|other| !Arc::ptr_eq(other, &server));
            // It may have been about to replace another, which keeps its names.
            if servers.iter().all(|other| other.position != server.position) {
                server.give_up_names();
            }
            drop(servers);
            server.abandon();
        }
    }
}
