//! The keeper: writes what was learned to the store, and reads what other processes have learned.
//!
//! What is written is what was counted since, never a total, so any number of processes at one
//! store add to the same totals. A write of which nobody knows whether it was made is not made
//! again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_store::{Error, LazyStore, Store};

use crate::config::{Clock, DiscoveryLimits};
use crate::learned::{Learned, PERIODS_KEPT, PairKey, ToolKey, UseKey, period_of};
use crate::ledger::Ledger;
use crate::recorder::{RECENT_EVENTS_MAX, RecentEvents};
use crate::rows::{self, RowKey, RowTotals};

/// How often what was learned is written, and what others have learned is read.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);
/// How often what is too old or too much is taken away.
const TIDY_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Totals that are written in one transaction.
const GROUP_MAX: usize = 500;
/// How long before the newest row that was read others may have begun to write, in milliseconds.
const WRITE_SLACK_MS: i64 = 30_000;
/// The part of the state that is told of.
const PART: &str = "discovery";

pub(crate) const EXECUTIONS: &str = "discovery_executions";
pub(crate) const QUERIES: &str = "discovery_queries";

/// Keeps what was learned in a store.
pub(crate) struct Keeper {
    pub(crate) store: LazyStore,
    pub(crate) learned: Arc<RwLock<Learned>>,
    pub(crate) events: Arc<Mutex<RecentEvents>>,
    pub(crate) limits: DiscoveryLimits,
    pub(crate) clock: Clock,
    pub(crate) dropped: Arc<AtomicU64>,
    /// Fires when nothing more is learned.
    pub(crate) stop: CancellationToken,
    /// Tools, uses and pairs that were written before this moment of the store are read.
    pub(crate) read_ms: [i64; 3],
    pub(crate) is_failing: bool,
}

impl Keeper {
    /// Keeps until it is stopped, and then writes what is left.
    pub(crate) async fn run(mut self) {
        let mut tidied_at: Option<Instant> = None;
        let mut changes = None;
        if self.store.may_hold_something() {
            self.read().await;
        }

        loop {
            let is_last = timeout(SAVE_INTERVAL, self.stop.cancelled()).await.is_ok();
            if self.has_unsaved() {
                let saved = self.save().await;
                self.report(saved, is_last);
            }
            if is_last {
                return;
            }

            if let Some(store) = self.store.opened() {
                // What was written before the first look is not told of: it is read in any case.
                let changes = changes.get_or_insert_with(|| {
                    let mut changes = store.changes(PART);
                    changes.mark_changed();
                    changes
                });
                if changes.has_changed().unwrap_or(false) {
                    changes.mark_unchanged();
                    self.read().await;
                }
            }
            let is_due = tidied_at.is_none_or(|at| at.elapsed() >= TIDY_INTERVAL);
            if is_due && self.store.opened().is_some() {
                self.tidy().await;
                tidied_at = Some(Instant::now());
            }
        }
    }

    fn has_unsaved(&self) -> bool {
        let events = self.events.lock();
        let has_events = !events.executions.is_empty() || !events.queries.is_empty();
        has_events || self.learned.read().has_unsaved()
    }

    fn report(&mut self, saved: Result<(), Error>, is_last: bool) {
        match saved {
            Ok(()) if self.is_failing => {
                tracing::info!("what discovery learns is written again");
                self.is_failing = false;
            }
            Ok(()) => {}
            Err(error) if is_last => tracing::error!(%error, "what discovery learned last is lost"),
            Err(error) if !self.is_failing => {
                tracing::warn!(%error, "what discovery learns cannot be written for now");
                self.is_failing = true;
            }
            Err(_) => {}
        }
    }

    async fn save(&self) -> Result<(), Error> {
        let store = self.store.open().await?;
        self.save_totals(store, |learned| &mut learned.tools).await?;
        self.save_totals(store, |learned| &mut learned.uses).await?;
        self.save_totals(store, |learned| &mut learned.pairs).await?;

        self.save_events(store, EXECUTIONS, |events| &mut events.executions).await?;
        self.save_events(store, QUERIES, |events| &mut events.queries).await
    }

    async fn save_totals<K: RowKey, V: RowTotals>(
        &self,
        store: &Store,
        ledger: impl Fn(&mut Learned) -> &mut Ledger<K, V>,
    ) -> Result<(), Error> {
        loop {
            let mut added = ledger(&mut self.learned.write()).take_unsaved(GROUP_MAX);
            if added.is_empty() {
                return Ok(());
            }
            added.sort_by(|(one, _), (other, _)| one.cmp(other));
            let keys: Vec<K> = added.iter().map(|(key, _)| key.clone()).collect();

            let written = store.write(move |transaction| {
                transaction.notify(PART);
                Box::pin(rows::add(transaction, added))
            });
            let written = written.await;
            let mut learned = self.learned.write();
            let ledger = ledger(&mut learned);
            match written {
                Ok(totals) => totals.into_iter().for_each(|(key, total)| ledger.saved(&key, total)),
                Err(error @ Error::OutcomeUnknown(_)) => {
                    keys.iter().for_each(|key| ledger.unknown_whether_saved(key));
                    return Err(error);
                }
                Err(error) => {
                    keys.into_iter().for_each(|key| ledger.not_saved(key));
                    return Err(error);
                }
            }
        }
    }

