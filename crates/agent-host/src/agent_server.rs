//! The agent for others: users on the bus, and clients over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join3, join4};
use toolbus_a2a::{HttpServer, HttpServerConfig, TaskIntake};
use toolbus_agent::{Agent, BusUsers, BusUsersDeps, UserReplies};
use toolbus_bus::SubscribeError;
use toolbus_config::ListenAddress;
use toolbus_discovery::{Discovery, DiscoveryDeps};
use toolbus_fetch::FetchConfig;
use toolbus_http::tool_api::{ToolApi, ToolApiDeps};
use toolbus_http::{ApiDeps, TurnApi};
use toolbus_runtime::http;
use toolbus_schedule::{NewTask, ScheduleOwner, Scheduler, SchedulerDeps, Schedules};
use toolbus_search::ToolIndex;
use toolbus_tools::{Principal, View};
use toolbus_wire::envelope::new_id;

use crate::agent;
use crate::background::Background;
use crate::fleet::Fleet;
use crate::other_agents;
use crate::scheduled_turns::ScheduledTurns;
use crate::settings::Settings;
use crate::webhook_sender::WebhookSender;

/// Connections of clients of tools.
const TOOL_CONNECTIONS_MAX: usize = 64;

/// An agent that answers.
pub(crate) struct AgentServer {
    users: Option<BusUsers>,
    api: Option<Listening>,
    scheduler: Scheduler,
    background: Background,
}

/// What answers over HTTP.
struct Listening {
    turns: TurnApi,
    /// Tools for programs, where they are served.
    tools: Option<ToolApi>,
    /// Tasks of other agents, where they are done.
    tasks: Option<HttpServer>,
    server: http::Server,
}

