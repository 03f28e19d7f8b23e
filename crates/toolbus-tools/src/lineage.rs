//! Lineage: the bounds that work inherits from the scope that began it, in the form that rows keep.
//!
//! Work that outlives its call has a row: a subagent, a task of another agent, a schedule, a
//! notice. Whichever process does the work later restores the scope from the lineage of the row, so
//! that the work never sees, reaches or spends more than what began it. A process that cannot read
//! a lineage refuses the work.

use serde::{Deserialize, Serialize};
use toolbus_wire::name::AgentName;

use crate::artifact::{ArtifactReach, ArtifactRef};
use crate::budget::{AccountState, Budget};
use crate::id::{Error, RunId, SessionId};
use crate::scope::{DEPTH_MAX, Door, DoorSet, Principal, Scope};
use crate::view::{View, ViewStep};

/// The bounds that work inherits from the scope that began it. Its JSON has no place for secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lineage {
    /// The run.
    run: String,
    /// The door of the scope.
    door: Door,
    /// Every door that the work came through, outermost first.
    doors: DoorSet,
    /// The depth of the scope.
    depth: u8,
    /// The steps that narrow the view, the first one first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    view: Vec<ViewStep>,
    /// The artifacts that it may refer to. `None`: all of its session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    artifacts: Option<Vec<String>>,
    /// The accounts of the budget, that of the whole run first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    accounts: Vec<AccountState>,
}

impl Lineage {
    /// The lineage of work that a call in this scope begins.
    #[must_use]
    pub fn of(scope: &Scope) -> Self {
        let artifacts = match &scope.artifacts {
            ArtifactReach::Session => None,
            ArtifactReach::Only(set) => Some(set.to_vec()),
        };
        let text = |reference: ArtifactRef| reference.as_str().to_owned();
        Self {
            run: scope.run.as_str().to_owned(),
            door: scope.door,
            doors: scope.doors,
            depth: scope.depth,
            view: scope.view.steps(),
            artifacts: artifacts.map(|set| set.into_iter().map(text).collect()),
            accounts: scope.budget.accounts(),
        }
    }

    /// The run that the work belongs to.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Every door that the work came through, outermost first.
    #[must_use]
    pub const fn doors(&self) -> DoorSet {
        self.doors
    }

    /// The state of the account of the whole run. `None`: nothing is limited or counted.
    #[must_use]
    pub fn run_account(&self) -> Option<&AccountState> {
        self.accounts.first()
    }

    /// The same lineage for work that is a run of its own each time, such as a scheduled task: the
    /// same doors, view and artifacts, and the budget that the new run gets.
    #[must_use]
    pub fn for_new_runs(self) -> Self {
        Self { depth: 0, accounts: Vec::new(), ..self }
    }

    /// The scope that work goes on in, of the same principal. `run_account` replaces the account of
    /// the whole run; pass what [`run_account`](Lineage::run_account) describes, shared by all work
    /// of the run.
    ///
    /// # Errors
    /// When no scope has such a lineage.
    pub fn restore(
        self,
        principal: Principal,
        agent: AgentName,
        session: Option<SessionId>,
        run_account: Budget,
    ) -> Result<Scope, Error> {
        const WHAT: &str = "a lineage";
        if self.depth > DEPTH_MAX {
            return Err(Error::Malformed { what: WHAT, text: format!("depth {}", self.depth) });
        }
        let artifacts = match self.artifacts {
            None => ArtifactReach::Session,
            Some(texts) => {
                let set: Result<_, _> = texts.iter().map(|text| ArtifactRef::parse(text)).collect();
                ArtifactReach::Only(set?)
            }
        };

        let inner = self.accounts.iter().skip(1);
        let budget = inner.fold(run_account, |outer, state| outer.restore(state));
        let scope = Scope::new(self.door, principal, agent)
            .with_earlier_doors(self.doors)
            .with_session(session)
            .with_budget(budget)
            .with_view(View::of_steps(self.view));
        let run = RunId::parse(&self.run)?;
        Ok(Scope { run, artifacts, depth: self.depth, ..scope })
    }
}

#[cfg(test)]
mod tests;
