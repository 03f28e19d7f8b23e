//! Budgets: how much a scope may spend, counted in it and in every scope above it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toolbus_bus::Deadline;
use toolbus_wire::ErrorCode;

use crate::call_error::CallError;

/// What a scope may spend. `None` is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Calls of tools.
    pub calls: Option<u64>,
    /// Tokens of models.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// When the last call must have begun.
    pub deadline: Option<Deadline>,
}

/// What was spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Calls of tools.
    pub calls: u64,
    /// Tokens of models.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub cost_micro_usd: u64,
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
    tokens: AtomicU64,
    cost_micro_usd: AtomicU64,
    parent: Budget,
}

/// A limit that is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Exceeded {
    /// So many calls were made already.
    #[error("the budget of {0} calls is spent")]
    Calls(u64),
    /// So many tokens were used already.
    #[error("the budget of {0} tokens is spent")]
    Tokens(u64),
    /// So much money was spent already, in millionths of a US dollar.
    #[error("the budget of {0} millionths of a dollar is spent")]
    Cost(u64),
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
        let account = Account {
            limits,
            calls: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            cost_micro_usd: AtomicU64::new(0),
            parent: self.clone(),
        };
        Self { account: Some(Arc::new(account)) }
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
        charged.map_err(|_| Exceeded::Calls(limit))?;

        account.parent.charge_call().inspect_err(|_| {
            account.calls.fetch_sub(1, Ordering::AcqRel);
        })
    }

    /// Counts what a call used, here and in every account above. It was used, so nothing is
    /// refused; the next call is.
    pub fn add_usage(&self, tokens: u64, cost_micro_usd: u64) {
        let mut budget = self;
        while let Some(account) = &budget.account {
            account.tokens.fetch_add(tokens, Ordering::AcqRel);
            account.cost_micro_usd.fetch_add(cost_micro_usd, Ordering::AcqRel);
            budget = &account.parent;
        }
    }

    /// What was spent of this account.
    #[must_use]
    pub fn usage(&self) -> Usage {
        self.account.as_ref().map_or_else(Usage::default, |account| Usage {
            calls: account.calls.load(Ordering::Acquire),
            tokens: account.tokens.load(Ordering::Acquire),
            cost_micro_usd: account.cost_micro_usd.load(Ordering::Acquire),
        })
    }
}

impl Account {
    fn check_open(&self) -> Result<(), Exceeded> {
        let is_spent = |spent: &AtomicU64, limit: Option<u64>| {
            limit.filter(|&limit| spent.load(Ordering::Acquire) >= limit)
        };

        if self.limits.deadline.is_some_and(|deadline| deadline.is_past()) {
            return Err(Exceeded::Time);
        }
        if let Some(limit) = is_spent(&self.tokens, self.limits.tokens) {
            return Err(Exceeded::Tokens(limit));
        }
        if let Some(limit) = is_spent(&self.cost_micro_usd, self.limits.cost_micro_usd) {
            return Err(Exceeded::Cost(limit));
        }
        Ok(())
    }
}

impl From<Exceeded> for CallError {
    fn from(exceeded: Exceeded) -> Self {
        Self::new(ErrorCode::Denied, exceeded.to_string())
    }
}

#[cfg(test)]
mod tests;
