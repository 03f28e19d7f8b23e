//! What goes on beside turns: subagents, and other agents on the bus.

use std::time::Duration;

use futures_util::future::join;
use toolbus_agent::Agent;
use toolbus_bus::SubscribeError;
use toolbus_subagents::Runner;

use crate::fleet::Fleet;
use crate::other_agents::Conversing;

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
    /// When a queue cannot be had.
    pub(crate) async fn start(fleet: &Fleet, agent: &Agent) -> Result<Self, SubscribeError> {
        let Some(state) = fleet.state() else {
            return Ok(Self { runner: None, conversing: None });
        };
        state.agent_model.set(agent.model());
        state.subagent_turns.begin(agent, fleet.toolbus().invoker());
        let runner = state.subagents.get().map(Runner::start);

        let conversing = match fleet.other_agents() {
            Some(others) => Some(others.converse(agent, state.store()).await?),
            None => None,
        };
        Ok(Self { runner, conversing })
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
