//! Which servers are this bridge's to run.
//!
//! Of several bridges that have the same server in their lists, one has it at a time: its calls go
//! there, its program runs there. The others stand by. A pool that is the only one has all of its
//! servers always.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::server_name::ServerName;

/// Whether one server is this bridge's, by its name: a server that replaces another has the same.
/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Ownership(Arc<watch::Sender<Option<CancellationToken>>>);

impl Ownership {
    /// A server that is this bridge's always.
    fn always() -> Self {
        Self(Arc::new(watch::Sender::new(Some(CancellationToken::new()))))
    }

    fn not_yet() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    pub(crate) fn is_owned(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// The server is this bridge's from now on. If it was already, nothing changes.
    pub(crate) fn take(&self) {
        self.0.send_if_modified(|term| {
            let is_new = term.is_none();
            term.get_or_insert_with(CancellationToken::new);
            is_new
        });
    }

    /// The server is this bridge's no longer: its connection ends.
    pub(crate) fn give_up(&self) {
        if let Some(term) = self.0.send_replace(None) {
            term.cancel();
        }
    }

    /// Waits until the server is this bridge's. The token fires when it no longer is.
    pub(crate) async fn wait_term(&self) -> CancellationToken {
        let mut changes = self.0.subscribe();
        loop {
            let term = changes.borrow_and_update().clone();
            if let Some(term) = term {
                return term;
            }
            // Not closed: this is one of its senders.
            let _ = changes.changed().await;
        }
    }
}

/// Which servers are this bridge's, by name.
pub(crate) enum Ownerships {
    /// All of them.
    All(Ownership),
    /// Those that it was elected for.
    Elected(Mutex<HashMap<ServerName, Ownership>>),
}

impl Ownerships {
    pub(crate) fn all() -> Self {
        Self::All(Ownership::always())
    }

    pub(crate) fn elected() -> Self {
        Self::Elected(Mutex::default())
    }

    pub(crate) fn of(&self, name: &ServerName) -> Ownership {
        match self {
            Self::All(always) => always.clone(),
            Self::Elected(by_name) => {
                let mut by_name = by_name.lock();
                by_name.entry(name.clone()).or_insert_with(Ownership::not_yet).clone()
            }
        }
    }

    /// Forgets a name that no server has any more.
    pub(crate) fn forget(&self, name: &ServerName) {
        if let Self::Elected(by_name) = self {
            by_name.lock().remove(name);
        }
    }
}