    async fn save_events<E: Serialize>(
        &self,
        store: &Store,
        table: &'static str,
        queue: impl Fn(&mut RecentEvents) -> &mut VecDeque<(i64, E)>,
    ) -> Result<(), Error> {
        let events: Vec<_> = queue(&mut self.events.lock()).drain(..).collect();
        if events.is_empty() {
            return Ok(());
        }
        let text = |event: &E| serde_json::to_string(event).unwrap_or_default();
        let texts = events.iter().map(|(at_ms, event)| (*at_ms, text(event))).collect();
        let written =
            store.write(move |transaction| Box::pin(rows::add_events(transaction, table, texts)));
        let written = written.await;

        match &written {
            Ok(()) => {}
            // They may be there already, or will never be taken.
            Err(Error::OutcomeUnknown(_) | Error::Refused(_) | Error::Conflict(_)) => {
                self.dropped.fetch_add(events.len() as u64, Ordering::Relaxed);
            }
            Err(_) => {
                let mut waiting = self.events.lock();
                let queue = queue(&mut waiting);
                for event in events.into_iter().rev() {
                    if queue.len() < RECENT_EVENTS_MAX {
                        queue.push_front(event);
                    } else {
                        self.dropped.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        written
    }

    async fn read(&mut self) {
        if let Err(error) = self.try_read().await {
            tracing::warn!(%error, "cannot read what was learned before");
        }
    }

    /// Reads what was written since, and takes all of it in at once: no reader sees a part of it.
    async fn try_read(&mut self) -> Result<(), Error> {
        let store = self.store.open().await?;
        let DiscoveryLimits { tools_max, uses_max, pairs_max, .. } = self.limits;
        let since = self.read_ms.map(|ms| ms.saturating_sub(WRITE_SLACK_MS).max(0));
        let oldest = self.oldest_period();
        let (tools, tools_ms) = rows::read_since(store, since[0], oldest, tools_max).await?;
        let (uses, uses_ms) = rows::read_since(store, since[1], oldest, uses_max).await?;
        let (pairs, pairs_ms) = rows::read_since(store, since[2], oldest, pairs_max).await?;
        let newest = [tools_ms, uses_ms, pairs_ms];
        self.read_ms.iter_mut().zip(newest).for_each(|(own, newest)| *own = newest.max(*own));

        let mut learned = self.learned.write();
        tools.into_iter().for_each(|(key, total)| learned.tools.read(key, total));
        uses.into_iter().for_each(|(key, total)| learned.uses.read(key, total));
        pairs.into_iter().for_each(|(key, total)| learned.pairs.read(key, total));
        learned.learned_elsewhere();
        Ok(())
    }

    fn oldest_period(&self) -> i64 {
        period_of(self.clock.now_ms()) - PERIODS_KEPT
    }

    async fn tidy(&self) {
        match self.try_tidy().await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "took away rows of what was learned"),
            Err(error) => tracing::warn!(%error, "cannot take away rows of what was learned"),
        }
    }

    async fn try_tidy(&self) -> Result<u64, Error> {
        let store = self.store.open().await?;
        let rows = |max: usize| i64::try_from(max).unwrap_or(i64::MAX);
        let DiscoveryLimits { tools_max, uses_max, pairs_max, .. } = self.limits;
        let events_max = i64::try_from(self.limits.events_max).unwrap_or(i64::MAX);
        let ttl = i64::try_from(self.limits.events_ttl.as_millis()).unwrap_or(i64::MAX);

        let tidy = store.write(move |transaction| {
            Box::pin(async move {
                // By the clock of the state: one process whose clock is ahead takes nothing away
                // from others.
                let now_ms = transaction.now_ms().await?;
                let (oldest, oldest_ms) = (period_of(now_ms) - PERIODS_KEPT, now_ms - ttl);
                let mut taken = rows::tidy::<ToolKey>(transaction, oldest, rows(tools_max)).await?;
                taken += rows::tidy::<UseKey>(transaction, oldest, rows(uses_max)).await?;
                taken += rows::tidy::<PairKey>(transaction, oldest, rows(pairs_max)).await?;
                for table in [EXECUTIONS, QUERIES] {
                    taken += rows::tidy_events(transaction, table, oldest_ms, events_max).await?;
                }
                Ok(taken)
            })
        });
        tidy.await
    }
}
