//! A store that is opened when somebody needs it.

use std::sync::Arc;

use tokio::sync::OnceCell;

use toolbus_config::{ClockReading, Finding};

use crate::{Error, Location, Migrations, Store, doctor};

/// A store that is opened at its first use, and again where that failed. Clones are the same store.
#[derive(Clone)]
pub struct LazyStore(Arc<Inner>);

struct Inner {
    location: Location,
    migrations: Vec<Migrations>,
    store: OnceCell<Store>,
}

impl LazyStore {
    /// The store at this place, with the tables of all who use it.
    #[must_use]
    pub fn new(location: Location, migrations: &[Migrations]) -> Self {
        let migrations = migrations.to_vec();
        Self(Arc::new(Inner { location, migrations, store: OnceCell::new() }))
    }

    /// The store, which is opened where it is not.
    ///
    /// # Errors
    /// When it cannot be opened; see [`Store::open`]. The next who asks tries again.
    pub async fn open(&self) -> Result<&Store, Error> {
        let Inner { location, migrations, store } = &*self.0;
        store.get_or_try_init(|| Store::open(location.clone(), migrations)).await
    }

    /// The store, where somebody has opened it.
    #[must_use]
    pub fn opened(&self) -> Option<&Store> {
        self.0.store.get()
    }

    /// Where it is, or will be.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Whether there may be something in it: it is elsewhere, or its file is there.
    #[must_use]
    pub fn may_hold_something(&self) -> bool {
        match &self.0.location {
            Location::Sqlite(path) => path.exists(),
            Location::Postgres(_) => true,
        }
    }

    /// What is the matter with the place of the store, and what its clock says where that is
    /// another machine's. Nothing is made or changed there.
    pub async fn examine(&self) -> (Finding, Option<ClockReading>) {
        doctor::examine(&self.0.location, &self.0.migrations).await
    }

    /// Closes it, where it is open; see [`Store::close`].
    pub async fn close(&self) {
        if let Some(store) = self.opened() {
            store.close().await;
        }
    }
}
