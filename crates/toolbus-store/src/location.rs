//! Where state is kept.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use sqlx::any::AnyConnectOptions;
#[cfg(not(feature = "postgres"))]
use toolbus_config::build_features::BuildFeature;
use toolbus_config::build_features::LeftOut;

/// The file that state is kept in where nothing else is set.
const DEFAULT_FILE: &str = "state.db";

/// Where state is kept. Its text form has no password.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// A file of SQLite on this host. It is made where there is none, with its folder, for its
    /// owner only.
    Sqlite(PathBuf),
    /// A database of PostgreSQL, by its URL.
    Postgres(String),
}

/// A text that names no place for state. It is not quoted: it may have a password in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LocationError {
    /// It has no form that is known.
    #[error("{0}")]
    Malformed(&'static str),
    /// It names a database that this build has no driver for.
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
}

/// The folder of this user's state: `toolbus` in the one that `XDG_STATE_HOME` names, else in
/// `~/.local/state`. `None` where there is no place for it.
#[must_use]
pub fn state_folder() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("toolbus"))
}

impl Location {
    /// The place that is set; without one, the file `state.db` in the [`state_folder`]. `None`
    /// where there is no such folder either.
    ///
    /// # Errors
    /// When what is set names no place.
    pub fn or_default(set: Option<&str>) -> Result<Option<Self>, LocationError> {
        match set {
            Some(set) => set.parse().map(Some),
            None => Ok(state_folder().map(|folder| Self::Sqlite(folder.join(DEFAULT_FILE)))),
        }
    }

    /// The time of the state in milliseconds, as an expression of SQL for statements that read. In
    /// those that write it is [`Transaction::now_ms`](crate::Transaction::now_ms).
    #[must_use]
    pub fn now_ms_sql(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "CAST(unixepoch('subsec') * 1000 AS BIGINT)",
            Self::Postgres(_) => "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)",
        }
    }

    /// Returns the files of the state on this host: the database, and the files that SQLite keeps
    /// beside it while the database is open.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let Self::Sqlite(path) = self else { return Vec::new() };
        let with_end = |end: &str| {
            let mut path = path.clone().into_os_string();
            path.push(end);
            PathBuf::from(path)
        };
        ["", "-wal", "-shm", "-journal"].map(with_end).to_vec()
    }

    pub(crate) fn connect_options(&self) -> Result<AnyConnectOptions, sqlx::Error> {
        match self {
            Self::Sqlite(path) => sqlite_url(path)?.parse(),
            Self::Postgres(url) => url.parse(),
        }
    }
}

/// The URL of a file, which is made where there is none.
fn sqlite_url(path: &Path) -> Result<String, sqlx::Error> {
    let path = path.to_str().ok_or_else(|| {
        sqlx::Error::Configuration("the path of the state is not valid UTF-8".into())
    })?;
    let mut url = String::from("sqlite://");
    for byte in path.bytes() {
        match byte {
            b'?' | b'#' | b'%' => url.push_str(&format!("%{byte:02X}")),
            _ => url.push(char::from(byte)),
        }
    }
    Ok(url + "?mode=rwc")
}

impl FromStr for Location {
    type Err = LocationError;

    /// `sqlite:PATH` or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(path) = text.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return match path {
                "" => Err(LocationError::Malformed("the file of SQLite has no name")),
                _ => Ok(Self::Sqlite(path.into())),
            };
        }
        if !text.starts_with("postgres://") && !text.starts_with("postgresql://") {
            let what = "expected sqlite:PATH or postgres://USER@HOST/DATABASE";
            return Err(LocationError::Malformed(what));
        }
        #[cfg(not(feature = "postgres"))]
        return Err(LeftOut(BuildFeature::Postgres).into());

        #[cfg(feature = "postgres")]
        match AnyConnectOptions::from_str(text) {
            Ok(options) if options.database_url.has_host() => Ok(Self::Postgres(text.to_owned())),
            _ => Err(LocationError::Malformed("the URL of PostgreSQL cannot be read")),
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => match AnyConnectOptions::from_str(url) {
                Ok(options) => {
                    let url = options.database_url;
                    let host = url.host_str().unwrap_or_default();
                    let port = url.port().unwrap_or(5432);
                    write!(f, "postgres://{host}:{port}{}", url.path())
                }
                Err(_) => f.write_str("postgres"),
            },
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests;
