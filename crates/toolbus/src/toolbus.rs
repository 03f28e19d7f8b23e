//! The open [`Toolbus`]: calls, and how everything ends.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use toolbus_bus::deadline::REQUEST_TIMEOUT_MAX;
use toolbus_bus::responder::{ParkedRequest, Responder};
use toolbus_bus::{Bus, PublishError};
use toolbus_mcp_agent::McpDirectory;
use toolbus_tools::call::Outcome;
use toolbus_tools::registry::{Provider, Snapshot};
use toolbus_tools::{Call, CallError, Door, Invoker, Principal, Scope};
use toolbus_wire::name::AgentName;
use toolbus_wire::topic;

use crate::agent::Agent;
use crate::builder::ToolbusBuilder;
use crate::embedded::Embedded;
use crate::open_calls::OpenCalls;

/// How long calls that run may take to end when [`Toolbus::close`] is called, before they are
/// cancelled.
pub const CLOSE_GRACE_DEFAULT: Duration = Duration::from_secs(5);
/// Longest grace of [`Toolbus::close_within`] and [`Toolbus::drain`]; a longer one is cut to it. No
/// call may take longer.
pub const CLOSE_GRACE_MAX: Duration = REQUEST_TIMEOUT_MAX;
/// How long a bus of our own may take to close.
const BUS_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An agent on a bus, with the services that run in this process. Clones are the same.
///
/// It is ended by [`close`](Toolbus::close). When the last clone is dropped without that,
/// everything is told to end and nothing is waited for; a call from the bus that runs goes on to
/// its end and is answered.
#[derive(Clone)]
pub struct Toolbus {
    inner: Arc<Inner>,
}

/// What a [`Toolbus`] is made of.
pub(crate) struct ToolbusDeps {
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) own_bus: bool,
    pub(crate) agent: Agent,
    pub(crate) started: StartedParts,
    pub(crate) bridge_answer: Result<bool, PublishError>,
}

/// What was started and runs until it is stopped.
pub(crate) struct StartedParts {
    pub(crate) served: Option<[Responder; 2]>,
    pub(crate) embedded: Embedded,
    pub(crate) local_tools: Provider,
}

struct Inner {
    bus: Arc<dyn Bus>,
    own_bus: bool,
    agent: Agent,
    bridge_answer: Result<bool, PublishError>,
    #[cfg(feature = "mcp")]
    servers: Option<toolbus_mcp::server_pool::ServerPool>,
    /// Calls that were made here.
    calls: OpenCalls,
    /// What answers calls from the bus. Held while it stops, so that whoever stops it as well
    /// waits.
    served: Mutex<Option<[Responder; 2]>>,
    /// Taken by the one task that closes.
    services: Mutex<Option<OpenServices>>,
    /// Tasks that stop something. They end whatever becomes of those who wait for them.
    stopping: TaskTracker,
}

/// What ends after the last call.
struct OpenServices {
    embedded: Embedded,
    local_tools: Provider,
}

impl Toolbus {
    /// A builder of a [`Toolbus`].
    pub fn builder() -> ToolbusBuilder {
        ToolbusBuilder::new()
    }

