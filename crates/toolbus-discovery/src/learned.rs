//! What was learned: statistics of tools, the histories of principals, and which tools are used
//! together. It has no I/O: a call's end is told to it, and totals go to and come from the store.
//!
//! Everything is counted by periods, and what is known is the sum of the last two, so that what
//! was long ago fades without a step that could be made twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toolbus_tools::id::ToolId;

use crate::config::DiscoveryLimits;
use crate::events::split_id;
use crate::ledger::{Ledger, Totals};
use crate::lifecycle::{Lifecycle, LifecycleFacts};
use crate::ranking::UserHistory;
use crate::statistics::{Statistics, use_weight};
use crate::verdict::Verdict;

/// How long a period is, in milliseconds: 30 days.
const PERIOD_MS: i64 = 30 * 24 * 60 * 60 * 1_000;
/// So many periods before the present one are kept, so that it is known when a tool was used last.
pub(crate) const PERIODS_KEPT: i64 = 6;
/// How often what all have learned makes cached answers old, at most.
const EPOCH_INTERVAL: Duration = Duration::from_secs(1);
/// Principals whose last tool is known.
const RECENT_MAX: usize = 10_000;
/// Who stands for all who are not proven to be whom they say: they count as one.
pub(crate) const CLAIMED: &str = "claimed";

/// A tool in a period.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ToolKey {
    pub(crate) tool: ToolId,
    pub(crate) period: i64,
}

/// A tool that a principal has used, in a period.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct UseKey {
    pub(crate) owner: Arc<str>,
    pub(crate) tool: ToolId,
    pub(crate) period: i64,
}

/// A tool that was used after another one, in a period.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct PairKey {
    pub(crate) before: ToolId,
    pub(crate) after: ToolId,
    pub(crate) period: i64,
}

/// What a principal has done with a tool, or how often tools were used together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) successes: u64,
    pub(crate) failures: u64,
    pub(crate) last_used_ms: i64,
}

/// The end of a call.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) tool: ToolId,
    pub(crate) verdict: Verdict,
    pub(crate) ran: Duration,
    /// Who called; `None`: somebody who is not proven to be whom he says.
    pub(crate) owner: Option<Arc<str>>,
    /// The session that it was in.
    pub(crate) session: Option<Arc<str>>,
    /// A tool of the same server made the call, or the server itself.
    pub(crate) is_self_promotion: bool,
    pub(crate) at_ms: i64,
}

/// A principal, and a session of it.
type Whose = (Arc<str>, Option<Arc<str>>);

/// What was learned.
#[derive(Debug)]
pub(crate) struct Learned {
    pub(crate) tools: Ledger<ToolKey, Statistics>,
    pub(crate) uses: Ledger<UseKey, Uses>,
    pub(crate) pairs: Ledger<PairKey, Uses>,
    /// The last tool of each principal and session.
    recent: HashMap<Whose, (ToolId, u64)>,
    /// Grows with each principal's own events.
    own_epochs: HashMap<Arc<str>, u64>,
    epoch: Epoch,
    /// How many calls were told.
    told: u64,
}

/// Grows with what was learned, and not more often than its interval.
#[derive(Debug)]
struct Epoch {
    value: u64,
    has_changed: bool,
    grown_at: Option<Instant>,
}

impl Totals for Uses {
    fn add(&mut self, other: &Self) {
        self.successes += other.successes;
        self.failures += other.failures;
        self.last_used_ms = self.last_used_ms.max(other.last_used_ms);
    }

    fn is_empty(&self) -> bool {
        self.successes + self.failures == 0
    }

    fn rank(&self) -> (u64, i64) {
        (self.successes + self.failures, self.last_used_ms)
    }
}

/// The period of a moment.
pub(crate) fn period_of(ms: i64) -> i64 {
    ms.div_euclid(PERIOD_MS)
}

/// The periods that count at a moment: the present one, the one before, and one more, for clocks
/// of others may be ahead.
fn counting(now_ms: i64) -> [i64; 3] {
    let period = period_of(now_ms);
    [period - 1, period, period + 1]
}

