//! Places to keep state at: a file of SQLite, and a database of PostgreSQL.

use std::path::Path;

use tempfile::TempDir;

use crate::postgres;

/// An empty place, for as long as this lives.
#[derive(Debug)]
pub struct StatePlace {
    /// What the setting `store` has: `sqlite:PATH` or `postgres://…`.
    pub location: String,
    folder: Option<TempDir>,
}

impl StatePlace {
    /// A file that is not there yet, in a folder that is.
    ///
    /// # Panics
    /// Without a folder for temporary files.
    #[must_use]
    pub fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let location = format!("sqlite:{}", folder.path().join("state.db").display());
        Self { location, folder: Some(folder) }
    }

    /// A database; `None` as for [`postgres::database`].
    pub async fn postgres() -> Option<Self> {
        Some(Self { location: postgres::database().await?, folder: None })
    }

    /// One of each kind that there is here.
    pub async fn all() -> Vec<Self> {
        [Some(Self::sqlite()), Self::postgres().await].into_iter().flatten().collect()
    }

    /// The folder of the file of SQLite.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(TempDir::path)
    }
}
