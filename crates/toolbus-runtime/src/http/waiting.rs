//! Connections that wait for a request. When a new client finds no room, the one that has waited
//! longest makes some: idle connections cost nothing while there is room, and keep nobody out when
//! there is none.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::response::Response;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::guarded_body::GuardedBody;

/// How long a connection may wait before it has to make room: a client that has just connected is
/// about to send its request.
const IDLE_GRACE: Duration = Duration::from_millis(250);

/// The connections of one server that wait. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct WaitingConnections(Arc<Queue>);

#[derive(Default)]
struct Queue {
    next: AtomicU64,
    /// In the order in which they began to wait.
    waiting: Mutex<BTreeMap<u64, Waiting>>,
}

struct Waiting {
    since: Instant,
    connection: Arc<Connection>,
}

/// What is shared about one connection.
#[derive(Default)]
pub(super) struct Connection {
    /// Fires when the connection has to make room.
    pub(super) evicted: CancellationToken,
    /// Whether the client has yet to take some of an answer.
    pub(super) is_writing: AtomicBool,
}

/// A connection's place among those that wait; it has none while it is answered.
pub(super) struct Place {
    queue: WaitingConnections,
    connection: Arc<Connection>,
    number: Mutex<Option<u64>>,
}

impl WaitingConnections {
    /// Has a new connection wait for its first request.
    pub(super) fn join(&self, connection: Arc<Connection>) -> Arc<Place> {
        let place = Place { queue: self.clone(), connection, number: Mutex::default() };
        place.wait();
        Arc::new(place)
    }

    /// Evicts the connection that has waited longest, where one has waited long enough.
    pub(super) fn evict_longest(&self) -> bool {
        let mut waiting = self.0.waiting.lock();
        let is_due = |entry: &Waiting| entry.since.elapsed() >= IDLE_GRACE;
        let is_idle = |entry: &Waiting| !entry.connection.is_writing.load(Ordering::Relaxed);
        let due = waiting.iter().take_while(|(_, entry)| is_due(entry));
        let Some(number) = due.into_iter().find(|(_, entry)| is_idle(entry)).map(|(n, _)| *n)
        else {
            return false;
        };
        if let Some(entry) = waiting.remove(&number) {
            entry.connection.evicted.cancel();
        }
        true
    }
}

impl Place {
    /// Waits for a request from now on.
    fn wait(&self) {
        let number = self.queue.0.next.fetch_add(1, Ordering::Relaxed);
        let entry = Waiting { since: Instant::now(), connection: Arc::clone(&self.connection) };
        self.queue.0.waiting.lock().insert(number, entry);
        if let Some(previous) = self.number.lock().replace(number) {
            self.queue.0.waiting.lock().remove(&previous);
        }
    }

    /// Waits no more: a request is there.
    pub(super) fn leave(&self) {
        if let Some(number) = self.number.lock().take() {
            self.queue.0.waiting.lock().remove(&number);
        }
    }

    /// The response, after whose end the connection waits again.
    pub(super) fn wait_after(self: Arc<Self>, response: Response) -> Response {
        GuardedBody::guard(response, WaitAtDrop(self))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.leave();
    }
}

struct WaitAtDrop(Arc<Place>);

impl Drop for WaitAtDrop {
    fn drop(&mut self) {
        self.0.wait();
    }
}
