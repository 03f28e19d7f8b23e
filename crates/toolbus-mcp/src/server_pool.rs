//! The pool of all MCP servers of a bridge: which there are, which of them takes a call, and what
//! has changed.
//!
//! The pool itself only composes: the roster owns the list of servers, the router decides which of
//! them a call means, and each server owns its connection.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::clock::unix_now;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpGetServiceDetailsResponse, McpServerSummary};

use crate::call::{Call, CallError, Naming};
use crate::call_result::CallResult;
use crate::claims::Claims;
use crate::config::{Entry, StdioIsolation, ToolChanges};
use crate::connection::SharedDeps;
use crate::failure::Failure;
use crate::http;
use crate::metrics::Metrics;
use crate::ownership::Ownerships;
use crate::registration_rules::PrivateAddresses;
use crate::registrations::Registrations;
use crate::server::{Server, ServerOrigin, ServerState};
use crate::server_credentials::ServerCredentials;
use crate::server_name::ServerName;
use crate::supervisor::Supervisor;
use crate::transport::child_environment;
use crate::transport::sandbox::Sandboxes;
use crate::transport::shield::Shield;
use crate::trust::findings::{Reader, quote_name};
use crate::trust::{AcceptError, PinnedItem, Pins, Trust};

mod changes;
mod hints;
mod ownership;
mod pool_gauges;
mod pool_reads;
mod pool_update;
mod registration;
mod roster;
mod route;

pub use changes::{Change, Changes};
pub(crate) use ownership::Whereabouts;
pub(crate) use pool_update::DesiredServers;
use registration::PendingAddition;
pub use registration::{REGISTERED_MAX, Registered, UnregisterError};
use roster::ServerRoster;
use route::ToolRouter;

/// Most clashing tool names that the notices about one server list.
const CLASHES_REPORTED_MAX: usize = 20;
/// How long calls that are running on a server may go on after it was removed.
const REMOVE_GRACE: Duration = Duration::from_secs(10);

/// The settings of a pool, which hold for every server that does not say otherwise.
#[derive(Debug, Clone)]
pub struct PoolConfig {
    /// How long connecting may take, the list of tools included.
    pub connect_timeout: Duration,
    /// The default time for a call whose caller and server set none.
    pub call_timeout: Duration,
    /// How long a call may take at most, unless the entry of its server says.
    pub call_timeout_max: Duration,
    /// How long a call may take in all whose caller lets progress extend it, while its server
    /// reports some. No effect where an entry grants more.
    pub call_timeout_with_progress_max: Duration,
    /// Calls of one server at a time; more are refused as busy.
    pub calls_per_server_max: usize,
    /// The supervisor of servers that are children of this process. Without one they are started
    /// directly: a descendant that leaves their process group may outlive them, one that is behind
    /// a shield ends at once at SIGTERM, and unless this process has called
    /// [`crate::supervisor::enter`], servers without a shield can read its memory.
    pub supervisor: Option<Supervisor>,
    /// The folder that keeps the homes of the operator's sandboxed servers, with what they have
    /// downloaded. Without one they are in memory and end with their server.
    pub sandbox_homes: Option<PathBuf>,
    /// Whether programs that agents register run in a sandbox, where there can be one: with the
    /// network, and with nothing of the host but the system's programs. Not by default.
    pub sandbox_registered: bool,
    /// Isolation of servers that are programs and whose entries do not set it.
    pub stdio_isolation: StdioIsolation,
    /// Folders that are hidden from servers behind a shield. They are created, for their owner
    /// only, before such a server starts.
    pub secret_folders: Vec<PathBuf>,
    /// Files and folders that are hidden from servers behind a shield if they exist.
    pub secret_paths: Vec<PathBuf>,
    /// The file that keeps the servers that agents register; without, they are forgotten.
    pub(crate) registrations: Option<Arc<Registrations>>,
    /// The policy for a tool whose definition changes, unless the entry of its server has one.
    pub tool_changes: ToolChanges,
    /// Whether servers that agents register may be at addresses that are not public.
    pub private_registration: PrivateAddresses,
    /// The store of pinned definitions of tools.
    pub pins: Pins,
    /// The folder that keeps the tokens of servers where a person has logged in. Without one
    /// no person can log in.
    pub tokens: Option<PathBuf>,
    /// Where servers have the credentials from that their entries name by `${vault:NAME}`. Without
    /// it such servers are not connected.
    pub credentials: Option<ServerCredentials>,
    /// Whether each server is run only while this bridge is elected for it, as [`Bridge`] has it
    /// done; else all are run.
    ///
    /// [`Bridge`]: crate::bridge::Bridge
    pub elects_owners: bool,
    /// The environment of which children get a small part, see [`PoolConfig::new`].
    environment: Vec<(OsString, OsString)>,
}

