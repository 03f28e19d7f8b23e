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
    state: Arc<Mutex<Known>>,
}

struct Known {
    changes: watch::Receiver<u64>,
    providers: Option<BTreeSet<String>>,
}

impl Providers {
    pub(crate) fn of(store: &Store) -> Self {
        let known = Known { changes: store.changes(CHANGES), providers: None };
        Self { store: store.clone(), state: Arc::new(Mutex::new(known)) }
    }

    /// Whether a provider has credentials at all, as far as that is known here.
    pub(crate) fn knows_of(&self, provider: &str) -> Option<bool> {
        let state = self.state.lock();
        let has_changed = state.changes.has_changed().unwrap_or(true);
        let known = state.providers.as_ref().filter(|_| !has_changed)?;
        Some(known.contains(provider))
    }

    /// The same, looked up where it is not known.
    pub(crate) async fn has_any(&self, provider: &str) -> Result<bool, StoreError> {
        if let Some(has_any) = self.knows_of(provider) {
            return Ok(has_any);
        }

        // A change that comes while it is looked is seen the next time.
        self.state.lock().changes.mark_unchanged();
        let found: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT provider FROM vault_credentials")
                .fetch_all(self.store.readers())
                .await?;
        let found: BTreeSet<String> = found.into_iter().collect();
        let has_any = found.contains(provider);
        self.state.lock().providers = Some(found);
        Ok(has_any)
    }
}
