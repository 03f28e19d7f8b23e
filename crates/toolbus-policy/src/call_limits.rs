//! What holds for the calls of a scope by the name of its rules: calls that are made one by one,
//! and those that a program makes which a model wrote.

use std::time::Duration;

use toolbus_tools::Budget;
use toolbus_tools::budget::RunLimits;
use toolbus_tools::scope::RulesName;

/// Bounds of the calls of one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// How many there may be.
    pub calls_max: u64,
    /// How long one of them may take.
    pub call_timeout: Duration,
    /// How long an approval of one is waited for. It is no part of the time that the call may take.
    pub approval_timeout: Duration,
    /// How long all of them may take together.
    pub total_timeout: Duration,
}

impl CallLimits {
    /// Calls that are made one by one.
    pub const DIRECT: Self = Self {
        calls_max: 10_000,
        call_timeout: Duration::from_secs(600),
        approval_timeout: Duration::from_secs(300),
        total_timeout: Duration::from_secs(3_600),
    };

    /// Calls of a program that a model wrote.
    pub const CHAIN: Self = Self {
        calls_max: 50,
        call_timeout: Duration::from_secs(60),
        approval_timeout: Duration::from_secs(55),
        total_timeout: Duration::from_secs(300),
    };

    /// Those of the rules of this name, where there are any.
    #[must_use]
    pub fn of(rules: &RulesName) -> Option<Self> {
        match rules.as_str() {
            "direct" => Some(Self::DIRECT),
            "chain" => Some(Self::CHAIN),
            _ => None,
        }
    }

    /// A part of a budget with these limits, whose time begins now.
    #[must_use]
    pub fn budget(&self, parent: &Budget) -> Budget {
        let (calls, time) = (Some(self.calls_max), Some(self.total_timeout));
        RunLimits { calls, time, ..RunLimits::default() }.budget_of(parent)
    }
}

#[cfg(test)]
mod tests;
