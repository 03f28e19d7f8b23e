//! The agent for others: users on the bus, its schedules, and what goes on beside its turns.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join3;
use toolbus_a2a::TaskIntake;
use toolbus_agent::{Agent, BusUsers, BusUsersDeps, UserReplies};
use toolbus_bus::SubscribeError;
use toolbus_schedule::{NewTask, ScheduleOwner, Scheduler, SchedulerDeps, Schedules};
use toolbus_tools::Principal;
use toolbus_wire::envelope::new_id;

use crate::agent;
use crate::background::Background;
use crate::fleet::Fleet;
use crate::other_agents;
use crate::scheduled_turns::ScheduledTurns;
use crate::settings::Settings;

/// An agent that answers.
pub(crate) struct AgentServer {
    users: Option<BusUsers>,
    agent: Agent,
    scheduler: Scheduler,
    background: Background,
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
        if let Some(heartbeat) = settings.schedules.heartbeat(fleet.toolbus().name()) {
            begin_heartbeat(&state.schedules, fleet, heartbeat).await;
        }
        let background = Background::start(fleet, &agent).await?;
        let users = match fleet.is_embedded() {
            true => None,
            false => Some(Self::hear(settings, fleet, agent.clone()).await?),
        };
        Ok(Some(Self { users, agent, scheduler, background }))
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

    /// The agent, and the tasks that it takes of others.
    pub(crate) fn agent(&self) -> (&Agent, Option<TaskIntake>) {
        (&self.agent, self.background.intake())
    }

    /// Says who is answered.
    pub(crate) fn report(&self) {
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
        join3(users, self.scheduler.close(), self.background.close(grace)).await;
    }
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