impl PoolConfig {
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
            call_timeout_with_progress_max: Duration::from_secs(60 * 60),
            calls_per_server_max: 64,
            supervisor: None,
            sandbox_homes: None,
            sandbox_registered: false,
            stdio_isolation: StdioIsolation::default(),
            secret_folders: Vec::new(),
            secret_paths: Vec::new(),
            registrations: None,
            private_registration: PrivateAddresses::Denied,
            tool_changes: ToolChanges::default(),
            pins: Pins::in_memory(),
            tokens: None,
            credentials: None,
            elects_owners: false,
            environment: child_environment::minimal(environment),
        }
    }
}

/// The pool of all servers. A cheap handle; when the last one is dropped, the servers stop.
#[derive(Clone)]
pub struct ServerPool(Arc<PoolInner>);

/// A handle on a pool that does not keep its servers running.
pub(crate) struct WeakServerPool(std::sync::Weak<PoolInner>);

impl WeakServerPool {
    pub(crate) fn upgrade(&self) -> Option<ServerPool> {
        self.0.upgrade().map(ServerPool)
    }
}

struct PoolInner {
    context: Arc<PoolContext>,
    roster: ServerRoster,
}

/// What the servers of one pool share.
pub(crate) struct PoolContext {
    pub(crate) options: PoolConfig,
    pub(crate) deps: SharedDeps,
    pub(crate) stop: CancellationToken,
    pub(crate) trust: Trust,
    pub(crate) claims: Claims,
    pub(crate) ownerships: Ownerships,
    revision: AtomicU64,
    change_signal: watch::Sender<()>,
}

/// The status of one server as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerStatus {
    /// Its name.
    pub name: ServerName,
    /// The state of its connection.
    pub state: ServerState,
    /// The summary for agents, with its tools; `None` until it has listed them once.
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
    /// Another agent has registered one of that name.
    #[error("the MCP server '{0}' was registered by another agent")]
    OtherAgents(ServerName),
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

impl PoolContext {
    fn new(options: PoolConfig) -> Result<Self, StartError> {
        let clients = http::HttpClients::new()?;
        let clients_of_agents = match options.private_registration {
            PrivateAddresses::Allowed => clients.clone(),
            PrivateAddresses::Denied => http::HttpClients::public_only()?,
        };
        let deps = SharedDeps {
            clients,
            clients_of_agents,
            tracker: TaskTracker::new(),
            environment: options.environment.clone(),
            supervisor: options.supervisor.clone(),
            sandboxes: Sandboxes::new(options.sandbox_homes.clone()),
            shield: Shield::new(options.secret_folders.clone(), options.secret_paths.clone()),
            stdio_isolation: options.stdio_isolation,
            sandbox_registered: options.sandbox_registered,
            tokens: options.tokens.clone(),
            credentials: options.credentials.clone(),
            metrics: Arc::new(Metrics::new()),
        };
        let ownerships = match options.elects_owners {
            true => Ownerships::elected(),
            false => Ownerships::all(),
        };
        let trust = Trust::new(options.pins.clone(), options.tool_changes, options.connect_timeout);

        Ok(Self {
            trust,
            claims: Claims::default(),
            ownerships,
            options,
            deps,
            stop: CancellationToken::new(),
            revision: AtomicU64::new(first_revision()),
            change_signal: watch::Sender::new(()),
        })
    }

