//! Metrics of warm pods, and the numbers of the status page.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Meter, UpDownCounter};
use serde::Serialize;

use crate::metrics;

/// Result of a script's request for a warm pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClaimOutcome {
    /// It has one.
    Hit,
    /// None was waiting.
    None,
    /// Those that waited could not be had.
    Lost,
    /// It asks for what no warm pod can do.
    Unsuited,
}

impl ClaimOutcome {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Hit => "hit",
            Self::None => "none",
            Self::Lost => "lost",
            Self::Unsuited => "unsuited",
        }
    }
}

/// Result of an attempt to make a warm pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefillOutcome {
    /// It waits now.
    Made,
    /// There is none.
    Failed,
}

/// Instruments, and the same as plain numbers.
pub(crate) struct WarmMetrics {
    claims: Counter<u64>,
    refills: Counter<u64>,
    pods: UpDownCounter<i64>,
    size: u16,
    waiting: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Numbers of the warm pods of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct WarmStatus {
    /// How many are to wait.
    pub size: u16,
    /// How many do.
    pub waiting: usize,
    /// Scripts that were given one.
    pub hits: u64,
    /// Scripts that were not.
    pub misses: u64,
}

impl WarmMetrics {
    pub(crate) fn new(size: u16, meter: &Meter) -> Self {
        metrics::WARM_SIZE.up_down_counter(meter).add(i64::from(size), &[]);
        Self {
            claims: metrics::WARM_CLAIMS.counter(meter),
            refills: metrics::WARM_REFILLS.counter(meter),
            pods: metrics::WARM_PODS.up_down_counter(meter),
            size,
            waiting: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    /// Counts the request of a script for a warm pod.
    pub(crate) fn count_claim(&self, claim: ClaimOutcome) {
        let count = if claim == ClaimOutcome::Hit { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        self.claims.add(1, &[KeyValue::new(metrics::REASON, claim.as_str())]);
    }

    /// Counts an attempt to make a warm pod.
    pub(crate) fn count_refill(&self, refill: RefillOutcome) {
        let outcome = match refill {
            RefillOutcome::Made => "ok",
            RefillOutcome::Failed => "failed",
        };
        self.refills.add(1, &[KeyValue::new(metrics::OUTCOME, outcome)]);
    }

    /// Sets the number of warm pods.
    pub(crate) fn set_waiting(&self, count: usize) {
        let before = self.waiting.swap(count, Ordering::Relaxed);
        // There are few.
        self.pods.add(count as i64 - before as i64, &[]);
    }

    pub(crate) fn status(&self) -> WarmStatus {
        WarmStatus {
            size: self.size,
            waiting: self.waiting.load(Ordering::Relaxed),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests;
