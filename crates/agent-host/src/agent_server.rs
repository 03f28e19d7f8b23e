//! The agent for others: users on the bus, and clients over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join4;
use toolbus_agent::{Agent, BusUsers, BusUsersDeps, UserReplies};
use toolbus_bus::SubscribeError;
use toolbus_config::ListenAddress;
use toolbus_http::{ApiDeps, TurnApi};
use toolbus_runtime::http;
use toolbus_schedule::{Scheduler, SchedulerDeps};
use toolbus_wire::envelope::new_id;

use crate::agent;
use crate::background::Background;
use crate::fleet::Fleet;
use crate::scheduled_turns::ScheduledTurns;
use crate::settings::Settings;

/// An agent that answers.
pub(crate) struct AgentServer {
    users: Option<BusUsers>,
    api: Option<(TurnApi, http::Server)>,
    scheduler: Scheduler,
    background: Background,
}

/// Why it does not.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// There is no agent.
    #[error(transparent)]
    Agent(#[from] agent::Error),
    /// Users or other agents on the bus cannot be heard.
    #[error("users and other agents on the bus cannot be heard")]
    Subscribe(#[from] SubscribeError),
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
        let api = Self::listen(settings, fleet, &agent).await?;
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
        let background = Background::start(fleet, &agent).await?;
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
    ) -> Result<Option<(TurnApi, http::Server)>, Error> {
        let Some(address) = &settings.http.address else { return Ok(None) };
        let turns_max = usize::from(settings.agent.turns_max.get());
        let name = fleet.toolbus().name().clone();
        let deps = ApiDeps { name, agent: agent.clone(), turns_max };
        let api = TurnApi::new(settings.http.api_settings(), deps);

        let connections_max = toolbus_http::connections_max(turns_max);
        let limits = http::Limits { connections_max, lifetime: None };
        match http::serve(address, api.router(), limits).await {
            Ok(server) => Ok(Some((api, server))),
            Err(source) => Err(Error::Listen { address: address.clone(), source }),
        }
    }

    /// Where clients reach it over HTTP.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(|(_, server)| server.address())
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
            if let Some((api, server)) = self.api {
                api.drain(grace).await;
                server.close().await;
            }
        };
        join4(users, api, self.scheduler.close(), self.background.close(grace)).await;
    }
}