    pub(crate) fn next_revision(&self) -> u64 {
        self.revision.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Wakes every [`Changes`]: there may be a difference to report.
    pub(crate) fn announce(&self) {
        self.change_signal.send_replace(());
    }

    /// Starts the task that keeps a server connected.
    fn spawn_server(self: &Arc<Self>, entry: Entry, origin: ServerOrigin) -> Arc<Server> {
        let server = Server::new(entry, origin, Arc::clone(self));
        self.spawn_connector(&server);
        server
    }

    pub(crate) fn spawn_connector(&self, server: &Arc<Server>) {
        self.deps.tracker.spawn(Arc::clone(server).keep_connected());
    }

    /// Closes a server in the background, with this grace for the calls that run on it.
    pub(crate) fn spawn_close(&self, server: Arc<Server>, grace: Duration) {
        self.deps.tracker.spawn(async move { server.close(grace).await });
    }
}

impl ServerPool {
    /// Starts to connect to all servers at the same time, and returns at once. Needs a tokio
    /// runtime to be running.
    ///
    /// # Errors
    /// When the HTTP client cannot be built.
    pub fn start(entries: Vec<Entry>, options: PoolConfig) -> Result<Self, StartError> {
        if options.supervisor.is_none() {
            tracing::warn!("MCP servers have no supervisor: their descendants may outlive them");
        }

        let context = Arc::new(PoolContext::new(options)?);
        // Before the first server starts.
        context.deps.shield.hide_environment_files(entries.iter());
        let servers = entries.into_iter();
        let servers = servers.map(|entry| context.spawn_server(entry, ServerOrigin::Operator));
        let roster = ServerRoster::new(servers.collect(), context.stop.clone());

        let pool = Self(Arc::new(PoolInner { context, roster }));
        pool_gauges::observe_servers(pool.to_weak());
        Ok(pool)
    }

    /// Waits until the first attempt of every server has ended, well or not: at most the time that
    /// connecting may take.
    pub async fn wait_settled(&self) {
        let servers = self.0.roster.list();
        join_all(servers.iter().map(|server| server.wait_first_attempt())).await;
    }

    /// All servers, in order.
    #[must_use]
    pub fn list(&self) -> Vec<ServerStatus> {
        self.0.roster.list().iter().map(|server| self.status_of(server)).collect()
    }

    /// The name and the state of each server.
    pub(crate) fn states(&self) -> Vec<(ServerName, ServerState)> {
        let servers = self.0.roster.list();
        servers.iter().map(|server| (server.entry.name.clone(), server.state())).collect()
    }

    /// One server, by its name in any case.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<ServerStatus> {
        self.0.roster.find(name).map(|server| self.status_of(&server))
    }

    /// All about one server, once it has listed its tools.
    #[must_use]
    pub fn details(&self, name: &str) -> Option<McpGetServiceDetailsResponse> {
        self.0.roster.find(name)?.details()
    }

    /// All about one server, by its name in any case; one that is connected for the first time just
    /// now is waited for, up to `limit`.
    ///
    /// # Errors
    /// What there is to say after `Server 'x' is not connected`.
    pub(crate) async fn details_once_connected(
        &self,
        name: &str,
        limit: Duration,
    ) -> Result<McpGetServiceDetailsResponse, String> {
        // In RockBot's words, who says no more than that.
        let server = self.0.roster.find(name).ok_or_else(String::new)?;
        if server.connecting_since().is_some() {
            // Time is up: the server is still being connected, which is said below.
            let _ = timeout(limit, server.wait_first_attempt()).await;
        }

        server.details().ok_or_else(|| {
            let why = server.summary().and_then(|summary| summary.unavailable);
            why.map_or_else(String::new, |why| format!(": {why}"))
        })
    }

