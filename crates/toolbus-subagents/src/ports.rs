//! What subagents need of others: who does their work, and who is told what came of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use toolbus_policy::SessionOwner;
use toolbus_tools::{Lineage, Scope};

use crate::SubagentEvent;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is in the session, or will be for sure.
    Taken,
    /// It cannot be taken now, such as while another process has the session. It is told again.
    Later,
}

/// Is told what happens to subagents: the turn that goes on in the session, or its next one.
pub trait OnSubagent: Send + Sync {
    /// Takes an event. The end of a subagent may come again after a kill, and counts once by its
    /// id; it may take as long as [`tell_timeout`](crate::SubagentsConfig::tell_timeout). What
    /// becomes of progress does not matter, and it has a second. A session that is gone takes
    /// everything.
    fn tell<'a>(&'a self, event: &'a SubagentEvent) -> BoxFuture<'a, Told>;
}

/// The work of a subagent.
#[derive(Debug, Clone)]
pub struct SubagentRun {
    /// Its id. What it is told to do is said under this id, so that it is done once.
    pub id: String,
    /// Who has spawned it.
    pub owner: SessionOwner,
    /// What it may see and do: a child of the scope that has spawned it, in the session
    /// `subagent/{id}`, and cancelled with it. Its budget is an account of its own within that of
    /// the run; what another process has spent for it is counted.
    pub scope: Arc<Scope>,
    /// What is to be done.
    pub description: String,
    /// What has to be known for that.
    pub context: Option<String>,
    /// Whether another process may have begun it. The turn goes on where it was, or begins.
    pub is_resumed: bool,
    /// How long it may take from now on. That goes on while it is paused.
    pub timeout: Duration,
}

/// What came of the work of a subagent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubagentEnd {
    /// It is done.
    Completed {
        /// The answer.
        text: String,
    },
    /// It was cancelled.
    Cancelled {
        /// As far as it has come.
        text: String,
    },
    /// It failed.
    Failed {
        /// As far as it has come.
        text: String,
        /// What went wrong.
        error: String,
    },
}

/// Does the work of subagents: a turn of an agent.
pub trait RunSubagent: Send + Sync {
    /// Restores the scope that has spawned a subagent which another process had. The error is why
    /// the subagent fails.
    fn restore_scope<'a>(
        &'a self,
        lineage: &'a Lineage,
        owner: SessionOwner,
    ) -> BoxFuture<'a, Result<Scope, String>>;

    /// Does the work. It ends soon after its scope is cancelled, with the text so far. The future
    /// is dropped if it does not, and at the timeout. It is also dropped when the process stops,
    /// and another process continues. Calls in progress end with the future, and the scope is
    /// cancelled afterwards, for the work below it. Nothing starts while `paused` is true.
    fn run(&self, run: SubagentRun, paused: watch::Receiver<bool>) -> BoxFuture<'_, SubagentEnd>;
}
