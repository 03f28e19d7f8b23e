//! Places to keep a vault at, and keys.

use tempfile::TempDir;
use toolbus_store::sqlx::{self, Connection as _};
use toolbus_store::{LazyStore, Location, Store};
use toolbus_testkit::postgres;
use toolbus_vault::{KeySource, LazyVault, MIGRATIONS, Vault, VaultKey};

/// A value that is found wherever it stands.
pub(crate) const CANARY: &str = "canary-7f3a9c1e";

/// An empty place, for as long as this lives.
pub(crate) struct Place {
    location: Location,
    folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { location: Location::Sqlite(folder.path().join("state.db")), folder: Some(folder) }
    }

    /// One of each kind.
    pub(crate) async fn all() -> Vec<Self> {
        let postgres = postgres::database().await;
        let postgres =
            postgres.map(|url| Self { location: url.parse().expect("a location"), folder: None });
        [Some(Self::sqlite()), postgres].into_iter().flatten().collect()
    }

    pub(crate) async fn open(&self) -> Store {
        Store::open(self.location.clone(), &[MIGRATIONS]).await.expect("it opens")
    }

    pub(crate) fn lazy(&self) -> LazyStore {
        LazyStore::new(self.location.clone(), &[MIGRATIONS])
    }

    /// The vault here, which nobody has opened.
    pub(crate) fn lazy_vault(&self, key: VaultKey) -> LazyVault {
        LazyVault::new(self.lazy(), KeySource::Given(key))
    }

    /// Keeps others from writing to the file of SQLite, for as long as the connection is there. It
    /// takes a write to open a store.
    pub(crate) async fn lock(&self) -> sqlx::SqliteConnection {
        let Location::Sqlite(path) = &self.location else { panic!("it is no file") };
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
        let mut lock = sqlx::SqliteConnection::connect_with(&options).await.expect("a connection");
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut lock).await.expect("a lock");
        lock
    }

    /// All that is in the files of SQLite.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let files = std::fs::read_dir(folder.path()).expect("a folder");
        files.flat_map(|file| std::fs::read(file.expect("a file").path()).expect("read")).collect()
    }
}

pub(crate) fn key(digit: char) -> VaultKey {
    VaultKey::parse(&digit.to_string().repeat(64)).expect("a key")
}

pub(crate) async fn vault(place: &Place) -> Vault {
    Vault::open(place.open().await, key('1')).await.expect("it opens")
}
