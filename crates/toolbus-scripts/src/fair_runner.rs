//! Shares a runner fairly among the agents that use it: no agent takes all permits or fills the
//! queue.
//!
//! This is the one place that admits scripts in a `scripts-manager`. Few wait here: the rest wait
//! in the broker's queue, for whichever manager has room first.
//!
//! Invariants: an agent holds at most its share of permits, running or next in line for all of
//! them, so every call waits for a bounded number of scripts of others; a call over a limit is
//! refused at once as busy, with the limit that it exceeds; once the queue is closed no call waits;
//! redelivered calls, which may be running already, come on top and are never refused.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::time::Instant;

use crate::runner::{Error, Outcome, Run, Runner, Script, wait_for_moment, wait_for_permit};

/// Limits on the scripts of all agents and of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shares {
    /// Scripts that run at a time, of all agents.
    pub running: usize,
    /// Scripts of one agent that run at a time.
    pub running_of_one: usize,
    /// Scripts that may wait, of all agents.
    pub waiting: usize,
    /// Scripts of one agent that may wait.
    pub waiting_of_one: usize,
}

/// A runner that gives each agent its share. Agents are distinguished by the name they report.
pub struct FairRunner {
    runner: Arc<dyn Runner>,
    shares: Shares,
    /// Permits to run, shared by all agents and granted in order of arrival.
    permits: Semaphore,
    agents: Mutex<AgentShares>,
    /// When calls that wait are refused, once that is known.
    queue_end: watch::Sender<Option<Instant>>,
}

#[derive(Default)]
struct AgentShares {
    /// Agents that have scripts running or waiting; no others.
    by_name: HashMap<String, AgentShare>,
    /// Scripts of all of them.
    scripts: usize,
}

struct AgentShare {
    scripts: usize,
    permits: Arc<Semaphore>,
}

/// A script that is admitted: it runs or waits.
struct AdmittedScript<'a> {
    runner: &'a FairRunner,
    agent: String,
    permits: Arc<Semaphore>,
}

impl FairRunner {
    /// Shares `runner`.
    #[must_use]
    pub fn new(runner: Arc<dyn Runner>, shares: Shares) -> Self {
        let permits = Semaphore::new(shares.running.clamp(1, Semaphore::MAX_PERMITS));
        let queue_end = watch::Sender::default();
        Self { runner, shares, permits, agents: Mutex::default(), queue_end }
    }

    /// Closes the queue at this moment: calls that still wait are refused as busy, since they have
    /// not started and a script that starts later would be cut off or left to another process.
    pub fn close_queue_at(&self, end: Instant) {
        self.queue_end.send_replace(Some(end));
    }

    fn try_admit(&self, agent: String) -> Result<AdmittedScript<'_>, Error> {
        let Shares { running, running_of_one, waiting, waiting_of_one } = self.shares;
        let mut agents = self.agents.lock();
        let scripts_of_agent = agents.by_name.get(&agent).map_or(0, |share| share.scripts);

        if scripts_of_agent >= running_of_one + waiting_of_one {
            return Err(Error::Busy(format!(
                "{running_of_one} scripts of this agent run and {waiting_of_one} wait"
            )));
        }

        if agents.scripts >= running + waiting {
            return Err(Error::Busy(format!("{running} scripts run and {waiting} wait")));
        }

        agents.scripts += 1;

        let agent_share = agents.by_name.entry(agent.clone()).or_insert_with(|| AgentShare {
            scripts: 0,
            permits: Arc::new(Semaphore::new(running_of_one.clamp(1, Semaphore::MAX_PERMITS))),
        });
        agent_share.scripts += 1;

        let permits = Arc::clone(&agent_share.permits);
        drop(agents);

        Ok(AdmittedScript { runner: self, agent, permits })
    }

    async fn run_in_turn(&self, script: Script, mut run: Run) -> Result<Outcome, Error> {
        if run.redelivered {
            // A script that may be running already needs no permit, and must not be refused.
            return self.runner.run(script, run).await;
        }

        let admitted = self.try_admit(std::mem::take(&mut run.source))?;
        let free_permits = admitted.permits.try_acquire().ok().zip(self.permits.try_acquire().ok());
        let _permits = match free_permits {
            Some(permits) => permits,
            None => self.wait_for_turn(&admitted, &script, &run).await?,
        };

        self.runner.run(script, run).await
    }

    /// Waits until calls may no longer wait for their turn.
    async fn queue_closed(&self) {
        wait_for_moment(&self.queue_end).await;
    }

    async fn wait_for_turn<'a>(
        &'a self,
        admitted: &'a AdmittedScript<'_>,
        script: &Script,
        run: &Run,
    ) -> Result<(SemaphorePermit<'a>, SemaphorePermit<'a>), Error> {
        let both = async {
            // The agent's own permit first: waiting for it blocks no other agent.
            let own = admitted.permits.acquire().await;
            own.ok().zip(self.permits.acquire().await.ok())
        };

        // Every arm only waits; a dropped permit goes to the next in line.
        let permits = tokio::select! {
            permits = wait_for_permit(run.turn_deadline(script), both) => permits?,
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            () = self.queue_closed() => {
                let text = "this worker stops, and it was not the script's turn yet";
                return Err(Error::Busy(text.to_owned()));
            }
        };

        permits.ok_or_else(|| Error::Failed("there are no places any more".to_owned()))
    }
}

impl Runner for FairRunner {
    fn name(&self) -> &'static str {
        self.runner.name()
    }

    fn memory_accounting(&self) -> Option<&'static str> {
        self.runner.memory_accounting()
    }

    fn adopts(&self) -> bool {
        self.runner.adopts()
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(self.run_in_turn(script, run))
    }
}

impl Drop for AdmittedScript<'_> {
    fn drop(&mut self) {
        let mut agents = self.runner.agents.lock();
        agents.scripts -= 1;
        if let Some(agent) = agents.by_name.get_mut(&self.agent) {
            agent.scripts -= 1;
            if agent.scripts == 0 {
                agents.by_name.remove(&self.agent);
            }
        }
    }
}

#[cfg(test)]
mod tests;
