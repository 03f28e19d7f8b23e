//! What a message carries on its way through a retry queue, and how long it stays there.
//!
//! Each delay has a queue of its own, because a queue lets its messages go only in their order: a
//! short delay would wait behind a long one. Delays are rounded up to a few, so that there are few
//! queues.

use std::time::Duration;

use lapin::BasicProperties;
use lapin::types::AMQPValue;

use crate::frame::{self, long};

/// The delays that there are queues for, in milliseconds.
const DELAYS_MS: [u64; 20] = [
    100, 250, 500, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000, 120_000, 300_000,
    600_000, 1_200_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000,
];
/// The longest delay; who asks for more gets this.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a retry queue may be used without being declared again.
pub(crate) const LEASE: Duration = Duration::from_secs(10 * 60);

/// How often the message was handed to a handler, the next time included.
const ATTEMPT: &str = "x-toolbus-attempt";
/// The topic it was published to; in a retry queue its routing key is a queue's name.
const TOPIC: &str = "x-toolbus-topic";
/// Its own expiry, which in a retry queue would end its wait.
const EXPIRATION: &str = "x-toolbus-expiration";
/// The broker's account of how a message came through the retry queue. Left in, it would grow with
/// every attempt, and the broker reads cycles out of it.
const DEATHS: [&str; 7] = [
    "x-death",
    "x-first-death-exchange",
    "x-first-death-queue",
    "x-first-death-reason",
    "x-last-death-exchange",
    "x-last-death-queue",
    "x-last-death-reason",
];

/// The shortest delay that there is a queue for and that is not shorter than `after`.
pub(crate) fn delay(after: Duration) -> Duration {
    DELAYS_MS
        .map(Duration::from_millis)
        .into_iter()
        .find(|step| *step >= after)
        .unwrap_or(DELAY_MAX)
}

/// What a message carries that comes from a retry queue.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Memo {
    pub(crate) attempt: Option<u32>,
    pub(crate) topic: Option<String>,
    pub(crate) expiration: Option<Duration>,
}

impl Memo {
    /// Reads what [`properties`] wrote.
    pub(crate) fn of(properties: &BasicProperties) -> Self {
        let text = |name: &str| match properties.headers().as_ref()?.inner().get(name)? {
            AMQPValue::LongString(text) => std::str::from_utf8(text.as_bytes()).ok(),
            _ => None,
        };
        Self {
            attempt: text(ATTEMPT).and_then(|text| text.parse().ok()),
            topic: text(TOPIC).map(str::to_owned),
            expiration: text(EXPIRATION)
                .and_then(|text| text.parse().ok())
                .map(Duration::from_millis),
        }
    }
}

/// The properties of a message that waits for its next attempt.
pub(crate) fn properties(
    received: &BasicProperties,
    topic: &str,
    attempt: u32,
    expiration: Option<Duration>,
) -> BasicProperties {
    frame::with_headers(received, |headers| {
        headers.retain(|name, _| !DEATHS.contains(&name.as_str()));
        headers.insert(ATTEMPT.into(), long(&attempt.to_string()));
        headers.insert(TOPIC.into(), long(topic));
        if let Some(expiration) = expiration {
            headers.insert(EXPIRATION.into(), long(&expiration.as_millis().to_string()));
        }
    })
}

/// The headers that a message has only for its way through a retry queue.
pub(crate) fn forget(headers: &mut frame::Headers) {
    headers.retain(|name, _| ![ATTEMPT, TOPIC, EXPIRATION].contains(&name.as_str()));
}

#[cfg(test)]
mod tests;