/// Why it does not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no agent.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// Users on the bus cannot be heard.
    #[error("users on the bus cannot be heard")]
    Subscribe(#[from] SubscribeError),
    /// Other agents cannot be heard.
    #[error("other agents cannot be heard")]
    OtherAgents(#[from] other_agents::Error),
    /// Webhooks cannot be sent.
    #[error("webhooks cannot be sent")]
    Webhooks(#[source] reqwest::Error),
    /// The port could not be opened.
    #[error("turns cannot be served at {address}")]
    Listen {
        address: ListenAddress,
        #[source]
        source: std::io::Error,
    },
}

impl AgentServer {
    /// Has the agent of the settings answer, where they name a model.
    pub(crate) async fn start(settings: &Settings, fleet: &Fleet) -> Result<Option<Self>, Error> {
        if settings.models.endpoints.is_empty() {
            return Ok(None);
        }

        let agent = agent::open(settings, fleet, None)?;
        let Some(state) = fleet.state() else { return Err(Error::Agent(agent::Error::NoState)) };
        // Nobody but this process is on an embedded bus.
        let replies = (!fleet.is_embedded()).then(|| {
            UserReplies::new(Arc::clone(fleet.toolbus().bus()), fleet.toolbus().name().clone())
        });
        let turns_max = usize::from(settings.agent.turns_max.get());
        state.notices.tell_sessions_of(&agent, turns_max, replies.clone());
        let run = ScheduledTurns { agent: agent.clone(), replies };
        let scheduler = Scheduler::start(SchedulerDeps {
            schedules: state.schedules.clone(),
            agent: fleet.toolbus().name().clone(),
            holder: new_id(),
            run: Arc::new(run),
        });
        if let Some(heartbeat) = settings.schedules.heartbeat() {
            begin_heartbeat(&state.schedules, fleet, heartbeat).await;
        }
        let background = Background::start(fleet, &agent).await?;
        let api = Self::listen(settings, fleet, &agent, background.intake()).await?;
        let users = match fleet.is_embedded() {
            true => None,
            false => Some(Self::hear(settings, fleet, agent).await?),
        };
        Ok(Some(Self { users, api, scheduler, background }))
    }

    async fn hear(
        settings: &Settings,
        fleet: &Fleet,
        agent: Agent,
    ) -> Result<BusUsers, SubscribeError> {
        let deps = BusUsersDeps {
            bus: Arc::clone(fleet.toolbus().bus()),
            name: fleet.toolbus().name().clone(),
            agent,
            turns_max: settings.agent.turns_max,
        };
        BusUsers::start(deps).await
    }

    async fn listen(
        settings: &Settings,
        fleet: &Fleet,
        agent: &Agent,
        intake: Option<TaskIntake>,
    ) -> Result<Option<Listening>, Error> {
        let Some(address) = &settings.http.address else { return Ok(None) };
        let turns_max = usize::from(settings.agent.turns_max.get());
        let name = fleet.toolbus().name().clone();
        let deps = ApiDeps { name, agent: agent.clone(), turns_max };
        let api = TurnApi::new(settings.http.api_settings(), deps);

        let tasks = intake.map(|intake| {
            let api = settings.http.api_settings();
            let public_url = settings.a2a.public_url.clone();
            let config = HttpServerConfig { api, public_url, ..HttpServerConfig::default() };
            (config.connections_max(), HttpServer::new(config, intake))
        });
        let mut connections_max = toolbus_http::connections_max(turns_max);
        let mut router = api.router();
        if let Some((more, server)) = &tasks {
            connections_max += more;
            router = router.merge(server.router());
        }
        let tools = match settings.http.tool_api.enabled {
            true => tool_api(settings, fleet)?,
            false => None,
        };
        if let Some(tools) = &tools {
            connections_max += TOOL_CONNECTIONS_MAX;
            router = router.merge(tools.router());
        }
        let limits = http::Limits { connections_max, lifetime: None };
        match http::serve(address, router, limits).await {
            Ok(server) => {
                let tasks = tasks.map(|(_, tasks)| tasks);
                Ok(Some(Listening { turns: api, tools, tasks, server }))
            }
            Err(source) => Err(Error::Listen { address: address.clone(), source }),
        }
    }

    /// Where clients reach it over HTTP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(|api| api.server.address())
    }

    /// Says who is answered.
    pub(crate) fn report(&self) {
        if let Some(address) = self.address() {
            tracing::info!(%address, "serving turns over HTTP");
        }
        if self.users.is_some() {
            tracing::info!("answering users on the bus");
        }
    }

    /// Takes no more turns, and waits up to `grace` for those that are under way.
    pub(crate) async fn close(self, grace: Duration) {
        let users = async {
            if let Some(users) = self.users {
                users.stop(grace).await;
            }
        };
        let api = async {
            if let Some(Listening { turns, tools, tasks, server }) = self.api {
                let tools = async {
                    if let Some(tools) = tools {
                        tools.drain(grace).await;
                    }
                };
                let tasks = async {
                    if let Some(tasks) = tasks {
                        tasks.drain(grace).await;
                    }
                };

                join3(turns.drain(grace), tools, tasks).await;
                server.close().await;
            }
        };
        join4(users, api, self.scheduler.close(), self.background.close(grace)).await;
    }
}

/// Tools for programs, where there is a place for what is kept of them.
fn tool_api(settings: &Settings, fleet: &Fleet) -> Result<Option<ToolApi>, Error> {
    let Some(state) = fleet.state() else { return Ok(None) };
    let http = &settings.http;
    let invoker = fleet.toolbus().invoker().clone();
    let discovery = Discovery::start(DiscoveryDeps {
        registry: Arc::clone(invoker.registry()),
        policy: Arc::new(fleet.policy().clone()),
        index: ToolIndex::new(),
        store: Some(state.store().clone()),
    });

    let allowed_hosts = http.tool_api.webhook_hosts.clone();
    let sender = WebhookSender::new(FetchConfig { allowed_hosts, ..FetchConfig::default() });
    let deps = ToolApiDeps {
        name: fleet.toolbus().name().clone(),
        invoker,
        policy: fleet.policy().clone(),
        discovery,
        store: state.store().clone(),
        view: View::all(),
        webhooks: Some(Arc::new(sender.map_err(Error::Webhooks)?)),
    };
    let config = http.tool_api.config(&http.plans);
    Ok(Some(ToolApi::start(http.api_settings(), config, deps)))
}

/// Schedules the task of the agent's own, where there is none of its name.
async fn begin_heartbeat(schedules: &Schedules, fleet: &Fleet, task: NewTask) {
    let agent = fleet.toolbus().name().clone();
    let owner = ScheduleOwner { agent, principal: Principal::local() };
    let begun = async {
        let tasks = schedules.list(&owner).await?;
        if !tasks.iter().any(|there| there.name.eq_ignore_ascii_case(&task.name)) {
            schedules.put(&owner, task).await?;
        }
        Ok::<_, toolbus_schedule::Error>(())
    };
    if let Err(error) = begun.await {
        let error = &error as &dyn std::error::Error;
        tracing::error!(error, "the heartbeat is not scheduled");
    }
}
