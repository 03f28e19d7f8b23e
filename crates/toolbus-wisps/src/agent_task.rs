//! A task for another agent whose end a step waits for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolbus_tools::Scope;

use crate::{AgentEnd, AwaitAgent};

/// What stands before the id in what `invoke_agent` says.
const ID_LABEL: &str = "task_id: ";
/// How long an agent may take to hear that a task is given up.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);

/// The id of the task that was sent, out of what `invoke_agent` says.
pub(crate) fn task_id_of(told: &str) -> Option<&str> {
    let (_, rest) = told.split_once(ID_LABEL)?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    (end > 0).then_some(&rest[..end])
}

/// A task that is given up where it is dropped before its end.
pub(crate) struct AgentTask {
    pub(crate) agents: Arc<dyn AwaitAgent>,
    pub(crate) scope: Arc<Scope>,
    pub(crate) task_id: String,
    /// What gives it up runs here.
    pub(crate) tasks: TaskTracker,
    pub(crate) has_ended: bool,
}

impl AgentTask {
    /// Waits for its end.
    pub(crate) async fn wait(mut self) -> AgentEnd {
        let end = self.agents.wait(&self.scope, &self.task_id).await;
        self.has_ended = true;
        end
    }
}

impl Drop for AgentTask {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let (agents, scope) = (Arc::clone(&self.agents), Arc::clone(&self.scope));
        let task_id = std::mem::take(&mut self.task_id);
        self.tasks.spawn(async move {
            if timeout(CANCEL_TIMEOUT, agents.cancel(&scope, &task_id)).await.is_err() {
                tracing::warn!(task_id, "another agent was not told in time to give a task up");
            }
        });
    }
}

#[cfg(test)]
mod tests;