    /// How long a call may take when its caller does not say.
    #[must_use]
    pub fn call_timeout(&self, server: Option<&str>, tool: &str) -> Duration {
        let route = self.shared_router().find_route(server, tool).ok();
        let granted = route.and_then(|route| route.server.entry.timeout_of(route.tool_name(tool)));
        granted.unwrap_or(self.0.context.options.call_timeout)
    }

    /// Whether a call with an unknown outcome may be repeated: the server says that the tool
    /// changes nothing, or nothing more the second time.
    #[must_use]
    pub fn may_repeat(&self, server: Option<&str>, tool: &str) -> bool {
        let route = self.shared_router().find_route(server, tool);
        route.is_ok_and(|route| route.server.catalogue.may_repeat(route.tool_name(tool)))
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
        let (server, call, outcome) = self.route_call(call).await?;
        let outcome = outcome.and_then(|result| {
            CallResult::read(&result).ok_or_else(|| CallError::Failed {
                message: format!(
                    "MCP server '{}' gave an answer that is no result of a tool",
                    server.entry.name
                ),
                server_error: None,
                retry_after: None,
            })
        });
        hints::add_hints(&server, &call, outcome)
    }

    /// Calls a tool as [`ServerPool::call`] does, and returns the result as the server wrote it.
    ///
    /// # Errors
    /// When there is no result; see [`CallError`].
    pub async fn relay_call(&self, call: Call) -> Result<RawJson, CallError> {
        self.route_call(call).await?.2
    }

    /// Calls a tool at the server that it is led to.
    async fn route_call(
        &self,
        call: Call,
    ) -> Result<(Arc<Server>, Call, Result<RawJson, CallError>), CallError> {
        let router = self.shared_router();
        let mut call = match call.naming {
            Naming::Exact => call,
            Naming::Forgiving => router.unwrap_call(call),
        };
        let mut route = router.find_route_of(&call)?;
        if let Some(tool) = route.tool.take() {
            call = call.renamed(tool);
        }

        let session = route.server.session_of(&call.caller)?;
        let mut outcome = session.call_tool(&call).await;
        if matches!(outcome, Err(CallError::NotConnected { .. })) && session.is_closing() {
            // It may have been replaced before it was sent the call.
            let next = router.find_route_of(&call)?;
            let next_session = next.server.session_of(&call.caller)?;
            if !Arc::ptr_eq(&next_session, &session) {
                route = next;
                outcome = next_session.call_tool(&call).await;
            }
        }

        Ok((route.server, call, outcome))
    }

    /// Accepts what has changed, one item or all of a server, as [`Pins::accept`] does, and lists
    /// the server's tools again.
    ///
    /// # Errors
    /// When the pins cannot be used, or no such change waits.
    pub async fn accept(
        &self,
        server: &str,
        item: Option<PinnedItem>,
    ) -> Result<Vec<PinnedItem>, AcceptError> {
        let pins = self.0.context.trust.pins().clone();
        let name = server.to_owned();
        let accepted = run_blocking(move || pins.accept(&name, item.as_ref())).await?;

        self.refresh(Some(server)).await;
        Ok(accepted)
    }

    /// Has one server, or all of them, list again before long, and those that are away be tried.
    /// However often this is asked for, a server lists once in half a minute for it.
    pub(crate) fn request_refresh(&self, name: Option<&str>) {
        let servers = match name {
            Some(name) => self.0.roster.find(name).into_iter().collect(),
            None => self.0.roster.list(),
        };
        servers.iter().for_each(|server| server.request_refresh());
    }

    /// Asks one server, or all at the same time, for their tools again. Connections and the calls
    /// on them go on; servers that are away are tried. A server that does not answer keeps the list
    /// that it had.
    pub async fn refresh(&self, name: Option<&str>) {
        let servers = match name {
            Some(name) => self.0.roster.find(name).into_iter().collect(),
            None => self.0.roster.list(),
        };

        let refreshing = servers.iter().map(async |server| {
            if let Err(failure) = server.refresh().await {
                tracing::debug!(
                    server = %server.entry.name, %failure, "refreshing MCP server failed"
                );
            }
        });
        join_all(refreshing).await;
    }

