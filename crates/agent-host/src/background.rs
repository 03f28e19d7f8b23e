//! What goes on beside turns: subagents, and other agents on the bus.

use std::time::Duration;

use futures_util::future::join;
use toolbus_a2a::TaskIntake;
use toolbus_agent::Agent;
use toolbus_subagents::Runner;

use crate::fleet::Fleet;
use crate::other_agents::{Conversing, Error};

/// What goes on beside the turns of an agent, until it is closed.
pub(crate) struct Background {
    runner: Option<Runner>,
    conversing: Option<Conversing>,
}

impl Background {
    /// Begins it. Whoever is told of it was said before ([`SessionNotices`]).
    ///
    /// [`SessionNotices`]: crate::session_notices::SessionNotices
    ///
    /// # Errors
    /// When a queue cannot be had, or the settings of another agent are wrong.
    pub(crate) async fn start(fleet: &Fleet, agent: &Agent) -> Result<Self, Error> {
        let Some(state) = fleet.state() else {
            return Ok(Self { runner: None, conversing: None });
        };
        state.agent_model.set(agent.model());
        state.subagent_turns.begin(agent);
        let runner = state.subagents.get().map(Runner::start);

        let conversing = match fleet.other_agents() {
            Some(others) => Some(others.converse(agent).await?),
            None => None,
        };
        Ok(Self { runner, conversing })
    }

    /// The way in for tasks that come over HTTP, where tasks of others are done.
    pub(crate) fn intake(&self) -> Option<TaskIntake> {
        self.conversing.as_ref().and_then(Conversing::intake)
    }

    /// Waits up to `grace` for what is under way, and leaves the rest to other processes.
    pub(crate) async fn close(self, grace: Duration) {
        let subagents = async {
            if let Some(runner) = self.runner {
                runner.close(grace).await;
            }
        };
        let others = async {
            if let Some(conversing) = self.conversing {
                conversing.close(grace).await;
            }
        };
        join(subagents, others).await;
    }
}
