//! Budgets of a book: what one run may spend, by where it comes in and whose it is.

use std::collections::HashMap;
use std::time::Duration;

use toolbus_config::TimeSpan;
use toolbus_tools::budget::RunLimits;

use crate::book::check_name;
use crate::conditions::Conditions;
use crate::mistake::{Mistake, Reporter};
use crate::settings::BudgetSettings;

/// How many budgets a book may have.
pub const BUDGETS_MAX: usize = 100;

/// Longest time that a run may be given.
const RUN_TIMEOUT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);
/// Most money that a run may be given, in US dollars.
const COST_MAX_USD: f64 = 1e9;

/// What the runs may spend that meet its conditions.
#[derive(Debug)]
pub(crate) struct RunBudget {
    pub(crate) name: Box<str>,
    pub(crate) limits: RunLimits,
    pub(crate) conditions: Conditions,
}

/// Reads the budgets of a book, and adds what is wrong with them.
pub(crate) fn read_budgets(all: &[BudgetSettings], found: &mut Vec<Mistake>) -> Vec<RunBudget> {
    let mut names = HashMap::new();
    let mut read = Vec::new();
    for (position, settings) in all.iter().take(BUDGETS_MAX).enumerate() {
        let key = format!("budgets[{position}]");
        let owner = format!("budget '{}'", settings.name);
        let mut reporter = Reporter { key, owner, found };
        check_name(&settings.name, position, &mut names, &mut reporter);

        let limits = read_limits(settings, &mut reporter);
        let conditions = Conditions::read(&settings.conditions(), &mut reporter);
        read.push(RunBudget { name: settings.name.as_str().into(), limits, conditions });
    }
    read
}

fn read_limits(settings: &BudgetSettings, reporter: &mut Reporter<'_>) -> RunLimits {
    let BudgetSettings { calls, turns, tokens, cost_usd, time, .. } = settings;
    let time = time.map(TimeSpan::duration);
    if time.is_some_and(|time| time.is_zero() || time > RUN_TIMEOUT_MAX) {
        reporter.add("time", "a run has some time, and at most 366 days");
    }
    let cost_micro_usd = cost_usd.and_then(|dollars| {
        let micro = micro_dollars(dollars);
        if micro.is_none() {
            reporter.add("cost_usd", "it is 0 to a billion dollars");
        }
        micro
    });

    let limits = RunLimits { calls: *calls, turns: *turns, tokens: *tokens, cost_micro_usd, time };
    // One that only has a cost that is no amount is told of that.
    if limits == RunLimits::default() && cost_usd.is_none() {
        reporter.add("calls", "a budget limits something: calls, turns, tokens, cost_usd or time");
    }
    limits
}

/// Dollars as whole millionths.
fn micro_dollars(dollars: f64) -> Option<u64> {
    let is_amount = (0.0..=COST_MAX_USD).contains(&dollars);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is 0 to 10^15, rounded"
    )]
    is_amount.then(|| (dollars * 1e6).round() as u64)
}

#[cfg(test)]
mod tests;
