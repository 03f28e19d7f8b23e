//! Telling ends, each once: claimed while it is told, and again where nobody took it.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::leases::{Claim, OpenRow};
use crate::subagents::Inner;
use crate::{Error, SubagentEvent, Told};

/// Ends that are told at a time.
const TELLING_MAX: usize = 16;
/// Longest time before an end that could not be taken is told again.
const TELL_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// How often it is written down that an end was told, where the store fails.
const SETTLE_ATTEMPTS_MAX: u32 = 5;
/// Between two of them.
const SETTLE_BACKOFF: Duration = Duration::from_secs(1);

/// When an end may be told again, and after which wait.
#[derive(Debug, Clone, Copy)]
struct PutOff {
    until: Instant,
    wait: Duration,
}

/// The ends that this process tells. Clones are the same.
#[derive(Clone)]
pub(crate) struct Tellings {
    subagents: Arc<Inner>,
    under_way: Arc<Mutex<HashSet<String>>>,
    put_off: Arc<Mutex<HashMap<String, PutOff>>>,
}

impl Tellings {
    pub(crate) fn new(subagents: &Arc<Inner>) -> Self {
        let subagents = Arc::clone(subagents);
        Self { subagents, under_way: Arc::default(), put_off: Arc::default() }
    }

    /// Forgets what is not open any more.
    pub(crate) fn retain(&self, open: &[OpenRow]) {
        let ids: HashSet<_> = open.iter().map(|row| row.id.as_str()).collect();
        self.put_off.lock().retain(|id, _| ids.contains(id.as_str()));
    }

    /// Begins to tell an end, and says when to look again where it is not yet time.
    pub(crate) async fn tell(&self, row: &OpenRow) -> Result<Duration, Error> {
        let put_off = self.put_off.lock().get(&row.id).copied();
        if let Some(left) = put_off.map(|put_off| put_off.until - Instant::now())
            && !left.is_zero()
        {
            return Ok(left);
        }
        {
            let mut under_way = self.under_way.lock();
            if under_way.len() >= TELLING_MAX || !under_way.insert(row.id.clone()) {
                return Ok(self.subagents.deps.config.look_interval);
            }
        }

        let claimed = self.subagents.rows.claim(row).await;
        let Ok(Some(claim)) = claimed else {
            self.under_way.lock().remove(&row.id);
            claimed?;
            return Ok(self.subagents.deps.config.look_interval);
        };
        self.subagents.tasks.spawn(self.clone().run(claim));
        Ok(self.subagents.deps.config.look_interval)
    }

    async fn run(self, claim: Claim) {
        let id = claim.row.id.clone();
        // Every arm only waits; what is told goes on through them.
        let told = tokio::select! {
            told = AssertUnwindSafe(self.tell_claimed(&claim)).catch_unwind() => told.ok(),
            () = tokio::time::sleep(self.subagents.deps.config.tell_timeout) => {
                tracing::warn!(id, "the end of a subagent was not taken in time");
                None
            }
            () = self.keep_claim(&id) => None,
            () = self.subagents.left.cancelled() => None,
        };
        let is_told = told == Some(Told::Taken);

        {
            let mut put_off = self.put_off.lock();
            let last = put_off.remove(&id).map(|put_off| put_off.wait);
            if !is_told {
                let first = self.subagents.deps.config.tell_backoff;
                let wait = last.map_or(first, |wait| (wait * 2).min(TELL_BACKOFF_MAX));
                put_off.insert(id.clone(), PutOff { until: Instant::now() + wait, wait });
            }
        }
        self.settle(&id, is_told).await;
        self.under_way.lock().remove(&id);
        self.subagents.nudge.notify_one();
    }

    /// Keeps an end to this process while it is told. It returns when another has it.
    async fn keep_claim(&self, id: &str) {
        loop {
            tokio::time::sleep(self.subagents.deps.config.claim_ttl / 3).await;
            match self.subagents.rows.renew_claim(id).await {
                Ok(true) => {}
                Ok(false) => {
                    tracing::warn!(id, "another process tells the end of a subagent");
                    return;
                }
                Err(error) => {
                    tracing::warn!(
                        error = error.as_dyn(),
                        id,
                        "could not keep the end of a subagent that is told"
                    );
                }
            }
        }
    }

    async fn tell_claimed(&self, claim: &Claim) -> Told {
        let OpenRow { id, owner, description, lineage, .. } = claim.row.clone();
        let Ok(what) = toolbus_json::from_trusted(&claim.outcome) else {
            tracing::warn!(id, "the end of a subagent cannot be read");
            return Told::Taken;
        };
        let event = SubagentEvent { id, owner, description, what, lineage };
        self.subagents.deps.on_subagent.tell(&event).await
    }

    async fn settle(&self, id: &str, is_told: bool) {
        for attempt in 1..=SETTLE_ATTEMPTS_MAX {
            match self.subagents.rows.settle(id, is_told).await {
                Ok(()) => return,
                Err(error) => tracing::warn!(
                    error = error.as_dyn(),
                    id,
                    "it is not kept that the end of a subagent was told"
                ),
            }
            if attempt < SETTLE_ATTEMPTS_MAX && !self.subagents.left.is_cancelled() {
                tokio::time::sleep(SETTLE_BACKOFF).await;
            }
        }
    }
}
