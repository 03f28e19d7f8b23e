//! Budgets: how much a scope may spend, counted in it and in every scope above it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toolbus_bus::Deadline;
use toolbus_wire::ErrorCode;

use crate::call_error::CallError;

/// What a scope may spend. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Turns of agents.
    pub turns: Option<u64>,
    /// Tokens of models.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// When the last call must have begun.
    pub deadline: Option<Deadline>,
}

/// What each run may spend, from when it begins. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunLimits {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Turns of agents.
    pub turns: Option<u64>,
    /// Tokens of models.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// How long after its beginning its last call must have begun.
    pub time: Option<Duration>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Calls of tools.
    pub calls: u64,
    /// Turns of agents, and what models used for them.
    pub turns: TurnUsage,
}

/// What turns of agents used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TurnUsage {
    /// How many there were.
    pub turns: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub cost_micro_usd: u64,
}

impl RunLimits {
    /// A part of a budget with these limits, whose time begins now. Where there are none, it is the
    /// same budget.
    #[must_use]
    pub fn budget_of(self, parent: &Budget) -> Budget {
        if self == Self::default() {
            return parent.clone();
        }
        let Self { calls, turns, tokens, cost_micro_usd, time } = self;
        let deadline = time.map(Deadline::after);
        parent.child(BudgetLimits { calls, turns, tokens, cost_micro_usd, deadline })
    }
}

/// One account of a budget, as rows keep it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountState {
    /// The limit of calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calls: Option<u64>,
    /// The limit of turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turns: Option<u64>,
    /// The limit of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The limit of money, in millionths of a US dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micro_usd: Option<u64>,
    /// When the last call must have begun, in milliseconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The amounts spent.
    pub spent: Usage,
}

/// An account with limits. Clones are the same account; what a child spends is spent of its parent
/// as well.
#[derive(Debug, Clone, Default)]
pub struct Budget {
    /// `None`: no limit, and nothing is counted.
    account: Option<Arc<Account>>,
}

#[derive(Debug)]
struct Account {
    limits: BudgetLimits,
    calls: AtomicU64,
    turns: AtomicU64,
    tokens: AtomicU64,
    cost_micro_usd: AtomicU64,
    parent: Budget,
}

/// A limit that is reached: what was used of it, and how much it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// So many calls were made.
    #[error("the budget of calls is spent: {used} used of {cap}")]
    Calls {
        /// How many were made.
        used: u64,
        /// How many there may be.
        cap: u64,
    },
    /// So many turns were taken.
    #[error("the budget of turns is spent: {used} used of {cap}")]
    Turns {
        /// How many were taken.
        used: u64,
        /// How many there may be.
        cap: u64,
    },
    /// So many tokens were used.
    #[error("the budget of tokens is spent: {used} used of {cap}")]
    Tokens {
        /// How many were used.
        used: u64,
        /// How many there may be.
        cap: u64,
    },
    /// So much money was spent, in millionths of a US dollar.
    #[error("the budget of millionths of a dollar is spent: {used} used of {cap}")]
    Cost {
        /// How many were spent.
        used: u64,
        /// How many there may be.
        cap: u64,
    },
    /// Its time is over.
    #[error("the time of the budget is over")]
    Time,
}

