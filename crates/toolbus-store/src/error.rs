//! What can go wrong with state.

#[cfg(feature = "postgres")]
use sqlx::postgres::PgDatabaseError;
use sqlx::sqlite::SqliteError;
use toolbus_config::build_features::LeftOut;

/// Why something was not read or written. Nothing was written, unless the error is
/// [`Error::OutcomeUnknown`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The disk of the state is full.
    #[error("the disk that the state is on is full")]
    Full,
    /// The state cannot be written.
    #[error("the state can only be read")]
    ReadOnly,
    /// Others wrote for longer than is waited.
    #[error("the state is locked by somebody else")]
    Locked,
    /// The database cannot be reached, or its disk does not answer.
    #[error("the state cannot be reached: {0}")]
    Unavailable(String),
    /// What is there is no state, or is damaged.
    #[error("the state cannot be read: {0}")]
    Damaged(String),
    /// A newer program has written it.
    #[error("the state of '{owner}' is of version {found}, and this program knows {known}")]
    Newer {
        /// Whose tables.
        owner: &'static str,
        /// The version that is there.
        found: i64,
        /// The latest that this program knows.
        known: i64,
    },
    /// A migration is another than the one that was applied.
    #[error("migration {version} of '{owner}' is not the one that was applied")]
    ChangedMigration {
        /// Whose tables.
        owner: &'static str,
        /// Its version.
        version: i64,
    },
    /// There is a row of that key, or a rule of the tables does not hold.
    #[error("the state has something else there: {0}")]
    Conflict(String),
    /// The connection was lost while a write was committed: it may be there or not.
    #[error("it is unknown whether the state was written: {0}")]
    OutcomeUnknown(String),
    /// Somebody else has the lease.
    #[error("the lease '{0}' is somebody else's")]
    LeaseLost(String),
    /// The database needs a driver that this build leaves out.
    #[error(transparent)]
    LeftOut(#[from] LeftOut),
    /// The store is closed.
    #[error("the store is closed")]
    Closed,
    /// The database says no for another reason, such as a mistake in a statement.
    #[error("the database refuses: {0}")]
    Refused(String),
}

impl Error {
    /// Whether the transaction can go on after it: one statement has failed, and nothing else.
    pub(crate) fn is_of_statement(&self) -> bool {
        matches!(self, Self::Conflict(_) | Self::Refused(_) | Self::LeaseLost(_))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(error) => {
                let text = error.message().to_owned();
                if let Some(code) = sqlite_code(&*error) {
                    return of_sqlite(code, text);
                }

                #[cfg(feature = "postgres")]
                if let Some(error) = error.try_downcast_ref::<PgDatabaseError>() {
                    return of_postgres(error.code(), text);
                }
                Self::Refused(text)
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::Damaged(error.to_string())
            }
            sqlx::Error::PoolTimedOut => Self::Unavailable("no connection is free".to_owned()),
            sqlx::Error::PoolClosed => Self::Closed,
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            other => Self::Refused(other.to_string()),
        }
    }
}

/// The extended result code of SQLite, <https://www.sqlite.org/rescode.html>.
fn sqlite_code(error: &(dyn sqlx::error::DatabaseError + 'static)) -> Option<u32> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    sqlx::error::DatabaseError::code(error)?.parse().ok()
}

/// The memory that processes share cannot grow, which is a file on the disk.
const SQLITE_IOERR_SHMSIZE: u32 = 4_874;

fn of_sqlite(code: u32, text: String) -> Error {
    if code == SQLITE_IOERR_SHMSIZE {
        return Error::Full;
    }
    match code & 0xff {
        5 | 6 => Error::Locked,
        8 => Error::ReadOnly,
        13 => Error::Full,
        10 | 14 => Error::Unavailable(text),
        11 | 26 => Error::Damaged(text),
        19 => Error::Conflict(text),
        _ => Error::Refused(text),
    }
}

/// Maps a code by the classes of <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
#[cfg(feature = "postgres")]
fn of_postgres(code: &str, text: String) -> Error {
    match code {
        "53100" => Error::Full,
        "25006" => Error::ReadOnly,
        "40001" | "40P01" | "55P03" => Error::Locked,
        "XX001" | "XX002" => Error::Damaged(text),
        _ => match code.get(..2) {
            Some("23") => Error::Conflict(text),
            Some("08" | "28" | "3D" | "53" | "57" | "58") => Error::Unavailable(text),
            _ => Error::Refused(text),
        },
    }
}

#[cfg(test)]
mod tests;
