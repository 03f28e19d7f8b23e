//! The wall clock of the machines of these tests. It stands still while tokio's goes on, so what a
//! request says in Unix time is set right when a worker gets it.

use std::time::Duration;

use tokio::time::Instant;
use toolbus_wire::clock::unix_now;
use toolbus_wire::header;

use crate::queue::Message;

/// Has a request say what it would say on a wall clock that goes on, to a worker that has heard
/// cancel messages since `listening_since`.
///
/// A worker compares when the request was sent with when it began to listen, and the latter was a
/// moment ago on the clock that stands still. So a request that was sent after that says that it
/// was sent now.
pub(crate) fn set_right(request: &mut Message, listening_since: Instant) {
    let Some(left) = request.envelope.expires_after else { return };
    let on_way = if request.published_at < listening_since {
        request.published_at.elapsed()
    } else {
        Duration::ZERO
    };
    let sent_at = unix_now().saturating_sub(on_way);
    let deadline = sent_at + left;
    request.envelope.headers.set(header::DEADLINE_MS, deadline.as_millis().to_string());
    request.envelope.timestamp = sent_at.as_secs();
}
