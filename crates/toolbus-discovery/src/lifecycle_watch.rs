//! Tools on their way through their lives: which state each is in, and who hears that it changes.
//!
//! States follow from what is known anyway, so nothing is kept of them but the last: a process that
//! starts again says of no tool that it has changed.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolbus_tools::id::ToolId;

use crate::discovery::Inner;
use crate::events::timestamp;
use crate::lifecycle::Lifecycle;

/// How often states are looked at, at most.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// How often they are looked at where nothing else happens: disuse makes no noise.
const DISUSE_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Changes that are kept.
const CHANGES_MAX: usize = 1_024;

/// A tool that came into another state of its life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifecycleChange {
    /// The tool.
    pub tool: ToolId,
    /// The state that it was in. `None`: it is new.
    pub from: Option<Lifecycle>,
    /// The state that it is in.
    pub to: Lifecycle,
    /// When it was noticed: UTC in ISO 8601.
    pub timestamp: String,
}

/// How many tools are in each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LifecycleCounts {
    /// Those that wait to be indexed, or cannot be: their definitions have problems.
    pub registered: usize,
    /// Those that can be found and were not used yet.
    pub discoverable: usize,
    /// Those that are used.
    pub optimized: usize,
    /// Those that are not used any more, or fail more often than not.
    pub not_recommended: usize,
}

/// The states that tools were seen in last.
#[derive(Default)]
pub(crate) struct Lifecycles {
    states: HashMap<ToolId, Lifecycle>,
    changes: VecDeque<LifecycleChange>,
}

impl LifecycleCounts {
    fn of(states: impl Iterator<Item = Lifecycle>) -> Self {
        let mut counts = Self::default();
        for state in states {
            *counts.of_state(state) += 1;
        }
        counts
    }

    fn of_state(&mut self, state: Lifecycle) -> &mut usize {
        match state {
            Lifecycle::Registered => &mut self.registered,
            Lifecycle::Discoverable => &mut self.discoverable,
            Lifecycle::Optimized => &mut self.optimized,
            Lifecycle::NotRecommended => &mut self.not_recommended,
        }
    }
}

impl Lifecycles {
    pub(crate) fn counts(&self) -> LifecycleCounts {
        LifecycleCounts::of(self.states.values().copied())
    }

    /// The last changes, the newest first.
    pub(crate) fn changes(&self) -> Vec<LifecycleChange> {
        self.changes.iter().rev().cloned().collect()
    }

    /// Takes in the states that tools are in now, and says what has changed. What is gone is
    /// forgotten.
    fn replace(&mut self, now: HashMap<ToolId, Lifecycle>, at: &str) -> Vec<LifecycleChange> {
        let mut changed: Vec<_> = now
            .iter()
            .map(|(tool, to)| (tool, self.states.get(tool).copied(), *to))
            .filter(|(_, from, to)| *from != Some(*to))
            .map(|(tool, from, to)| LifecycleChange {
                tool: tool.clone(),
                from,
                to,
                timestamp: at.to_owned(),
            })
            .collect();
        changed.sort_by(|one, other| one.tool.cmp(&other.tool));
        self.states = now;

        let new = changed.len().min(CHANGES_MAX);
        self.changes.extend(changed[changed.len() - new..].iter().cloned());
        let over = self.changes.len().saturating_sub(CHANGES_MAX);
        self.changes.drain(..over);
        changed
    }
}

impl Inner {
    /// Looks at the state of every tool, and reports each that has changed.
    pub(crate) fn observe_lifecycles(&self) {
        let snapshot = self.deps.registry.snapshot();
        let catalogue = self.catalogue();
        let now_ms = self.config.clock.now_ms();
        let states: HashMap<_, _> = {
            let learned = self.learned.read();
            let entries = snapshot.tools().iter();
            let state =
                |tool: &ToolId| learned.lifecycle(tool, catalogue.find(tool).is_some(), now_ms);
            entries.map(|entry| (entry.id.clone(), state(&entry.id))).collect()
        };

        let changed = self.lifecycles.lock().replace(states, &timestamp(now_ms));
        if changed.is_empty() {
            return;
        }
        for change in &changed {
            report(change);
        }
        for state in Lifecycle::ALL {
            let count = changed.iter().filter(|change| change.to == state).count();
            self.metrics.count_lifecycle_changes(state, count);
        }
        self.revision.send_modify(|number| *number += 1);
    }
}

/// Writes a log message. Tools that can be found at once are as many as there are.
fn report(change: &LifecycleChange) {
    let LifecycleChange { tool, from, to, .. } = change;
    let from = from.map_or("new", Lifecycle::as_str);
    match to {
        Lifecycle::Registered | Lifecycle::Discoverable => {
            tracing::debug!(tool = tool.as_str(), from, to = to.as_str(), "tool changed its state");
        }
        Lifecycle::Optimized | Lifecycle::NotRecommended => {
            tracing::info!(tool = tool.as_str(), from, to = to.as_str(), "tool changed its state");
        }
    }
}

/// Looks at the states when tools or what is known of them have changed, until it is stopped.
pub(crate) async fn watch(inner: Arc<Inner>, stop: CancellationToken) {
    let mut changes = inner.revision.subscribe();
    loop {
        tokio::select! {
            // A change that was not seen is seen the next time.
            changed = timeout(DISUSE_INTERVAL, changes.changed()) => {
                if matches!(changed, Ok(Err(_))) {
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
        inner.observe_lifecycles();
        if timeout(WATCH_INTERVAL, stop.cancelled()).await.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
