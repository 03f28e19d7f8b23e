//! The fleet around the agent: joined over a broker, or embedded in this process.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use toolbus::{InstanceId, McpServers, Scripts, Toolbus, ToolbusBuilder};
use toolbus_approvals::Approvals;
use toolbus_artifacts::{Artifacts, OffloadOutput, ResolveReferences};
use toolbus_bus::Bus;
use toolbus_chain::ChainDeps;
use toolbus_config::shared_settings::BusSettings;
use toolbus_discovery::Discovery;
use toolbus_memory::{MemoryConfig, MemoryDeps, ProtectResults, ResultThreshold};
use toolbus_policy::{LivePolicy, Preset, RuleBook};
use toolbus_query::Engine;
use toolbus_rabbitmq::Start;
use toolbus_rabbitmq::join::{self, BusHealth, JoinDeps};
use toolbus_runtime::health::{Health, Need, State};
use toolbus_runtime::service::Context;
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_schedule::{ScheduleDeps, Schedules};
use toolbus_scripts::{Runner, ScriptClient, Unavailable};
use toolbus_search::KnownServices;
use toolbus_subagents::{SubagentToolsDeps, Subagents, SubagentsDeps};
use toolbus_tools::Door;
use toolbus_tools::tool_search::FindTools;
use toolbus_vault::{LazyVault, VaultGate};
use toolbus_wire::name::AgentName;
use toolbus_wisps::WispsDeps;

use crate::agent_settings::LongResults;
use crate::kept_discovery::KeptDiscovery;
use crate::other_agents::{self, LateOtherAgents, OtherAgents, Part};
use crate::service_follower::ServiceFollower;
use crate::settings::Settings;
use crate::state::KeptState;
use crate::toolkits::{ToolkitDeps, Toolkits};
use crate::wisp_parts::AnnouncedServers;

/// How long leaving the bus may take.
const BUS_CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// An agent on a bus, with the services on it that live in this process.
pub struct Fleet {
    toolbus: Toolbus,
    policy: LivePolicy,
    is_embedded: bool,
    /// What outlives the process, where there is a place for it.
    state: Option<KeptState>,
    /// The services that can be searched for.
    services: KnownServices,
    /// Those on the bus.
    other_agents: Option<LateOtherAgents>,
    follower: ServiceFollower,
    /// Finds tools by what they are for, where that is wanted.
    discovery: Option<KeptDiscovery>,
    /// How the memory of scripts is bounded that run in this process.
    scripts_memory: Option<&'static str>,
}

/// How a command takes part in a fleet.
pub struct Membership {
    /// How long to try to reach the broker.
    pub start: Start,
    /// What tells this process from others of its name.
    pub instance: InstanceId,
    /// How many calls from the bus are answered at a time. `None`: none are.
    pub concurrency: Option<NonZeroU16>,
}