    /// Adds a server and waits until it is connected.
    ///
    /// # Errors
    /// When its name is taken, or it cannot be connected to: then it is as if it had never been
    /// there.
    pub async fn add(&self, entry: Entry) -> Result<McpServerSummary, AddError> {
        let server = self.add_server(entry, ServerOrigin::Agent).await?;
        server.summary().ok_or(AddError::Closed)
    }

    async fn add_server(
        &self,
        entry: Entry,
        origin: ServerOrigin,
    ) -> Result<Arc<Server>, AddError> {
        let context = &self.0.context;
        let server = Server::new(entry, origin, Arc::clone(context));

        // Listed before it is connected, so that of two with one name one is refused.
        self.0.roster.insert(&server)?;
        context.spawn_connector(&server);
        context.announce();
        let pending = PendingAddition::new(self, Arc::clone(&server));

        server.wait_first_attempt().await.map_err(AddError::Failed)?;
        pending.complete();
        Ok(server)
    }

    /// Removes a server and says whether it was there. Calls that run on it may go on for a
    /// while; then it is closed. One that a followed file lists comes back; for those of agents see
    /// [`ServerPool::unregister`]. Needs a tokio runtime to be running.
    pub fn remove(&self, name: &str) -> bool {
        let Some(server) = self.0.roster.remove(name) else { return false };

        server.catalogue.release_claims();
        self.0.context.announce();
        self.0.context.spawn_close(server, REMOVE_GRACE);
        true
    }

    /// Ends everything: takes no more calls, waits up to `grace` for those that run, closes every
    /// connection, and returns when every child is gone.
    pub async fn close(&self, grace: Duration) {
        let servers = self.0.roster.list();
        join_all(servers.iter().map(|server| server.close(grace))).await;

        self.0.context.stop.cancel();
        self.0.context.announce();

        let tracker = &self.0.context.deps.tracker;
        tracker.close();
        tracker.wait().await;
    }

    /// The tracker and the stop token of the pool, for tasks that look after it.
    pub(crate) fn tasks(&self) -> (&TaskTracker, CancellationToken) {
        (&self.0.context.deps.tracker, self.0.context.stop.clone())
    }

    /// A handle that does not keep the servers running.
    pub(crate) fn to_weak(&self) -> WeakServerPool {
        WeakServerPool(Arc::downgrade(&self.0))
    }

    fn shared_router(&self) -> ToolRouter<'_> {
        ToolRouter { roster: &self.0.roster, claims: &self.0.context.claims }
    }

    fn status_of(&self, server: &Server) -> ServerStatus {
        let mut notices = server.catalogue.notices(Reader::Operator);
        let clashes = self.0.context.claims.name_clashes(server.position);
        for (tool, position) in clashes.iter().take(CLASHES_REPORTED_MAX) {
            let owner = self.0.roster.find_by_position(*position);
            let owner = owner.as_ref().map(|server| server.entry.name.as_str());
            let owner = owner.unwrap_or("another server");
            notices.push(format!(
                "tool {} is also one of '{owner}', which had it first",
                quote_name(tool)
            ));
        }

        ServerStatus {
            name: server.entry.name.clone(),
            state: server.state(),
            summary: server.summary(),
            notices,
        }
    }
}

impl Drop for PoolInner {
    fn drop(&mut self) {
        self.context.stop.cancel();
    }
}

/// Where revisions begin: at the time of day, so that those of a bridge are not those of the one
/// that had its servers before.
fn first_revision() -> u64 {
    u64::try_from(unix_now().as_millis()).unwrap_or(0)
}

/// Runs what waits for a disk, to its end even if the caller is dropped.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(output) => output,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
