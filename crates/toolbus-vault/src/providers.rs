//! Which providers have credentials. It takes no key to know.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use toolbus_store::{Error as StoreError, Store, sqlx};

/// The part of the state that changes are told of.
pub(crate) const CHANGES: &str = "vault";

/// Which providers have credentials, so that the calls of all others cost no look at the store.
/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Providers {
    store: Store,
    state: Arc<Mutex<ProviderState>>,
}

struct ProviderState {
    changes: watch::Receiver<u64>,
    /// The providers, and the number of the change since which they hold. With another number they
    /// do not, whoever looked last.
    known: Option<(u64, BTreeSet<String>)>,
}

impl Providers {
    pub(crate) fn of(store: &Store) -> Self {
        let state = ProviderState { changes: store.changes(CHANGES), known: None };
        Self { store: store.clone(), state: Arc::new(Mutex::new(state)) }
    }

    /// Whether a provider has credentials at all, as far as that is known here.
    pub(crate) fn knows_of(&self, provider: &str) -> Option<bool> {
        let state = self.state.lock();
        let now = *state.changes.borrow();
        let (_, providers) = state.known.as_ref().filter(|(since, _)| *since == now)?;
        Some(providers.contains(provider))
    }

    /// The same, looked up where it is not known.
    pub(crate) async fn has_any(&self, provider: &str) -> Result<bool, StoreError> {
        if let Some(has_any) = self.knows_of(provider) {
            return Ok(has_any);
        }

        // Before it is looked: what changes meanwhile is looked for the next time.
        let since = *self.state.lock().changes.borrow();
        let found: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT provider FROM vault_credentials")
                .fetch_all(self.store.readers())
                .await?;
        let found: BTreeSet<String> = found.into_iter().collect();
        let has_any = found.contains(provider);
        self.state.lock().known = Some((since, found));
        Ok(has_any)
    }
}
