use toolbus_config::FindingState;

use super::*;
use crate::{Migration, Store};

const KNOWN: Migrations = Migrations {
    owner: "things",
    steps: &[
        Migration { version: 1, sql: "CREATE TABLE things (name TEXT)" },
        Migration { version: 2, sql: "ALTER TABLE things ADD COLUMN size BIGINT" },
    ],
    additions: &[],
};
const ADDITIONS: &[Migration] =
    &[Migration { version: 3, sql: "ALTER TABLE things ADD COLUMN color TEXT" }];
const OLDER: Migrations = Migrations { steps: KNOWN.steps.split_at(1).0, ..KNOWN };

async fn check(location: &Location, migrations: &[Migrations], state: FindingState, text: &str) {
    let (found, _) = examine(location, migrations).await;
    assert_eq!(found.state, state, "{found:?}");
    assert!(found.detail.contains(text), "{found:?}");
    assert_eq!(found.mend.is_some(), state == FindingState::Wrong, "{found:?}");
}

async fn check_tables(location: &Location) {
    let ok = FindingState::Ok;
    Store::open(location.clone(), &[OLDER]).await.unwrap().close().await;
    check(location, &[OLDER], ok, "its tables are current").await;
    check(location, &[KNOWN], ok, "1 migrations are applied").await;
    // It has changed nothing.
    check(location, &[KNOWN], ok, "1 migrations are applied").await;
    Store::open(location.clone(), &[KNOWN]).await.unwrap().close().await;
    check(location, &[KNOWN], ok, "its tables are current").await;
    check(location, &[OLDER], FindingState::Wrong, "this program knows 1").await;
    let added = Migrations { additions: ADDITIONS, ..KNOWN };
    check(location, &[added], ok, "1 migrations are applied").await;
    Store::open(location.clone(), &[added]).await.unwrap().close().await;
    check(location, &[added], ok, "its tables are current").await;
    check(location, &[KNOWN], ok, "its tables are current").await;
}

#[tokio::test]
async fn tables_are_current_or_not_or_of_a_newer_program() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("new/state.db"));
    check(&location, &[KNOWN], FindingState::Ok, "is made when it is needed").await;
    assert!(!folder.path().join("new").exists());
    check_tables(&location).await;

    let garbage = folder.path().join("garbage.db");
    std::fs::write(&garbage, "no database at all, but text").unwrap();
    check(&Location::Sqlite(garbage), &[], FindingState::Wrong, "cannot be read").await;
    let below_a_file = folder.path().join("garbage.db/state.db");
    check(&Location::Sqlite(below_a_file), &[], FindingState::Wrong, "cannot be made").await;
}

#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_build_without_postgresql_cannot_open_it_and_names_the_feature() {
    let location = Location::Postgres("postgres://me:hunter2@127.0.0.1:1/none".to_owned());
    let error = Store::open(location.clone(), &[KNOWN]).await.err().unwrap();
    assert!(matches!(error, Error::LeftOut(_)), "{error:?}");
    check(&location, &[], FindingState::Wrong, "build with --features postgres").await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_database_says_what_time_it_is_there() {
    let Some(url) = toolbus_testkit::postgres::database().await else { return };
    let location = Location::Postgres(url);
    check(&location, &[OLDER], FindingState::Ok, "migrations are applied").await;
    check_tables(&location).await;
    let clock = examine(&location, &[]).await.1.unwrap();
    assert!(clock.ahead_ms.abs() <= clock.error_ms + 1_000, "{clock:?}");

    let nobody = Location::Postgres("postgres://me:hunter2@127.0.0.1:1/none".to_owned());
    check(&nobody, &[], FindingState::Wrong, "postgres://127.0.0.1:1/none cannot be used").await;
    let (found, _) = examine(&nobody, &[]).await;
    assert!(!format!("{found:?}").contains("hunter2"), "{found:?}");
}