/// Why there is no fleet.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The broker could not be joined.
    #[error("the broker cannot be joined")]
    Join(#[from] join::Error),
    /// The key of grants cannot be used.
    #[error(transparent)]
    Grants(#[from] toolbus_tools::grant::settings::Error),
    /// The rule book has mistakes.
    #[error(transparent)]
    Policy(#[from] toolbus_policy::Mistakes),
    /// The agent, or an embedded service, could not be started.
    #[error(transparent)]
    Open(#[from] toolbus::Error),
}

impl Fleet {
    /// Joins the fleet of the settings' broker, or brings one up in this process.
    ///
    /// # Errors
    /// When the broker cannot be joined, or the settings of an embedded service are wrong.
    pub async fn start(
        settings: &Settings,
        context: &Context,
        membership: Membership,
    ) -> Result<Self, Error> {
        let Membership { start, instance, concurrency } = membership;
        let policy = load_policy(settings)?;
        let mut builder = begin(settings, &policy, &instance)?;

        // A name that is none ends the start below.
        let state = match AgentName::parse(&settings.name) {
            Ok(agent) => KeptState::of(settings, &agent, &policy).await,
            Err(_) => None,
        };
        if let Some(state) = &state {
            builder = keep_state(builder, settings, state);
        }
        let deps = ToolkitDeps::of(state.as_ref());
        builder = Toolkits::start(settings, &context.health, deps).await.offer(builder);
        let services = KnownServices::default();
        builder = offer_search(builder, services.clone());

        let registry = Arc::clone(builder.registry());
        let discovery = KeptDiscovery::start(settings, registry, &policy, state.as_ref()).await;
        if let Some(discovery) = &discovery {
            builder = builder.observe(discovery.observer()).tool_finder(discovery.finder());
        }

        let is_embedded = settings.bus.url.is_none();
        let runner = match is_embedded {
            true => Some(find_runner(&settings.scripts, &context.health).await),
            false => None,
        };
        // Elsewhere a manager may be there when the first chain is.
        if settings.chains.enabled && !matches!(runner, Some(Err(_))) {
            builder = offer_chains(builder, settings, state.as_ref());
        }
        let vault = state.as_ref().and_then(|state| state.vault.clone());
        if let Some(vault) = &vault {
            builder = builder.credentials(VaultGate(vault.clone()));
        }
        if let Some(concurrency) = concurrency {
            builder = serve_calls(builder, concurrency, state.as_ref()).await;
        }

        let mut scripts_memory = None;
        let builder = if let Some(runner) = runner {
            // Where there is none the tool stays, and says why it does not work: a model that is
            // told can tell.
            let runner = runner.unwrap_or_else(|unavailable| Arc::new(unavailable));
            scripts_memory = runner.memory_accounting();
            embed_services(builder, settings, runner, vault)
        } else {
            let bus = join_bus(&settings.bus, context, start).await?;
            builder.bus(bus).scripts(Scripts::remote().allowance(settings.scripts.allowance()))
        };
        let (servers, works) = (AnnouncedServers::default(), concurrency.is_some());
        let part = Part { instance, works, is_embedded };
        let (builder, other_agents) =
            offer_agents(builder, settings, state.as_ref(), part, servers.clone());
        let toolbus = builder.open().await?;
        servers.set(toolbus.directory());
        if let Some(state) = &state {
            resume_later(&state.approvals, &toolbus);
        }
        let agents = other_agents.as_ref().and_then(|others| others.get());
        let agents = agents.map(|others| others.directory().clone());
        let follower = ServiceFollower::start(toolbus.directory(), agents, services.clone());
        Ok(Self {
            toolbus,
            policy,
            is_embedded,
            state,
            services,
            other_agents,
            follower,
            discovery,
            scripts_memory,
        })
    }

    /// What outlives the process, where there is a place for it.
    pub(crate) fn state(&self) -> Option<&KeptState> {
        self.state.as_ref()
    }

    /// The services that can be searched for.
    pub(crate) fn services(&self) -> &KnownServices {
        &self.services
    }

    /// The other agents on the bus, where they are wanted.
    pub(crate) fn other_agents(&self) -> Option<&OtherAgents> {
        self.other_agents.as_ref()?.get()
    }

    /// Finds tools for what users say, where tools can be found by what they are for.
    pub(crate) fn tool_suggester(&self) -> Option<Arc<dyn FindTools>> {
        self.discovery.as_ref().map(KeptDiscovery::suggester)
    }

    /// Finds tools by what they are for, where that is wanted.
    pub(crate) fn discovery(&self) -> Option<&Discovery> {
        self.discovery.as_ref().map(KeptDiscovery::handle)
    }

    /// The agent and what it calls.
    #[must_use]
    pub fn toolbus(&self) -> &Toolbus {
        &self.toolbus
    }

    /// The policy that decides about its calls.
    #[must_use]
    pub fn policy(&self) -> &LivePolicy {
        &self.policy
    }

    /// Whether the fleet is embedded in this process.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.is_embedded
    }

    /// How the memory of scripts is bounded that run in this process, if any do.
    #[must_use]
    pub fn scripts_memory(&self) -> Option<&'static str> {
        self.scripts_memory
    }

    /// Stops what lives here, with `grace` for calls that run, and leaves the bus.
    pub async fn stop(self, grace: Duration) {
        self.follower.close().await;
        self.toolbus.close_within(grace).await;
        if let Some(discovery) = &self.discovery {
            discovery.close().await;
        }
        if let Some(state) = &self.state {
            state.close().await;
        }
        self.toolbus.bus().close(BUS_CLOSE_TIMEOUT).await;
    }
}

/// Starts a builder with the name in the settings, the policy and the signer of grants.
fn begin(
    settings: &Settings,
    policy: &LivePolicy,
    instance: &InstanceId,
) -> Result<ToolbusBuilder, Error> {
    let builder = Toolbus::builder().name(&settings.name).instance(instance.clone());
    let mut builder = builder.rule_book(policy);
    if settings.direct_tools || settings.discovery.enabled {
        builder = builder.direct_tools();
    }
    if let Some(signer) = settings.grants.load_signer()? {
        builder = builder.grants(signer);
    }
    Ok(builder)
}

/// The same with the tool that finds services.
fn offer_search(builder: ToolbusBuilder, services: KnownServices) -> ToolbusBuilder {
    builder
        .guide(toolbus_search::guide())
        .remote_tools(move |registry, _| toolbus_search::register(registry, &services))
}

/// The same, which answers calls from the bus, and those that an earlier process has left.
async fn serve_calls(
    builder: ToolbusBuilder,
    concurrency: NonZeroU16,
    state: Option<&KeptState>,
) -> ToolbusBuilder {
    let builder = builder.serve_calls(concurrency);
    match state {
        Some(state) => builder.resume_parked(state.take_over().await),
        None => builder,
    }
}

/// The same with what outlives the process: approvals, the audit log, memory, schedules, artifacts.
fn keep_state(builder: ToolbusBuilder, settings: &Settings, state: &KeptState) -> ToolbusBuilder {
    let mut builder = builder.gate(state.approvals.gate());
    if let Some(audit) = &state.audit {
        builder = builder.observe(audit.observer());
    }
    builder = keep_memory(builder, settings, state);
    // Without a model nobody would run what is scheduled.
    if !settings.models.endpoints.is_empty() {
        builder = offer_schedules(builder, state.schedules.clone());
        if settings.subagents.enabled {
            builder = offer_subagents(builder, settings, state);
        }
    }
    match &state.artifacts {
        Some(artifacts) => keep_artifacts(builder, artifacts.clone()),
        None => builder,
    }
}

/// The same with memory: its tools, and the step that keeps long results of turns in it.
fn keep_memory(builder: ToolbusBuilder, settings: &Settings, state: &KeptState) -> ToolbusBuilder {
    let units = settings.agent.long_result_units(&settings.models);
    let threshold = ResultThreshold::by(move |_| units);
    let mut protect = ProtectResults::new(state.memory.clone(), threshold.clone());
    if let Some(artifacts) = &state.artifacts {
        protect = protect.with_artifacts(artifacts.clone());
    }
    let mut builder = match settings.agent.long_results {
        LongResults::Split => builder.shape(Arc::new(protect)),
        LongResults::Cut => builder.shape(Arc::new(protect.cutting())),
        LongResults::Whole => builder,
    };
    for guide in toolbus_memory::guides() {
        builder = builder.guide(guide);
    }
    let (store, config) = (state.store().clone(), MemoryConfig::default());
    let deps = MemoryDeps { store, config, threshold, summaries: state.summaries.clone() };
    builder.remote_tools(move |registry, _| toolbus_memory::register(registry, deps))
}

/// The same with the tools that schedule tasks.
fn offer_schedules(builder: ToolbusBuilder, schedules: Schedules) -> ToolbusBuilder {
    builder.guide(toolbus_schedule::guide()).remote_tools(move |registry, _| {
        toolbus_schedule::register(registry, ScheduleDeps { schedules })
    })
}

/// The same with the tools that split work among subagents.
fn offer_subagents(
    builder: ToolbusBuilder,
    settings: &Settings,
    state: &KeptState,
) -> ToolbusBuilder {
    let config = Arc::new(settings.subagents.config());
    let (made, store) = (Arc::clone(&state.subagents), state.store().clone());
    let (work, on_subagent) = (Arc::new(state.subagent_turns.clone()), state.notices.clone());

    builder.guide(toolbus_subagents::guide()).remote_tools(move |registry, requester| {
        let subagents = Subagents::new(SubagentsDeps {
            bus: Arc::clone(requester.bus()),
            store,
            agent: requester.agent().clone(),
            instance: InstanceId::random(),
            config,
            work,
            on_subagent: Arc::new(on_subagent),
        });
        let _ = made.set(subagents.clone());
        toolbus_subagents::register(registry, SubagentToolsDeps { subagents })
    })
}

/// The same with the tools that have others work: other agents, and wisps.
fn offer_agents(
    builder: ToolbusBuilder,
    settings: &Settings,
    state: Option<&KeptState>,
    part: Part,
    servers: AnnouncedServers,
) -> (ToolbusBuilder, Option<LateOtherAgents>) {
    let Some(state) = state.filter(|_| !settings.models.endpoints.is_empty()) else {
        return (builder, None);
    };
    let (builder, others) = other_agents::offer(builder, settings, state, part);
    if !settings.wisps.enabled {
        return (builder, others);
    }

    let (late, task_ends) = (others.clone(), state.notices.task_ends().clone());
    let deps = WispsDeps {
        memory: state.memory.clone(),
        artifacts: state.artifacts.clone(),
        complete: Some(Arc::new(state.agent_model.clone())),
        agents: None,
        mcp: Some(Arc::new(servers)),
        tasks: state.wisp_tasks.clone(),
        config: Arc::new(settings.wisps.config()),
    };
    let builder = builder.guide(toolbus_wisps::guide()).remote_tools(move |registry, _| {
        let others = late.as_ref().and_then(|others| others.get());
        let agents = others.map(|others| Arc::new(others.answers(&task_ends)) as _);
        toolbus_wisps::register(registry, WispsDeps { agents, ..deps })
    });
    (builder, others)
}

/// The same with large results kept apart, and with the tools that ask about them.
fn keep_artifacts(builder: ToolbusBuilder, artifacts: Artifacts) -> ToolbusBuilder {
    let builder = builder
        .references(ResolveReferences::new(artifacts.clone()))
        .shape(Arc::new(OffloadOutput::new(artifacts.clone()).without_texts_of(&[Door::Turn])));
    // This program, which `main` makes a worker where it is told to.
    let engine = match Engine::new("/proc/self/exe", [toolbus_query::WORKER_MODE]) {
        Ok(engine) => engine,
        Err(error) => {
            tracing::error!(%error, "nothing can be asked about artifacts");
            return builder;
        }
    };
    builder.guide(toolbus_artifacts::tools::guide()).remote_tools(move |registry, _| {
        toolbus_artifacts::tools::register(registry, &artifacts, &engine)
    })
}

/// The same with the tool that runs chains.
fn offer_chains(
    builder: ToolbusBuilder,
    settings: &Settings,
    state: Option<&KeptState>,
) -> ToolbusBuilder {
    let artifacts = state.and_then(|state| state.artifacts.clone());
    let store = state.map(|state| state.store().clone());
    let policy = settings.chains.policy();
    builder.guide(toolbus_chain::guide()).remote_tools(move |registry, requester| {
        let scripts = ScriptClient::new(requester.clone());
        toolbus_chain::register(registry, ChainDeps { scripts, artifacts, store, policy })
    })
}

/// The policy of the settings' rule book.
fn load_policy(settings: &Settings) -> Result<LivePolicy, toolbus_policy::Mistakes> {
    let book = RuleBook::new(&settings.policy)?;
    let (revision, rules) = (book.revision(), book.rule_count());
    let (preset, limits) = (book.preset().map(Preset::as_str), book.limit_names().count());
    tracing::info!(%revision, preset, rules, limits, "loaded the policy");
    Ok(LivePolicy::new(book))
}

/// Has calls that wait in the store brought back when they are answered.
fn resume_later(approvals: &Approvals, toolbus: &Toolbus) {
    let toolbus = toolbus.clone();
    approvals.resume_with(move |requests| {
        let toolbus = toolbus.clone();
        async move {
            if toolbus.resume_parked(requests).await {
                tracing::warn!("a call that was kept is none of this agent's");
            }
        }
    });
}

/// The same with the services of the other binaries, as the settings want them.
fn embed_services(
    builder: ToolbusBuilder,
    settings: &Settings,
    runner: Arc<dyn Runner>,
    vault: Option<LazyVault>,
) -> ToolbusBuilder {
    let scripts = Scripts::local(runner)
        .concurrency(settings.scripts.max_concurrent)
        .allowance(settings.scripts.allowance());
    let mut servers = McpServers::settings(settings.mcp.clone());
    if let Some(vault) = vault {
        servers = servers.credentials(Arc::new(vault));
    }
    builder.scripts(scripts).mcp(servers)
}

/// The runner of the settings, or why there is none.
async fn find_runner(
    settings: &ScriptsSettings,
    health: &Health,
) -> Result<Arc<dyn Runner>, Unavailable> {
    settings.runner().await.map_err(|unavailable| {
        let component = health.component("scripts", Need::Optional);
        component.set(State::down(&unavailable));
        Unavailable(unavailable.to_string())
    })
}

/// Joins the bus. The health component `bus` says how it is, from then on.
async fn join_bus(
    settings: &BusSettings,
    context: &Context,
    start: Start,
) -> Result<Arc<dyn Bus>, join::Error> {
    let component = context.health.component("bus", Need::Required);
    let report_health = move |health| {
        component.set(match health {
            BusHealth::Up => State::Up,
            BusHealth::Blocked { reason } => State::degraded(reason),
            BusHealth::Down { reason } => State::down(reason),
        });
    };

    let deps = JoinDeps {
        connection_name: context.identity.connection_name(),
        stop: context.shutdown.requested().clone(),
        tasks: context.shutdown.tasks().clone(),
    };
    join::join(settings, start, deps, report_health).await
}
