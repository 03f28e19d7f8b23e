//! How a [`Toolbus`] is put together.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use toolbus_bus::requester::Requester;
use toolbus_bus::responder::ParkedRequest;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_policy::LivePolicy;
use toolbus_tools::artifact::ReadReferences;
use toolbus_tools::bus::{self, ServeOptions};
use toolbus_tools::gate::Gate;
use toolbus_tools::invoker::{InvokerBuilder, Shape};
use toolbus_tools::observe::Observe;
use toolbus_tools::policy::Policy;
use toolbus_tools::registry::{self, Offer};
use toolbus_tools::tool_search::FindTools;
use toolbus_tools::{GrantCheck, GrantSigner, Guide, Guides, Invoker, Registry};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Topic, topic};

use crate::agent::{Agent, AgentDeps, BuiltinTools};
use crate::embedded::EmbeddedServices;
use crate::error::Error;
use crate::local_tools;
#[cfg(feature = "mcp")]
use crate::mcp_servers::McpServers;
use crate::scripting::Scripts;
use crate::toolbus::{StartedParts, Toolbus, ToolbusDeps};

/// Registers tools that send requests over the bus.
type RegisterRemoteTools =
    Box<dyn FnOnce(&Registry, &Requester) -> Result<(), registry::Error> + Send>;

/// Builds a [`Toolbus`]. Defaults: a bus in memory, the agent's standard name, every call allowed,
/// and no tools.
#[must_use = "nothing is opened before `open`"]
pub struct ToolbusBuilder {
    name: Option<String>,
    instance: InstanceId,
    bus: Option<Arc<dyn Bus>>,
    registry: Arc<Registry>,
    invoker: InvokerBuilder,
    grant_check: GrantCheck,
    guides: Vec<Guide>,
    tools: Vec<Offer>,
    remote_tools: Vec<RegisterRemoteTools>,
    scripts: Option<Scripts>,
    #[cfg(feature = "mcp")]
    mcp: Option<McpServers>,
    offers_directly: bool,
    serve_concurrency: Option<NonZeroU16>,
    parked: Vec<ParkedRequest>,
    tool_finder: Option<Arc<dyn FindTools>>,
}

impl ToolbusBuilder {
    pub(crate) fn new() -> Self {
        let registry = Arc::new(Registry::new());
        Self {
            name: None,
            instance: InstanceId::random(),
            bus: None,
            invoker: Invoker::builder(Arc::clone(&registry)),
            registry,
            grant_check: GrantCheck::off(),
            guides: Vec::new(),
            tools: Vec::new(),
            remote_tools: Vec::new(),
            scripts: None,
            #[cfg(feature = "mcp")]
            mcp: None,
            offers_directly: false,
            serve_concurrency: None,
            parked: Vec::new(),
            tool_finder: None,
        }
    }

    /// Names the agent: 1 to 64 of `A-Z`, `a-z`, `0-9`, `_` and `-`, and none of `refresh`,
    /// `status`, `cancel`, `mcp`. Its topics and queues carry the name; processes of one name share
    /// what is sent to it. By default it is `RockBot`.
    pub fn name(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }

    /// Says what tells this process from others of the same name. By default it is random.
    pub fn instance(self, instance: InstanceId) -> Self {
        Self { instance, ..self }
    }

    /// Joins this bus: a broker through `toolbus-rabbitmq`, or another connection to a
    /// [`MemoryBus`]. It stays open when the [`Toolbus`] is closed, for whoever opened it closes
    /// it. By default there is a bus in memory, of this process alone.
    pub fn bus(self, bus: Arc<dyn Bus>) -> Self {
        Self { bus: Some(bus), ..self }
    }

    /// Has this policy decide which calls may run. By default all may.
    pub fn policy(self, policy: impl Policy) -> Self {
        Self { invoker: self.invoker.policy(policy), ..self }
    }

    /// Has this rule book decide which calls may run, in place of any other policy, and count them
    /// against its limits. It can be replaced while calls are made: see [`LivePolicy::replace`].
    pub fn rule_book(self, policy: &LivePolicy) -> Self {
        let invoker = self.invoker.policy(policy.clone()).gate(policy.rate_limit());
        Self { invoker, ..self }
    }

    /// Adds a grant to every request that has passed the gates, for workers that check grants. It
    /// is signed with a [`GrantSigningKey`](crate::GrantSigningKey), or made with a
    /// [`GrantKey`](crate::GrantKey) that the workers have too. By default requests carry none.
    pub fn grants(self, signer: impl Into<GrantSigner>) -> Self {
        Self { invoker: self.invoker.grants(signer), ..self }
    }