    pub(crate) fn new(deps: ToolbusDeps) -> Self {
        let ToolbusDeps { bus, own_bus, agent, started, bridge_answer } = deps;
        let StartedParts { served, embedded, local_tools } = started;

        let inner = Inner {
            bus,
            own_bus,
            agent,
            bridge_answer,
            #[cfg(feature = "mcp")]
            servers: embedded.servers(),
            calls: OpenCalls::default(),
            served: Mutex::new(served),
            services: Mutex::new(Some(OpenServices { embedded, local_tools })),
            stopping: TaskTracker::new(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Calls a tool and waits for its one outcome. Dropping the future drops the tool's work.
    ///
    /// Without a deadline of the scope's budget the call takes as long as its tool says. For
    /// progress, questions or a time of its own, make a [`Call`] and [`invoke`](Toolbus::invoke)
    /// it.
    ///
    /// # Errors
    /// Why there is no output; see [`CallError`]. Once [`close`](Toolbus::close) was called it is
    /// [`ErrorCode::Cancelled`](toolbus_wire::ErrorCode::Cancelled): not started for a new call,
    /// and for one that runs when the grace is over.
    pub async fn call(&self, scope: &Arc<Scope>, tool: &str, arguments: Value) -> Outcome {
        match Call::by_name(scope, tool, arguments) {
            Ok(call) => self.invoke(call).await,
            Err(error) => Err(CallError::invalid_arguments(error.to_string())),
        }
    }

    /// Makes a call and waits for its one outcome, as [`call`](Toolbus::call) does.
    ///
    /// # Errors
    /// Those of [`call`](Toolbus::call).
    pub async fn invoke(&self, call: Call) -> Outcome {
        self.inner.calls.invoke(self.invoker(), call).await
    }

    /// A scope of calls that this program makes for somebody, in a run that begins now with what
    /// the policy lets it spend; see the `with_` functions of [`Scope`] for session, budget and
    /// view.
    #[must_use]
    pub fn scope(&self, principal: Principal) -> Scope {
        let scope = Scope::new(Door::Embedded, principal, self.name().clone());
        self.invoker().begin_run(scope)
    }

    /// A scope of calls that this program makes for itself, as [`scope`](Toolbus::scope) makes it.
    /// Calls of one scope belong to one run.
    #[must_use]
    pub fn local_scope(&self) -> Arc<Scope> {
        Arc::new(self.scope(Principal::local()))
    }

    /// The agent's name.
    #[must_use]
    pub fn name(&self) -> &AgentName {
        self.inner.agent.name()
    }

    /// The agent.
    #[must_use]
    pub fn agent(&self) -> &Agent {
        &self.inner.agent
    }

    /// The invoker of the agent's tools; see [`Agent::invoker`].
    #[must_use]
    pub fn invoker(&self) -> &Invoker {
        self.inner.agent.invoker()
    }

    /// What the agent knows of MCP servers.
    #[must_use]
    pub fn directory(&self) -> &McpDirectory {
        self.inner.agent.directory()
    }

    /// The tools as they are now, in the order in which models should see them.
    #[must_use]
    pub fn tools(&self) -> Arc<Snapshot> {
        self.invoker().registry().snapshot()
    }

    /// The bus.
    #[must_use]
    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.inner.bus
    }

    /// Whether a bridge was there to be asked for its MCP servers when this was opened. One that
    /// comes later announces itself.
    ///
    /// # Errors
    /// When the bus did not take the request. It is sent again when the broker is back.
    pub fn has_bridge(&self) -> Result<bool, PublishError> {
        self.inner.bridge_answer.clone()
    }

    /// Waits up to `limit` for a tool that has yet to be announced, and says whether it is there;
    /// see [`Agent::wait_for_tool`].
    pub async fn wait_for_tool(&self, name: &str, limit: Duration) -> bool {
        self.inner.agent.wait_for_tool(name, limit).await
    }

    /// Whether an MCP server of this name, in any case, is run in this process.
    #[cfg(feature = "mcp")]
    #[must_use]
    pub fn runs_server(&self, name: &str) -> bool {
        self.inner.servers.as_ref().is_some_and(|servers| servers.find(name).is_some())
    }

    /// Waits up to `limit` until each MCP server of this process has been connected to or could not
    /// be, and the agent knows which of it. Answers whether that is so; it is where there are none.
    #[cfg(feature = "mcp")]
    pub async fn wait_for_servers(&self, limit: Duration) -> bool {
        let Some(servers) = &self.inner.servers else { return true };
        let directory = self.directory();
        let is_announced = |known: &[toolbus_wire::message::mcp::McpServerSummary]| {
            let mut listed = servers.list().into_iter().filter_map(|status| status.summary);
            listed.all(|summary| known.iter().any(|known| is_same_offer(known, &summary)))
        };

        let settled = async {
            servers.wait_settled().await;
            let is_known = |known: &_| directory.has_heard() && is_announced(known);
            directory.until(|known| is_known(known) && directory.is_settled()).await;
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// Takes up calls from the bus again that were left to a store, here or by another process; see
    /// [`Slot::leave`](toolbus_bus::Slot::leave). Those that this agent does not answer, or not any
    /// more, are left where they are: answers whether there were such.
    pub async fn resume_parked(&self, parked: Vec<ParkedRequest>) -> bool {
        let served = self.inner.served.lock().await;
        let Some([shared, own]) = &*served else { return !parked.is_empty() };
        let own_topic = topic::tool_invoke_agent(self.name());

        let mut has_strays = false;
        for request in parked {
            match request.topic() {
                to if *to == own_topic => own.take_up(request),
                to if *to == topic::TOOL_INVOKE => shared.take_up(request),
                _ => has_strays = true,
            }
        }
        has_strays
    }

    /// Takes no more calls from the bus, and waits up to `grace`, at most [`CLOSE_GRACE_MAX`], for
    /// those that run; then they are given back to their queues. Calls of this program go on.
    ///
    /// Dropping the future ends the waiting and nothing else.
    pub async fn drain(&self, grace: Duration) {
        let inner = Arc::clone(&self.inner);
        let grace = grace.min(CLOSE_GRACE_MAX);
        let stopping = self.inner.stopping.spawn(async move { inner.stop_served(grace).await });

        if let Err(error) = stopping.await {
            tracing::error!(%error, "failed to stop serving calls");
        }
    }

    /// Ends everything that this started, with [`CLOSE_GRACE_DEFAULT`] for calls that run.
    pub async fn close(&self) {
        self.close_within(CLOSE_GRACE_DEFAULT).await;
    }

    /// Ends everything that this started: refuses new calls, waits up to `grace`, at most
    /// [`CLOSE_GRACE_MAX`], for those that run and cancels the rest, withdraws the tools, and stops
    /// the services and the MCP servers of this process, those of a call from elsewhere on the bus
    /// within what is left of `grace`. A bus that was given stays open.
    ///
    /// It is done once, by a task of its own: dropping the future ends the waiting and nothing
    /// else, and whoever closes it a second time waits for the first, whose grace counts. A
    /// [`drain`](Toolbus::drain) that is under way is waited for as long as its own grace lasts.
    pub async fn close_within(&self, grace: Duration) {
        let Inner { calls, services, stopping, .. } = &*self.inner;
        calls.refuse_new();

        let services = services.lock().await.take();
        if let Some(services) = services {
            let inner = Arc::clone(&self.inner);
            stopping.spawn(inner.end(services, grace.min(CLOSE_GRACE_MAX)));
            // From now on `wait` ends with the last of the tasks.
            stopping.close();
        }
        stopping.wait().await;
    }
}

impl Inner {
    /// Takes no more calls from the bus, and waits up to `grace` for those that run.
    async fn stop_served(&self, grace: Duration) {
        let mut served = self.served.lock().await;
        let responders = served.take().into_iter().flatten();
        join_all(responders.map(|responder| responder.stop(grace))).await;
    }

    /// Ends everything, once no new calls are taken.
    async fn end(self: Arc<Self>, services: OpenServices, grace: Duration) {
        let OpenServices { embedded, local_tools } = services;
        let started_at = Instant::now();
        join(self.stop_served(grace), self.calls.end_within(grace)).await;

        drop(local_tools);
        self.agent.close().await;
        embedded.stop(grace.saturating_sub(started_at.elapsed())).await;
        if self.own_bus {
            self.bus.close(BUS_CLOSE_TIMEOUT).await;
        }
    }
}

impl fmt::Debug for Toolbus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbus")
            .field("name", self.name())
            .field("is_closing", &self.inner.calls.is_closing())
            .finish_non_exhaustive()
    }
}

/// Whether the agent knows of a server what its bridge says now.
#[cfg(feature = "mcp")]
fn is_same_offer(
    known: &toolbus_wire::message::mcp::McpServerSummary,
    listed: &toolbus_wire::message::mcp::McpServerSummary,
) -> bool {
    known.server_name == listed.server_name
        && known.tool_names == listed.tool_names
        && known.unavailable.is_some() == listed.unavailable.is_some()
}
