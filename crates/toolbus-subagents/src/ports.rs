//! What subagents need of others: who does their work, and who is told what came of it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolbus_policy::SessionOwner;
use toolbus_tools::budget::{RunLimits, Usage};
use toolbus_tools::{Budget, Scope};

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
    /// `subagent/{id}`, and cancelled with it. `None`: another process has begun it and was lost.
    /// Then it is a scope of the owner's principal, with [`subagent_view`](crate::subagent_view),
    /// [`depth`](Self::depth) and [`budget_within`](Self::budget_within), whose token is the one
    /// that stops the work.
    pub scope: Option<Arc<Scope>>,
    /// What is to be done.
    pub description: String,
    /// What has to be known for that.
    pub context: Option<String>,
    /// Whether another process may have begun it. The turn goes on where it was, or begins.
    pub is_resumed: bool,
    /// How long it may take from now on. That goes on while it is paused.
    pub timeout: Duration,
    /// How many scopes are above.
    pub depth: u8,
    /// What it had spent when another process had it.
    pub spent: Usage,
    /// The account that its spending is written down from. That of [`scope`](Self::scope) is it.
    pub account: Budget,
}

impl SubagentRun {
    /// The budget of one that another process has begun: what a run may spend, less what was spent.
    #[must_use]
    pub fn budget_within(&self, limits: RunLimits) -> Budget {
        let less = |limit: Option<u64>, spent: u64| limit.map(|limit| limit.saturating_sub(spent));
        let Usage { calls, turns } = self.spent;
        let limits = RunLimits {
            calls: less(limits.calls, calls),
            turns: less(limits.turns, turns.turns),
            tokens: less(limits.tokens, turns.tokens),
            cost_micro_usd: less(limits.cost_micro_usd, turns.cost_micro_usd),
            time: limits.time,
        };
        limits.budget_of(&self.account)
    }
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
    /// Does it. When `stop` fires, it ends soon, as far as it has come; one that does not is
    /// dropped, and so is one whose time is over or whose process stops: then another goes on.
    /// What it has under way ends with the future, at once and without a word: `stop` fires after
    /// that for what is below. While `paused` says so, it begins nothing.
    fn run(
        &self,
        run: SubagentRun,
        stop: CancellationToken,
        paused: watch::Receiver<bool>,
    ) -> BoxFuture<'_, SubagentEnd>;
}