    /// Has the scripts and MCP servers of this process take only requests that pass this check. By
    /// default they take those of everybody on the bus, so have one where others share it.
    pub fn grant_check(self, check: GrantCheck) -> Self {
        Self { grant_check: check, ..self }
    }

    /// The tools, of which there are more once it is [open](ToolbusBuilder::open).
    #[must_use]
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Has this find tools by what they are for, where `tool_search` finds none that has the text
    /// it is asked for.
    pub fn tool_finder(self, finder: Arc<dyn FindTools>) -> Self {
        Self { tool_finder: Some(finder), ..self }
    }

    /// Tells this observer of every call, beside those there are.
    pub fn observe(self, observer: Arc<dyn Observe>) -> Self {
        Self { invoker: self.invoker.observe(observer), ..self }
    }

    /// Has every call pass this gate, after permission, schema and the gates there are.
    pub fn gate(self, gate: impl Gate + 'static) -> Self {
        Self { invoker: self.invoker.gate(gate), ..self }
    }

    /// Has this gate find the credentials of calls, such as `toolbus-vault`'s, in place of any
    /// other. It comes behind all gates that let pass or refuse, whatever else is built after it:
    /// only calls that may run have credentials. A tool reads them by
    /// [`ToolContext::credential`](crate::ToolContext::credential) or out of its
    /// [`Invocation`](crate::Invocation), and they are erased from what it says. By default no call
    /// has any.
    pub fn credentials(self, gate: impl Gate + 'static) -> Self {
        Self { invoker: self.invoker.credentials(gate), ..self }
    }

    /// Has this read the artifacts that calls refer to, such as `toolbus-artifacts`' own, before it
    /// is known what a call is about. By default a reference is an object like others.
    pub fn references(self, reader: impl ReadReferences) -> Self {
        Self { invoker: self.invoker.references(reader), ..self }
    }

    /// Has this register tools that send requests over the bus, before calls are taken.
    pub fn remote_tools(
        mut self,
        register: impl FnOnce(&Registry, &Requester) -> Result<(), registry::Error> + Send + 'static,
    ) -> Self {
        self.remote_tools.push(Box::new(register));
        self
    }

    /// Has this step shape every output, after those there are and before outputs are bounded.
    pub fn shape(self, shape: Arc<dyn Shape>) -> Self {
        Self { invoker: self.invoker.shape(shape), ..self }
    }

    /// Adds a guide to a group of tools, in place of one that has its name.
    pub fn guide(mut self, guide: Guide) -> Self {
        self.guides.push(guide);
        self
    }

    /// Adds a tool that runs in this process: one from a function (see [`tool`](crate::tool)), or
    /// any [`Tool`](crate::Tool) with its executor as an [`Offer`].
    pub fn tool(mut self, tool: impl Into<Offer>) -> Self {
        self.tools.push(tool.into());
        self
    }

    /// Gives the agent the tool `execute_python_script`, and says who runs the scripts. By default
    /// it does not have it.
    pub fn scripts(self, scripts: Scripts) -> Self {
        Self { scripts: Some(scripts), ..self }
    }

    /// Runs these MCP servers in this process, for every agent on the bus. By default there are
    /// none; servers of other bridges on the bus are known either way.
    ///
    /// A bus delivers each call to every bridge on it, and a second one would answer it as well:
    /// have one on each bus.
    #[cfg(feature = "mcp")]
    pub fn mcp(self, servers: McpServers) -> Self {
        Self { mcp: Some(servers), ..self }
    }

    /// Makes every tool of every MCP server a tool of its own as well, named `server__tool`, at
    /// most 10,000 of them.
    pub fn direct_tools(self) -> Self {
        Self { offers_directly: true, ..self }
    }

    /// Answers calls that come over the bus, to this agent or to every one, so many at a time; more
    /// wait in the queue. By default the agent answers none.
    pub fn serve_calls(self, concurrency: NonZeroU16) -> Self {
        Self { serve_concurrency: Some(concurrency), ..self }
    }

    /// Takes up calls from the bus again that an earlier process has left parked, before new ones.
    /// It takes [`serve_calls`](ToolbusBuilder::serve_calls), and calls that came by the topics
    /// which this agent answers; otherwise [`open`](ToolbusBuilder::open) fails, so that no call is
    /// lost.
    pub fn resume_parked(self, parked: Vec<ParkedRequest>) -> Self {
        Self { parked, ..self }
    }

