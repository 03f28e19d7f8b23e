//! The watch over workers: ends the requests of those that are silent for too long.
//!
//! Silence is judged fairly. A caller that is cut off, or whose broker takes no messages, hears
//! nobody, and the broker does not tell it so by itself. So at each check the caller sends a
//! message to itself, and counts only when that comes back.
//!
//! It also asks for the replies that a caller may have missed while it was cut off, and ends the
//! requests that were sent while no worker consumed their queue and wait there.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use toolbus_wire::message::toolbus::Alive;
use toolbus_wire::{Envelope, Topic};

use super::COUNT_TIMEOUT;
use super::pending::{Pending, Workers};
use super::to_workers::WorkerMessages;
use crate::port::Bus;

/// How often silence is counted.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a message to ourselves may take. Where it takes longer, heartbeats do, too.
const LOOPBACK_TIMEOUT: Duration = Duration::from_secs(1);

/// For how long a request that was sent to no worker is left to those that may come before its
/// queue is looked at, and how old it must be to be ended.
const UNCLAIMED_TIMEOUT: Duration = Duration::from_secs(2);
const UNSERVED_TIMEOUT: Duration = Duration::from_millis(2_400);
/// Most replies that are asked for in one message.
const REPLY_REQUEST_MAX: usize = 500;

/// Counts the silence of workers for one requester.
pub(super) struct HeartbeatWatch {
    pub(super) bus: Arc<dyn Bus>,
    pub(super) source: String,
    /// Where heartbeats come.
    pub(super) topic: Topic,
    pub(super) pending: Arc<Pending>,
    pub(super) to_workers: Arc<WorkerMessages>,
}

impl HeartbeatWatch {
    pub(super) async fn run(self, closed: CancellationToken) {
        let mut without_consumers = Vec::new();
        let mut ticks = tokio::time::interval(CHECK_INTERVAL);
        // After a pause of this very process one tick comes, not many: silence is counted in ticks,
        // so that no worker counts as lost because we were asleep.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);

        // What is under way may be dropped with the watch.
        closed
            .run_until_cancelled(async {
                loop {
                    // Either arm only waits.
                    tokio::select! {
                        biased;
                        _ = ticks.tick() => {}
                        () = self.pending.wait_missed_replies() => {
                            self.request_replies(&self.pending.take_missed_replies());
                            continue;
                        }
                    }
                    self.check().await;
                    self.check_queues(&mut without_consumers).await;
                }
            })
            .await;
    }

    async fn check(&self) {
        if !self.bus.health().is_up() {
            // No heartbeat can reach us; the count starts again when one can, and gives more time.
            return self.pending.forgive_silence();
        }

        self.request_replies(&self.pending.take_missed_replies());
        if !self.pending.is_any_watched() {
            return;
        }

        if tokio::time::timeout(LOOPBACK_TIMEOUT, self.hear_ourselves()).await == Ok(true) {
            self.request_replies(&self.pending.count_silence());
        } else {
            self.pending.forgive_silence();
        }
    }

    fn request_replies(&self, correlation_ids: &[String]) {
        for correlation_ids in correlation_ids.chunks(REPLY_REQUEST_MAX) {
            self.to_workers.request_replies(correlation_ids.to_vec());
        }
    }

    /// Ends the requests in queues that had no consumer at two checks in a row. `without_consumers`
    /// are those of the check before.
    async fn check_queues(&self, without_consumers: &mut Vec<Workers>) {
        let before = std::mem::take(without_consumers);
        if !self.bus.health().is_up() {
            return;
        }

        for workers in self.pending.unclaimed_for(UNCLAIMED_TIMEOUT) {
            let counting = self.bus.count_consumers(&workers.subscription);
            let Ok(Some(0)) = tokio::time::timeout(COUNT_TIMEOUT, counting).await else { continue };
            if before.contains(&workers) {
                self.pending.end_unserved(&workers, UNSERVED_TIMEOUT);
            }
            without_consumers.push(workers);
        }
    }

    /// Sends a message to ourselves and waits for it. False when it cannot be sent.
    async fn hear_ourselves(&self) -> bool {
        let heard = self.pending.expect_loopback();
        let message = Alive { instance: self.source.clone(), ..Alive::default() };
        let message = Envelope::of(&message, &self.source).with_expiry(LOOPBACK_TIMEOUT);

        // The message often overtakes its confirm.
        let sending = async {
            match self.bus.publish(&self.topic, message).await {
                Ok(()) => std::future::pending().await,
                Err(_) => false,
            }
        };
        tokio::select! {
            biased;
            heard = heard => heard.is_ok(),
            sent = sending => sent,
        }
    }
}