impl Learned {
    pub(crate) fn new(limits: &DiscoveryLimits) -> Self {
        Self {
            tools: Ledger::new(limits.tools_max),
            uses: Ledger::new(limits.uses_max),
            pairs: Ledger::new(limits.pairs_max),
            recent: HashMap::new(),
            own_epochs: HashMap::new(),
            epoch: Epoch { value: 0, has_changed: false, grown_at: None },
            told: 0,
        }
    }

    /// Learns from the end of a call.
    pub(crate) fn learn(&mut self, ended: &Ended) {
        let is_failure = matches!(ended.verdict, Verdict::Failure | Verdict::Timeout);
        if ended.verdict == Verdict::Nothing || (ended.is_self_promotion && !is_failure) {
            return;
        }
        self.told += 1;
        self.epoch.has_changed = true;

        let weight = self.count_use(ended, is_failure);
        self.count_tool(ended, weight);
        if let Some(owner) = &ended.owner {
            *self.own_epochs.entry(Arc::clone(owner)).or_default() += 1;
        }
        if ended.verdict == Verdict::Success {
            self.follow_principal(ended);
        }
        self.bound_principals();
    }

    /// Counts what a principal does with a tool, and says what that counts.
    fn count_use(&mut self, ended: &Ended, is_failure: bool) -> u64 {
        if ended.is_self_promotion || ended.verdict == Verdict::Unavailable {
            return 0;
        }
        let owner = ended.owner.clone().unwrap_or_else(|| CLAIMED.into());
        let period = period_of(ended.at_ms);
        let key = UseKey { owner, tool: ended.tool.clone(), period };
        let before = self.uses.total(&key).unwrap_or_default().successes;

        self.uses.count(key, |uses| {
            uses.successes += u64::from(!is_failure);
            uses.failures += u64::from(is_failure);
            uses.last_used_ms = uses.last_used_ms.max(ended.at_ms);
        });
        if is_failure { 0 } else { use_weight(before) }
    }

    fn count_tool(&mut self, ended: &Ended, weight: u64) {
        let key = ToolKey { tool: ended.tool.clone(), period: period_of(ended.at_ms) };
        self.tools.count(key, |statistics| {
            match ended.verdict {
                Verdict::Success => statistics.successes += 1,
                Verdict::Failure => statistics.failures += 1,
                Verdict::Timeout => statistics.timeouts += 1,
                Verdict::Unavailable => statistics.unavailable += 1,
                Verdict::Nothing => {}
            }
            if ended.verdict != Verdict::Unavailable {
                statistics.add_duration(u64::try_from(ended.ran.as_millis()).unwrap_or(u64::MAX));
                statistics.last_used_ms = statistics.last_used_ms.max(ended.at_ms);
            }
            statistics.weight += weight;
        });
    }

    /// Keeps which tool a principal has used last, and counts it with the one before.
    fn follow_principal(&mut self, ended: &Ended) {
        let Some(owner) = ended.owner.clone() else { return };
        let key = (owner, ended.session.clone());
        let before = self.recent.insert(key, (ended.tool.clone(), self.told));

        if let Some((before, _)) = before.filter(|(before, _)| *before != ended.tool) {
            let period = period_of(ended.at_ms);
            let pair = PairKey { before, after: ended.tool.clone(), period };
            self.pairs.count(pair, |uses| {
                uses.successes += 1;
                uses.last_used_ms = uses.last_used_ms.max(ended.at_ms);
            });
        }
    }

    fn bound_principals(&mut self) {
        if self.recent.len() > RECENT_MAX {
            let mut told: Vec<u64> = self.recent.values().map(|(_, told)| *told).collect();
            let middle = told.len() / 2;
            let (_, oldest, _) = told.select_nth_unstable(middle);
            let oldest = *oldest;
            self.recent.retain(|_, (_, told)| *told > oldest);
        }
        if self.own_epochs.len() > RECENT_MAX {
            // All that was cached is old then, and nobody's is mistaken for what it was before.
            self.own_epochs.clear();
            self.epoch.value += 1;
        }
    }

    /// What is known of a tool lately.
    pub(crate) fn statistics(&self, tool: &ToolId, now_ms: i64) -> Statistics {
        let mut statistics = Statistics::default();
        for period in counting(now_ms) {
            if let Some(more) = self.tools.total(&ToolKey { tool: tool.clone(), period }) {
                statistics.add(&more);
            }
        }
        statistics
    }

