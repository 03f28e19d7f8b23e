//! Migrations: done once, as a whole, by whoever is first.

use tokio::task::JoinSet;
use toolbus_store::{Error, Migration, Migrations, Store, sqlx};

use crate::support::*;

const FIRST: Migration = Migration { version: 1, sql: "CREATE TABLE things (id BIGINT)" };
const SECOND: Migration = Migration { version: 2, sql: "ALTER TABLE things ADD COLUMN name TEXT" };
const CHANGED: Migration = Migration { version: 1, sql: "CREATE TABLE things (id TEXT)" };
const ADDED: Migration =
    Migration { version: 3, sql: "ALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 0" };
const ADDED_CHANGED: Migration =
    Migration { version: 3, sql: "ALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 1" };
const ADDED_LATER: Migration = Migration { version: 4, sql: "CREATE TABLE parts (id BIGINT)" };
const OF_ADDED: Migration =
    Migration { version: 5, sql: "CREATE INDEX things_size ON things (size)" };
const WRONG: Migration =
    Migration { version: 2, sql: "CREATE TABLE others (id BIGINT); CREATE TABLE (" };

async fn open(place: &Place, steps: &'static [Migration]) -> Result<(), Error> {
    open_with(place, steps, &[]).await
}

async fn open_with(
    place: &Place,
    steps: &'static [Migration],
    additions: &'static [Migration],
) -> Result<(), Error> {
    let things = Migrations { owner: "things", steps, additions };
    let store = Store::open(place.location.clone(), &[NOTES, things]).await?;
    store.close().await;
    Ok(())
}

#[tokio::test]
async fn many_processes_that_start_at_once_apply_each_once() {
    for place in Place::all().await {
        let mut opening = JoinSet::new();
        for _ in 0..8 {
            let location = place.location.clone();
            opening.spawn(async move { Store::open(location, &[NOTES]).await });
        }
        for store in opening.join_all().await {
            store.unwrap().close().await;
        }
    }
}

#[tokio::test]
async fn later_migrations_are_added_and_older_programs_refuse_what_they_do_not_know() {
    for place in Place::all().await {
        open(&place, &[FIRST]).await.unwrap();
        open(&place, &[FIRST, SECOND]).await.unwrap();
        open(&place, &[FIRST, SECOND]).await.unwrap();
        let newer = Error::Newer { owner: "things", found: 2, known: 1 };
        assert_eq!(open(&place, &[FIRST]).await, Err(newer));
        let changed = Error::ChangedMigration { owner: "things", version: 1 };
        assert_eq!(open(&place, &[CHANGED, SECOND]).await, Err(changed));
    }
}

/// An upgrade that only adds can be rolled back and repeated.
#[tokio::test]
async fn older_programs_work_with_unknown_additions() {
    for place in Place::all().await {
        open(&place, &[FIRST]).await.unwrap();
        for _ in 0..2 {
            open_with(&place, &[FIRST], &[ADDED, ADDED_LATER]).await.unwrap();
            open_with(&place, &[FIRST], &[ADDED]).await.unwrap();
            open(&place, &[FIRST]).await.unwrap();
        }

        let changed = Error::ChangedMigration { owner: "things", version: 3 };
        assert_eq!(open_with(&place, &[FIRST], &[ADDED_CHANGED]).await, Err(changed));
        // A step is none, wherever it stands among them.
        open_with(&place, &[FIRST, SECOND], &[ADDED]).await.unwrap();
        let newer = Error::Newer { owner: "things", found: 2, known: 1 };
        assert_eq!(open_with(&place, &[FIRST], &[ADDED]).await, Err(newer));
    }
}

/// Additions and steps are applied in the order of their versions, because a later step may need an
/// addition.
#[tokio::test]
async fn steps_and_additions_are_applied_by_their_versions() {
    for place in Place::all().await {
        open_with(&place, &[FIRST, OF_ADDED], &[ADDED]).await.unwrap();
    }
}

#[tokio::test]
async fn a_migration_that_fails_leaves_nothing() {
    for place in Place::all().await {
        let error = open(&place, &[FIRST, WRONG]).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error}");
        let store = place.open().await;
        for table in ["things", "others"] {
            let rows = sqlx::raw_sql(match table {
                "things" => "SELECT * FROM things",
                _ => "SELECT * FROM others",
            });
            assert!(rows.fetch_all(store.readers()).await.is_err(), "{table} is there");
        }
        store.close().await;
    }
}
