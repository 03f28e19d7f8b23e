//! Messages that are published all the time, and whether those that were confirmed come.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use toolbus_bus::{Bus as _, PublishError};
use toolbus_rabbitmq::RabbitBus;
use toolbus_testkit::eventually;

use crate::support::{PATIENCE, Recorder, message, topic};

/// Time between two messages of a task.
const INTERVAL: Duration = Duration::from_millis(2);
/// The same while more than [`QUEUED_MAX`] were confirmed and have not come: a busy machine
/// publishes faster than it consumes, and what is queued at the end takes its time.
const SLOW_INTERVAL: Duration = Duration::from_millis(50);
const QUEUED_MAX: usize = 1_000;

/// Publishes from several tasks until it is told to stop, and keeps what was confirmed.
pub(crate) struct Traffic {
    stop: Arc<AtomicBool>,
    confirmed: Arc<Mutex<Vec<String>>>,
    failed: Arc<AtomicUsize>,
    handler: Arc<Recorder>,
    tasks: JoinSet<()>,
}

impl Traffic {
    /// Publishes to a topic that `handler` is subscribed to.
    pub(crate) fn start(bus: &Arc<RabbitBus>, to: &'static str, handler: &Arc<Recorder>) -> Self {
        let mut traffic = Self {
            stop: Arc::default(),
            confirmed: Arc::default(),
            failed: Arc::default(),
            handler: Arc::clone(handler),
            tasks: JoinSet::new(),
        };

        for task in 0..16 {
            let (bus, stop) = (Arc::clone(bus), Arc::clone(&traffic.stop));
            let (confirmed, failed) = (Arc::clone(&traffic.confirmed), Arc::clone(&traffic.failed));
            let handler = Arc::clone(handler);
            traffic.tasks.spawn(async move {
                let mut number = 0;
                while !stop.load(Ordering::Relaxed) {
                    let text = format!("{task}-{number}");
                    number += 1;

                    match bus.publish(&topic(to), message(&text)).await {
                        Ok(()) => confirmed.lock().push(text),
                        // A quorum queue refuses while it has no leader.
                        Err(
                            PublishError::Unconfirmed
                            | PublishError::Unavailable(_)
                            | PublishError::Refused(_),
                        ) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => panic!("message {text}: {error}"),
                    }

                    let queued = confirmed.lock().len().saturating_sub(handler.count());
                    let interval = if queued > QUEUED_MAX { SLOW_INTERVAL } else { INTERVAL };
                    // sleeps: the pace of the traffic.
                    tokio::time::sleep(interval).await;
                }
            });
        }

        traffic
    }

    /// How many were confirmed so far.
    pub(crate) fn confirmed(&self) -> usize {
        self.confirmed.lock().len()
    }

    /// How many were not confirmed so far.
    pub(crate) fn failures(&self) -> usize {
        self.failed.load(Ordering::Relaxed)
    }

    pub(crate) async fn confirmed_beyond(&self, count: usize) {
        eventually(PATIENCE, async || match self.confirmed.lock().len() {
            confirmed if confirmed > count => Ok(()),
            confirmed => Err(format!("{confirmed} of {count} were confirmed")),
        })
        .await;
    }

    /// Stops, and waits until everything that was confirmed has come.
    pub(crate) async fn stop_and_compare(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }

        let confirmed = std::mem::take(&mut *self.confirmed.lock());
        eventually(PATIENCE, async || {
            let seen: HashSet<_> = self.handler.texts().into_iter().collect();
            let lost = confirmed.iter().filter(|text| !seen.contains(*text)).count();
            match lost {
                0 => Ok(()),
                _ => Err(format!("{lost} of {} confirmed messages did not come", confirmed.len())),
            }
        })
        .await;
    }
}