    /// How long ago a tool was used last. A clock that was set back makes it no time at all.
    pub(crate) fn last_used(&self, tool: &ToolId, now_ms: i64) -> Option<Duration> {
        let newest = period_of(now_ms) + 1;
        let periods = (newest - PERIODS_KEPT - 1..=newest).rev();
        let totals =
            periods.filter_map(|period| self.tools.total(&ToolKey { tool: tool.clone(), period }));
        let last = totals.map(|total| total.last_used_ms).max().filter(|ms| *ms > 0)?;
        Some(since(last, now_ms))
    }

    /// Where a tool is in its life.
    pub(crate) fn lifecycle(&self, tool: &ToolId, is_indexed: bool, now_ms: i64) -> Lifecycle {
        let known = self.statistics(tool, now_ms);
        Lifecycle::of(&LifecycleFacts {
            is_indexed,
            last_used: self.last_used(tool, now_ms),
            runs: known.runs(),
            success_rate: known.success_rate(),
        })
    }

    /// What a principal has done with a tool lately.
    pub(crate) fn history(&self, owner: &Arc<str>, tool: &ToolId, now_ms: i64) -> UserHistory {
        let mut uses = Uses::default();
        for period in counting(now_ms) {
            let owner = Arc::clone(owner);
            if let Some(more) = self.uses.total(&UseKey { owner, tool: tool.clone(), period }) {
                uses.add(&more);
            }
        }
        UserHistory {
            successes: uses.successes,
            failures: uses.failures,
            last_used: (!uses.is_empty()).then(|| since(uses.last_used_ms, now_ms)),
        }
    }

    /// The tools that were used after this one, with how often.
    pub(crate) fn used_after(&self, tool: &ToolId, now_ms: i64) -> Vec<(ToolId, u64)> {
        let periods = counting(now_ms);
        let mut found: HashMap<ToolId, u64> = HashMap::new();
        for (key, uses) in self.pairs.iter() {
            if key.before == *tool && periods.contains(&key.period) {
                *found.entry(key.after.clone()).or_default() += uses.successes;
            }
        }
        let mut found: Vec<_> = found.into_iter().collect();
        found.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        found
    }

    /// The server of the tool that a principal has used last in a session.
    pub(crate) fn previous_server(
        &self,
        owner: &Arc<str>,
        session: Option<Arc<str>>,
    ) -> Option<&str> {
        let (tool, _) = self.recent.get(&(Arc::clone(owner), session))?;
        Some(split_id(tool).0)
    }

    /// Something was learned elsewhere.
    pub(crate) fn learned_elsewhere(&mut self) {
        self.epoch.has_changed = true;
    }

    /// What cached answers are good for: the epoch of what all have learned, which grows once in a
    /// second at most, and that of a principal's own, which grows at once.
    pub(crate) fn epochs(&mut self, owner: Option<&Arc<str>>) -> (u64, u64) {
        let epoch = &mut self.epoch;
        let is_due = epoch.grown_at.is_none_or(|at| at.elapsed() >= EPOCH_INTERVAL);
        if epoch.has_changed && is_due {
            *epoch = Epoch {
                value: epoch.value + 1,
                has_changed: false,
                grown_at: Some(Instant::now()),
            };
        }
        let own = owner.and_then(|owner| self.own_epochs.get(owner));
        (self.epoch.value, own.copied().unwrap_or_default())
    }

    /// How many calls were learned from.
    pub(crate) fn told(&self) -> u64 {
        self.told
    }

    /// Forgets what was before the periods that are kept.
    pub(crate) fn forget_old(&mut self, now_ms: i64) {
        let oldest = period_of(now_ms) - PERIODS_KEPT;
        self.tools.retain(|key| key.period >= oldest);
        self.uses.retain(|key| key.period >= oldest);
        self.pairs.retain(|key| key.period >= oldest);
    }

    /// Whether there is something that is not written.
    pub(crate) fn has_unsaved(&self) -> bool {
        self.tools.has_unsaved() || self.uses.has_unsaved() || self.pairs.has_unsaved()
    }
}

fn since(then_ms: i64, now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms.saturating_sub(then_ms)).unwrap_or_default())
}

#[cfg(test)]
mod tests;
