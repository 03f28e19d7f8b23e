//! What is the matter with the place of a store, for `doctor`. It takes the locks of a write, and
//! writes nothing.

use std::path::Path;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use rustix::fs::{Access, access};
use sqlx::{AnyConnection, AssertSqlSafe};
use toolbus_config::{ClockReading, Finding};

use crate::{Error, Location, Migrations, connection, migrations};

const STORE: &str = "store";

/// What was found of a store that can be had.
struct Examination {
    missing: usize,
    clock: Option<ClockReading>,
}

pub(crate) async fn examine(
    location: &Location,
    migrations: &[Migrations],
) -> (Finding, Option<ClockReading>) {
    if let Location::Sqlite(path) = location
        && !path.exists()
    {
        return (describe_absent(path), None);
    }

    match look(location, migrations).await {
        Ok(Examination { missing: 0, clock }) => {
            let detail = format!("{location} can be written, and its tables are current");
            (Finding::ok(STORE, detail), clock)
        }
        Ok(Examination { missing, clock }) => {
            let detail = format!(
                "{location} can be written; {missing} migrations are applied when it is next used"
            );
            (Finding::ok(STORE, detail), clock)
        }
        Err(error) => {
            let detail = format!("{location} cannot be used: {error}");
            (Finding::wrong(STORE, detail).mended_by(mend_of(&error, location)), None)
        }
    }
}

/// A file that is not there is made when something needs it, where its folder lets us.
fn describe_absent(path: &Path) -> Finding {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.ancestors().skip(1).find(|folder| folder.exists());
    let folder = folder.unwrap_or_else(|| Path::new("/"));
    let needed = Access::WRITE_OK | Access::EXEC_OK;

    match access(folder, needed) {
        Ok(()) if folder.is_dir() => {
            Finding::ok(STORE, format!("sqlite:{} is made when it is needed", path.display()))
        }
        result => {
            let why = match result {
                Ok(()) => "it is no folder".to_owned(),
                Err(error) => std::io::Error::from(error).to_string(),
            };
            let folder = folder.display();
            let detail = format!(
                "sqlite:{} cannot be made: nothing can be written in {folder}: {why}",
                path.display()
            );
            let mend = format!("let this user write in {folder}, or set store (TOOLBUS_STORE)");
            Finding::wrong(STORE, detail).mended_by(mend)
        }
    }
}

async fn look(location: &Location, migrations: &[Migrations]) -> Result<Examination, Error> {
    if let Location::Sqlite(_) = location {
        connection::prepare(location)?;
    }
    let mut connection = connection::writer(location).await?;
    let all: Vec<_> = std::iter::once(migrations::OWN).chain(migrations.iter().copied()).collect();
    let missing = migrations::count_missing(&mut connection, location, &all).await?;

    let clock = match location {
        Location::Sqlite(_) => None,
        Location::Postgres(_) => {
            check_writable(&mut connection).await?;
            Some(read_clock(&mut connection, location).await?)
        }
    };
    Ok(Examination { missing, clock })
}

/// A replica of PostgreSQL lets transactions begin that cannot write.
async fn check_writable(connection: &mut AnyConnection) -> Result<(), Error> {
    let setting = "SELECT current_setting('transaction_read_only')";
    let (read_only,): (String,) = sqlx::query_as(setting).fetch_one(connection).await?;
    if read_only == "on" { Err(Error::ReadOnly) } else { Ok(()) }
}

async fn read_clock(
    connection: &mut AnyConnection,
    location: &Location,
) -> Result<ClockReading, Error> {
    let question = AssertSqlSafe(format!("SELECT {}", location.now_ms_sql()));
    let sent_at = unix_ms();
    let began_at = Instant::now();
    let (theirs,): (i64,) = sqlx::query_as(question).fetch_one(connection).await?;
    let half_ms = i64::try_from(began_at.elapsed().as_millis()).unwrap_or(i64::MAX) / 2;

    Ok(ClockReading {
        source: "PostgreSQL".to_owned(),
        ahead_ms: theirs.saturating_sub(sent_at.saturating_add(half_ms)),
        error_ms: half_ms,
    })
}

fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

fn mend_of(error: &Error, location: &Location) -> String {
    match (error, location) {
        (Error::Full, _) => "make room on its disk".to_owned(),
        (Error::LeftOut(_), _) => {
            "use a build that has it, or set store (TOOLBUS_STORE)".to_owned()
        }
        (Error::Locked, _) => "another process holds it: try again, or end that".to_owned(),
        (Error::Damaged(_), _) => {
            "restore a backup (docs/operations.md), or set store (TOOLBUS_STORE) to another place"
                .to_owned()
        }
        (Error::Newer { .. } | Error::ChangedMigration { .. }, _) => {
            "run the version of Toolbus that wrote it, or a later one".to_owned()
        }
        (_, Location::Sqlite(path)) => format!(
            "let this user write {}, or set store (TOOLBUS_STORE) to another place",
            path.display()
        ),
        (Error::ReadOnly, Location::Postgres(_)) => {
            "name the primary in store (TOOLBUS_STORE), not a replica".to_owned()
        }
        (_, Location::Postgres(_)) => {
            "start PostgreSQL, or correct store (TOOLBUS_STORE)".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