impl Budget {
    /// No limit.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self { account: None }
    }

    /// An account of its own with these limits.
    #[must_use]
    pub fn limited(limits: BudgetLimits) -> Self {
        Self::unlimited().child(limits)
    }

    /// So many calls.
    #[must_use]
    pub fn calls(calls: u64) -> Self {
        Self::limited(BudgetLimits { calls: Some(calls), ..BudgetLimits::default() })
    }

    /// A part of this account: what is spent of it is spent of this one, too.
    #[must_use]
    pub fn child(&self, limits: BudgetLimits) -> Self {
        self.part(limits, Usage::default())
    }

    /// The accounts of this budget: that of the whole run first, this one last. Empty if nothing is
    /// limited or counted.
    #[must_use]
    pub fn accounts(&self) -> Vec<AccountState> {
        let mut accounts = Vec::new();
        let mut budget = self;
        while let Some(account) = &budget.account {
            let BudgetLimits { calls, turns, tokens, cost_micro_usd, deadline } = account.limits;
            let deadline_ms = deadline.map(|deadline| deadline.unix_ms());
            let spent = budget.usage();
            let state = AccountState { calls, turns, tokens, cost_micro_usd, deadline_ms, spent };
            accounts.push(state);
            budget = &account.parent;
        }
        accounts.reverse();
        accounts
    }

    /// The account of the whole run, of which this budget is a part. Unlimited if there is none.
    #[must_use]
    pub fn run_account(&self) -> Self {
        let mut budget = self;
        while let Some(account) = &budget.account {
            if account.parent.account.is_none() {
                break;
            }
            budget = &account.parent;
        }
        budget.clone()
    }

    /// A part of this account, as rows kept it, with what it had spent.
    #[must_use]
    pub fn restore(&self, state: &AccountState) -> Self {
        let AccountState { calls, turns, tokens, cost_micro_usd, deadline_ms, spent } = *state;
        let deadline = deadline_ms.map(|deadline_ms| {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Deadline::after(Duration::from_millis(deadline_ms).saturating_sub(now))
        });
        self.part(BudgetLimits { calls, turns, tokens, cost_micro_usd, deadline }, spent)
    }

    fn part(&self, limits: BudgetLimits, spent: Usage) -> Self {
        let account = Account {
            limits,
            calls: AtomicU64::new(spent.calls),
            turns: AtomicU64::new(spent.turns.turns),
            tokens: AtomicU64::new(spent.turns.tokens),
            cost_micro_usd: AtomicU64::new(spent.turns.cost_micro_usd),
            parent: self.clone(),
        };
        Self { account: Some(Arc::new(account)) }
    }

    /// Counts what another process has spent, here and in every account above, whatever the limits.
    pub fn add_spent(&self, spent: Usage) {
        let mut budget = self;
        while let Some(account) = &budget.account {
            account.calls.fetch_add(spent.calls, Ordering::AcqRel);
            budget = &account.parent;
        }
        // What was spent is counted, and the next call is refused.
        let _ = self.add_usage(spent.turns);
    }

    /// Checks that no limit is exceeded, of this account or of one above.
    ///
    /// # Errors
    /// The first limit that is.
    pub fn check_open(&self) -> Result<(), Exceeded> {
        let mut budget = self;
        while let Some(account) = &budget.account {
            account.check_open()?;
            budget = &account.parent;
        }
        Ok(())
    }

    /// Charges one call to this account and to every account above, or to none of them.
    ///
    /// # Errors
    /// The limit that stands against it; nothing is counted then.
    pub fn charge_call(&self) -> Result<(), Exceeded> {
        let Some(account) = &self.account else { return Ok(()) };
        account.check_open()?;

        let limit = account.limits.calls.unwrap_or(u64::MAX);
        let one_more = |calls| (calls < limit).then(|| calls + 1);
        let charged = account.calls.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        charged.map_err(|used| Exceeded::Calls { used, cap: limit })?;

        account.parent.charge_call().inspect_err(|_| {
            account.calls.fetch_sub(1, Ordering::AcqRel);
        })
    }

    /// Counts what turns used, here and in every account above.
    ///
    /// # Errors
    /// The first limit that more was used of than it allows. It was used, so it is counted; whoever
    /// used it ends, and the next call is refused.
    pub fn add_usage(&self, used: TurnUsage) -> Result<(), Exceeded> {
        let mut outcome = Ok(());
        let mut budget = self;
        while let Some(account) = &budget.account {
            account.turns.fetch_add(used.turns, Ordering::AcqRel);
            account.tokens.fetch_add(used.tokens, Ordering::AcqRel);
            account.cost_micro_usd.fetch_add(used.cost_micro_usd, Ordering::AcqRel);
            outcome = outcome.and_then(|()| account.check_used());
            budget = &account.parent;
        }
        outcome
    }

    /// What was spent of this account.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let Some(account) = &self.account else { return Usage::default() };
        let read = |spent: &AtomicU64| spent.load(Ordering::Acquire);
        Usage {
            calls: read(&account.calls),
            turns: TurnUsage {
                turns: read(&account.turns),
                tokens: read(&account.tokens),
                cost_micro_usd: read(&account.cost_micro_usd),
            },
        }
    }
}

impl Account {
    fn check_open(&self) -> Result<(), Exceeded> {
        if self.limits.deadline.is_some_and(|deadline| deadline.is_past()) {
            return Err(Exceeded::Time);
        }
        self.check_used()
    }

    /// A limit is exceeded once more than that was used.
    fn check_used(&self) -> Result<(), Exceeded> {
        let over = |spent: &AtomicU64, limit: Option<u64>| {
            let used = spent.load(Ordering::Acquire);
            limit.filter(|cap| used > *cap).map(|cap| (used, cap))
        };

        if let Some((used, cap)) = over(&self.tokens, self.limits.tokens) {
            return Err(Exceeded::Tokens { used, cap });
        }
        if let Some((used, cap)) = over(&self.cost_micro_usd, self.limits.cost_micro_usd) {
            return Err(Exceeded::Cost { used, cap });
        }
        if let Some((used, cap)) = over(&self.turns, self.limits.turns) {
            return Err(Exceeded::Turns { used, cap });
        }
        Ok(())
    }
}

impl Usage {
    /// The difference to an earlier state.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        let (turns, before) = (self.turns, earlier.turns);
        Self {
            calls: self.calls.saturating_sub(earlier.calls),
            turns: TurnUsage {
                turns: turns.turns.saturating_sub(before.turns),
                tokens: turns.tokens.saturating_sub(before.tokens),
                cost_micro_usd: turns.cost_micro_usd.saturating_sub(before.cost_micro_usd),
            },
        }
    }
}

impl From<Exceeded> for CallError {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(ErrorCode::Denied, exceeded.to_string())
    }
}

#[cfg(test)]
mod tests;
