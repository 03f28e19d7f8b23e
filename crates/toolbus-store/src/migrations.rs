//! Migrations: how the tables of a crate became what they are.

use sha2::{Digest as _, Sha256};
use sqlx::{AnyConnection, AssertSqlSafe};

use crate::{Error, Location};

/// The store's own tables.
pub(crate) const OWN: Migrations = Migrations {
    owner: "store",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE leases (
                  name TEXT PRIMARY KEY,
                  holder TEXT NOT NULL,
                  until_ms BIGINT NOT NULL,
                  token BIGINT NOT NULL
              )",
    }],
    additions: &[],
};

/// One at a time, whichever host it is on: a number of ours among PostgreSQL's advisory locks.
const POSTGRES_LOCK: i64 = 0x0074_6f6f_6c62_7573;

/// The migrations of one crate, in the order in which they are applied.
#[derive(Debug, Clone, Copy)]
pub struct Migrations {
    /// Whose tables: the crate's name without `toolbus-`. Its tables begin with it, or are named as
    /// nobody else's.
    pub owner: &'static str,
    /// Migrations in order of version. A released step never changes. A program that does not know
    /// an applied step refuses the state.
    pub steps: &'static [Migration],
    /// Migrations after which programs that do not know them can still use the state, so that an
    /// upgrade can be rolled back. They only add tables, indexes, and columns with a default. No
    /// version occurs in `steps` too.
    pub additions: &'static [Migration],
}

/// One step, which is done as a whole or not at all.
#[derive(Debug, Clone, Copy)]
pub struct Migration {
    /// 1 for the first.
    pub version: i64,
    /// Statements, with `;` between them. A column of bytes is a `BLOB`.
    pub sql: &'static str,
}

/// A migration that has not been applied.
struct Missing {
    migration: &'static Migration,
    /// The owner under which the migration is recorded.
    noted_owner: String,
}

impl Migrations {
    /// Finds the migrations that have not been applied, in the order of application.
    async fn find_missing(&self, connection: &mut AnyConnection) -> Result<Vec<Missing>, Error> {
        let Self { owner, steps, additions } = *self;
        let applied = read_applied(connection, owner).await?;
        check_applied(owner, steps, &applied)?;

        let of_step = |migration| Missing { migration, noted_owner: owner.to_owned() };
        let mut missing: Vec<_> = steps.iter().skip(applied.len()).map(of_step).collect();
        for migration in additions {
            // A program reads only the rows of owners that it knows.
            let noted_owner = format!("{owner}+{}", migration.version);
            match &read_applied(connection, &noted_owner).await?[..] {
                [] => missing.push(Missing { migration, noted_owner }),
                [(_, digest)] if *digest == migration.digest() => {}
                _ => return Err(Error::ChangedMigration { owner, version: migration.version }),
            }
        }
        missing.sort_by_key(|missing| missing.migration.version);
        Ok(missing)
    }
}

impl Migration {
    fn digest(&self) -> String {
        Sha256::digest(self.sql).iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn sql_for(&self, location: &Location) -> String {
        match location {
            Location::Sqlite(_) => self.sql.to_owned(),
            Location::Postgres(_) => self.sql.replace(" BLOB", " BYTEA"),
        }
    }
}

/// Applies what is missing, all of it or nothing.
pub(crate) async fn apply(
    connection: &mut AnyConnection,
    location: &Location,
    all: &[Migrations],
) -> Result<(), Error> {
    begin(connection, location).await?;
    match apply_missing(connection, location, all).await {
        Ok(()) => {
            sqlx::raw_sql("COMMIT").execute(connection).await?;
            Ok(())
        }
        Err(error) => {
            // It is the first error that counts.
            let _ = sqlx::raw_sql("ROLLBACK").execute(connection).await;
            Err(error)
        }
    }
}

/// Counts the migrations that are missing, and applies none.
pub(crate) async fn count_missing(
    connection: &mut AnyConnection,
    location: &Location,
    all: &[Migrations],
) -> Result<usize, Error> {
    begin(connection, location).await?;
    let counted = count_in_transaction(connection, location, all).await;
    sqlx::raw_sql("ROLLBACK").execute(connection).await?;
    counted
}

async fn count_in_transaction(
    connection: &mut AnyConnection,
    location: &Location,
    all: &[Migrations],
) -> Result<usize, Error> {
    let is_there = match location {
        Location::Sqlite(_) => {
            "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
        }
        Location::Postgres(_) => {
            "SELECT CAST(COUNT(*) AS BIGINT) FROM pg_class WHERE oid = to_regclass('migrations')"
        }
    };
    let (tables,): (i64,) = sqlx::query_as(is_there).fetch_one(&mut *connection).await?;

    let mut missing = 0;
    for migrations in all {
        missing += match tables {
            0 => migrations.steps.len() + migrations.additions.len(),
            _ => migrations.find_missing(connection).await?.len(),
        };
    }
    Ok(missing)
}

/// The versions and digests of what was applied for these tables.
async fn read_applied(
    connection: &mut AnyConnection,
    owner: &str,
) -> Result<Vec<(i64, String)>, sqlx::Error> {
    sqlx::query_as("SELECT version, digest FROM migrations WHERE owner = $1 ORDER BY version")
        .bind(owner)
        .fetch_all(connection)
        .await
}

async fn begin(connection: &mut AnyConnection, location: &Location) -> Result<(), sqlx::Error> {
    match location {
        Location::Sqlite(_) => {
            sqlx::raw_sql("BEGIN IMMEDIATE").execute(connection).await?;
        }
        Location::Postgres(_) => {
            sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
            let lock = format!("SELECT pg_advisory_xact_lock({POSTGRES_LOCK})");
            sqlx::raw_sql(AssertSqlSafe(lock)).execute(connection).await?;
        }
    }
    Ok(())
}

async fn apply_missing(
    connection: &mut AnyConnection,
    location: &Location,
    all: &[Migrations],
) -> Result<(), Error> {
    sqlx::raw_sql(
        "CREATE TABLE IF NOT EXISTS migrations (
             owner TEXT NOT NULL,
             version BIGINT NOT NULL,
             digest TEXT NOT NULL,
             PRIMARY KEY (owner, version)
         )",
    )
    .execute(&mut *connection)
    .await?;

    for migrations in all {
        for Missing { migration, noted_owner } in migrations.find_missing(connection).await? {
            let (owner, version) = (migrations.owner, migration.version);
            let sql = AssertSqlSafe(migration.sql_for(location));
            sqlx::raw_sql(sql).execute(&mut *connection).await?;
            sqlx::query("INSERT INTO migrations (owner, version, digest) VALUES ($1, $2, $3)")
                .bind(noted_owner)
                .bind(version)
                .bind(migration.digest())
                .execute(&mut *connection)
                .await?;
            tracing::info!(owner, version, "the state's tables were brought up");
        }
    }
    Ok(())
}

/// Checks that what was applied is the beginning of what there is.
fn check_applied(
    owner: &'static str,
    steps: &[Migration],
    applied: &[(i64, String)],
) -> Result<(), Error> {
    for (at, (version, digest)) in applied.iter().enumerate() {
        let Some(step) = steps.get(at) else {
            let known = steps.last().map_or(0, |last| last.version);
            return Err(Error::Newer { owner, found: *version, known });
        };
        if step.version != *version || step.digest() != *digest {
            return Err(Error::ChangedMigration { owner, version: *version });
        }
    }
    Ok(())
}
