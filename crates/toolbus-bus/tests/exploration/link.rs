//! The connection of a party to the broker, as both ends see it.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// How long a message takes from one machine to another.
pub(crate) const HOP: Duration = Duration::from_millis(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkStatus {
    Up,
    /// Nothing gets through, and neither end knows.
    Frozen,
    Down,
    /// The process is gone.
    Dead,
}

/// The connection is not the same as before.
pub(crate) struct ConnectionLost;

/// The connection of a party, which may be lost and made again.
pub(crate) struct Link {
    state: Mutex<LinkState>,
    /// Wakes its waiters in order. A watch channel would wake them in any.
    changed: Notify,
}

#[derive(Clone, Copy)]
struct LinkState {
    status: LinkStatus,
    connection: u32,
}

impl Link {
    pub(crate) fn new() -> Self {
        let state = LinkState { status: LinkStatus::Up, connection: 0 };
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    pub(crate) fn status(&self) -> LinkStatus {
        self.state.lock().status
    }

    /// The number of the connection. Each has another.
    pub(crate) fn connection(&self) -> u32 {
        self.state.lock().connection
    }

    /// Whether both ends take the connection for one that lives.
    pub(crate) fn is_connected(&self) -> bool {
        matches!(self.status(), LinkStatus::Up | LinkStatus::Frozen)
    }

    pub(crate) fn set_status(&self, status: LinkStatus) {
        self.state.lock().status = status;
        self.changed.notify_waiters();
    }

    /// Ends the connection, with this status after it.
    pub(crate) fn end_connection(&self, status: LinkStatus) {
        self.state.lock().connection += 1;
        self.set_status(status);
    }

    /// Waits for as long as a message of this connection is on its way.
    pub(crate) async fn hop(&self, connection: u32) -> Result<(), ConnectionLost> {
        let is_lost = || self.connection() != connection;
        // Either arm only waits.
        tokio::select! {
            biased;
            () = self.wait_until(is_lost) => return Err(ConnectionLost),
            () = tokio::time::sleep(HOP) => {}
        }

        self.wait_until(|| is_lost() || self.status() == LinkStatus::Up).await;
        if is_lost() { Err(ConnectionLost) } else { Ok(()) }
    }

    /// Waits until this holds, which is looked at when the link changes.
    pub(crate) async fn wait_until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.changed.notified().await;
        }
    }
}