    /// Starts everything. Needs a tokio runtime to be running, with time and I/O enabled.
    ///
    /// MCP servers are still being connected to when this returns; see
    /// `Toolbus::wait_for_servers`.
    ///
    /// # Errors
    /// When a name, a tool, a parked call or the list of MCP servers cannot be used, or a queue
    /// cannot be had. What had been started ends then.
    pub async fn open(self) -> Result<Toolbus, Error> {
        let name = match &self.name {
            Some(name) => AgentName::parse(name).map_err(Error::Name)?,
            None => AgentName::standard(),
        };
        local_tools::check_names(&self.tools)?;
        self.check_parked(&name)?;
        let builtin_tools = self.choose_builtin_tools();

        let guides = Guides::default();
        self.guides.into_iter().for_each(|guide| guides.add(guide));
        let own_bus = self.bus.is_none();
        let bus = self.bus.unwrap_or_else(|| Arc::new(MemoryBus::new()));

        let services = EmbeddedServices {
            scripts: self
                .scripts
                .and_then(|Scripts { local, allowance }| local.map(|local| (local, allowance))),
            #[cfg(feature = "mcp")]
            mcp: self.mcp,
            grant_check: self.grant_check,
        };
        let embedded = services.start(&bus, &name).await?;

        let deps = AgentDeps {
            bus: Arc::clone(&bus),
            name: name.clone(),
            instance: self.instance.clone(),
            registry: Arc::clone(&self.registry),
            invoker: self.invoker,
            guides,
            builtin_tools,
            tool_finder: self.tool_finder,
        };
        let agent = Agent::start(deps).await?;
        let local_tools = local_tools::register_tools(&self.registry, self.tools)?;
        for register in self.remote_tools {
            register(&self.registry, agent.requester())?;
        }
        if self.offers_directly {
            agent.directory().offer_directly();
        }

        // Tools first: a call that waits in the queue may be about any of them.
        let served = match self.serve_concurrency {
            Some(concurrency) => {
                let options = ServeOptions {
                    agent: name.clone(),
                    instance: self.instance.clone(),
                    concurrency,
                    parked: self.parked,
                };
                Some(bus::serve(Arc::clone(&bus), agent.invoker(), options).await?)
            }
            None => None,
        };
        let bridge_answer = agent.directory().refresh().await;

        let started = StartedParts { served, embedded, local_tools };
        Ok(Toolbus::new(ToolbusDeps { bus, own_bus, agent, started, bridge_answer }))
    }

    /// Checks that parked calls have somebody who resumes them.
    fn check_parked(&self, agent: &AgentName) -> Result<(), Error> {
        if self.serve_concurrency.is_none() && !self.parked.is_empty() {
            return Err(Error::ParkedWithoutServing(self.parked.len()));
        }

        let own_topic = topic::tool_invoke_agent(agent);
        let is_answered = |topic: &Topic| *topic == own_topic || *topic == topic::TOOL_INVOKE;
        match self.parked.iter().find(|request| !is_answered(request.topic())) {
            Some(stray) => Err(Error::ParkedElsewhere(stray.topic().clone())),
            None => Ok(()),
        }
    }

    /// Guides are there wherever somebody may bring one: scripts do, bridges do. The search is
    /// there where bridges may bring many tools, and where a tool is found by it only.
    fn choose_builtin_tools(&self) -> BuiltinTools {
        let has_bridge = self.bus.is_some();
        #[cfg(feature = "mcp")]
        let has_bridge = has_bridge || self.mcp.is_some();

        BuiltinTools {
            guides: has_bridge || self.scripts.is_some() || !self.guides.is_empty(),
            scripts: self.scripts.as_ref().map(|scripts| scripts.allowance),
            search: has_bridge || self.tools.iter().any(|offer| offer.tool.defer),
        }
    }
}

impl fmt::Debug for ToolbusBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<&str> = self.tools.iter().map(|offer| &*offer.tool.name).collect();
        f.debug_struct("ToolbusBuilder")
            .field("name", &self.name)
            .field("instance", &self.instance)
            .field("tools", &tools)
            .field("scripts", &self.scripts)
            .field("serve_concurrency", &self.serve_concurrency)
            .field("parked", &self.parked.len())
            .finish_non_exhaustive()
    }
}
