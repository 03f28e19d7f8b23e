//! Places to keep state at, and a table to keep it in.

use std::time::Duration;

use tempfile::TempDir;
use toolbus_store::{Error, Location, Migration, Migrations, Store, sqlx};
use toolbus_testkit::postgres;

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) const NOTES: Migrations = Migrations {
    owner: "notes",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE notes (id BIGINT PRIMARY KEY, text TEXT NOT NULL, data BLOB);
              CREATE INDEX notes_text ON notes (text)",
    }],
    additions: &[],
};

/// An empty place, for as long as this lives.
pub(crate) struct Place {
    pub(crate) location: Location,
    _folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let location = Location::Sqlite(folder.path().join("of/its/own/state.db"));
        Self { location, _folder: Some(folder) }
    }

    async fn postgres() -> Option<Self> {
        if cfg!(not(feature = "postgres")) {
            return None;
        }
        let location = postgres::database().await?.parse().expect("a location");
        Some(Self { location, _folder: None })
    }

    /// One of each kind.
    pub(crate) async fn all() -> Vec<Self> {
        let mut all = vec![Self::sqlite()];
        all.extend(Self::postgres().await);
        all
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(self.location.clone(), &[NOTES]).await.expect("a store")
    }
}

/// Writes a note.
pub(crate) async fn note(store: &Store, id: i64, text: &'static str) -> Result<(), Error> {
    store
        .write(move |transaction| {
            Box::pin(async move {
                sqlx::query("INSERT INTO notes (id, text) VALUES ($1, $2)")
                    .bind(id)
                    .bind(text)
                    .execute(transaction.connection())
                    .await?;
                transaction.notify("notes");
                Ok(())
            })
        })
        .await
}

/// The ids of all notes.
pub(crate) async fn ids(store: &Store) -> Vec<i64> {
    let ids = sqlx::query_scalar("SELECT id FROM notes ORDER BY id");
    ids.fetch_all(store.readers()).await.expect("notes")
}
