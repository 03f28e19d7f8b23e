//! Migrations: done once, as a whole, by whoever is first.

use tokio::task::JoinSet;
use toolbus_store::{Error, Migration, Migrations, Store, sqlx};

use crate::support::*;

const FIRST: Migration = Migration { version: 1, sql: "CREATE TABLE things (id BIGINT)" };
const SECOND: Migration = Migration { version: 2, sql: "ALTER TABLE things ADD COLUMN name TEXT" };
const CHANGED: Migration = Migration { version: 1, sql: "CREATE TABLE things (id TEXT)" };
const WRONG: Migration =
    Migration { version: 2, sql: "CREATE TABLE others (id BIGINT); CREATE TABLE (" };

async fn open(place: &Place, steps: &'static [Migration]) -> Result<(), Error> {
    let things = Migrations { owner: "things", steps };
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
