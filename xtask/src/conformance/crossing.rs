//! Which scenarios cross the bus: those in whose time the broker delivered a request to the bridge.

use std::time::{Duration, SystemTime};

use super::bus_watch::Delivery;
use super::suite::ScenarioResult;
use super::{ResultColumn, SuiteRun};

/// What the topics of requests to a bridge begin with.
const REQUEST_TOPICS: [&str; 2] = ["mcp.", "tool.invoke."];

const DAY_MS: u64 = 24 * 60 * 60 * 1_000;

/// Whether a scenario of a run crossed the bus. Scenarios run one after the other, so that what is
/// delivered belongs to the one that was started last.
pub(super) fn crosses_bus(ran: &SuiteRun, scenario: &ScenarioResult) -> bool {
    let Some(started) = scenario.started_ms else { return false };
    let is_its = |delivery: &&Delivery| last_started(&ran.columns, delivery) == Some(started);
    ran.delivered.iter().filter(is_its).any(is_request)
}

/// Whether it is a request, and not what comes after one, whenever that is: answers to questions,
/// and cancelling.
fn is_request(delivery: &Delivery) -> bool {
    REQUEST_TOPICS.iter().any(|topic| delivery.routing_key.starts_with(topic))
}

/// When the scenario was started in which a message was delivered.
fn last_started(columns: &[ResultColumn], delivery: &Delivery) -> Option<u64> {
    let since = delivery.at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let at_ms = u64::try_from(since.as_millis()).ok()? % DAY_MS;
    let started = columns.iter().flat_map(|column| column.results.iter());
    // A run may go past midnight.
    started.filter_map(|s| s.started_ms).min_by_key(|started| (at_ms + DAY_MS - started) % DAY_MS)
}
