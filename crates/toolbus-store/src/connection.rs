//! Connections to the database.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use sqlx::any::{AnyConnectOptions, AnyPoolOptions};
use sqlx::{AnyConnection, AnyPool, AssertSqlSafe, ConnectOptions as _};
use tokio::time::{sleep, timeout};
#[cfg(not(feature = "postgres"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};

use crate::{Error, Location};

/// How long a connection may take to be made, or to become free.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a statement waits for what others have locked.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before a file is opened again that was locked.
const LOCK_BACKOFF: Duration = Duration::from_millis(20);
/// How long PostgreSQL works on a statement that reads.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Connections that read.
const READERS: u32 = 4;
/// Bytes that the log of SQLite keeps on the disk once it was larger.
const SQLITE_LOG_BYTES: u32 = 64 << 20;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Write,
    Read,
}

/// Makes the folder and the file of SQLite where they are not there, for their owner only, and sees
/// whether the file can be written.
pub(crate) fn prepare(location: &Location) -> Result<(), Error> {
    let Location::Sqlite(path) = location else { return Ok(()) };
    let unavailable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => Error::Full,
        std::io::ErrorKind::ReadOnlyFilesystem => Error::ReadOnly,
        _ => Error::Unavailable(format!("{}: {error}", path.display())),
    };

    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if let Some(folder) = folder
        && !folder.exists()
    {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unavailable)?;
    }
    // Also where it is there: SQLite opens what it cannot write without a word.
    let mut file = OpenOptions::new();
    file.write(true).create(true).truncate(false).mode(0o600).open(path).map_err(unavailable)?;
    Ok(())
}

/// A connection that writes.
pub(crate) async fn writer(location: &Location) -> Result<AnyConnection, Error> {
    let options = options(location)?;
    let mut locked = false;
    let connecting = async {
        loop {
            match connect(&options, location).await {
                // Of two that open a new file at once, SQLite refuses one without waiting.
                Err(Error::Locked) => locked = true,
                connected => return connected,
            }
            sleep(LOCK_BACKOFF).await;
        }
    };
    match timeout(CONNECT_TIMEOUT, connecting).await {
        Ok(connected) => connected,
        Err(_) if locked => Err(Error::Locked),
        Err(_) => Err(Error::Unavailable("it does not answer".to_owned())),
    }
}

async fn connect(options: &AnyConnectOptions, location: &Location) -> Result<AnyConnection, Error> {
    let mut connection = options.connect().await?;
    set_up(&mut connection, location, Purpose::Write).await?;
    Ok(connection)
}

/// Connections that read. None is made before it is needed.
pub(crate) fn readers(location: &Location) -> Result<AnyPool, Error> {
    let place = location.clone();
    let pool = AnyPoolOptions::new()
        .max_connections(READERS)
        .acquire_timeout(CONNECT_TIMEOUT)
        .after_connect(move |connection, _| {
            let place = place.clone();
            Box::pin(async move { set_up(connection, &place, Purpose::Read).await })
        });
    Ok(pool.connect_lazy_with(options(location)?))
}

fn options(location: &Location) -> Result<AnyConnectOptions, Error> {
    #[cfg(not(feature = "postgres"))]
    if let Location::Postgres(_) = location {
        return Err(LeftOut(BuildFeature::Postgres).into());
    }

    sqlx::any::install_default_drivers();
    // Statements have arguments in them, and time is measured by whoever makes them.
    Ok(location.connect_options()?.disable_statement_logging())
}

async fn set_up(
    connection: &mut AnyConnection,
    location: &Location,
    purpose: Purpose,
) -> Result<(), sqlx::Error> {
    let locks = LOCK_TIMEOUT.as_millis();
    let settings = match (location, purpose) {
        // What is committed is on the disk, also when the machine loses its power.
        (Location::Sqlite(_), Purpose::Write) => format!(
            "PRAGMA busy_timeout = {locks}; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; \
             PRAGMA foreign_keys = ON; PRAGMA journal_size_limit = {SQLITE_LOG_BYTES}"
        ),
        (Location::Sqlite(_), Purpose::Read) => {
            format!("PRAGMA busy_timeout = {locks}; PRAGMA query_only = ON")
        }
        (Location::Postgres(_), Purpose::Write) => {
            format!("SET lock_timeout = {locks}; SET application_name = 'toolbus'")
        }
        (Location::Postgres(_), Purpose::Read) => format!(
            "SET statement_timeout = {}; SET default_transaction_read_only = on; \
             SET application_name = 'toolbus'",
            READ_TIMEOUT.as_millis()
        ),
    };

    sqlx::raw_sql(AssertSqlSafe(settings)).execute(connection).await?;
    Ok(())
}
