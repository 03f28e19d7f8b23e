//! Disks and databases that fail: a clear error, nothing lost, and on as soon as they are back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use toolbus_store::{Error, Location, Store, sqlx};
use toolbus_testkit::{eventually, postgres};

use crate::support::*;

#[tokio::test]
async fn a_database_that_goes_and_comes_back_is_used_again() {
    let Some(mut server) = postgres::server().await else { return };
    let location: Location = server.database().unwrap().parse().unwrap();
    let store = Store::open(location.clone(), &[NOTES]).await.unwrap();
    let mut changes = store.changes("notes");
    note(&store, 1, "before").await.unwrap();

    server.stop().await.unwrap();
    for id in 2..=4 {
        let error = note(&store, id, "while away").await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
    }
    let error = Store::open(location, &[NOTES]).await.err().expect("an error");
    assert!(matches!(error, Error::Unavailable(_)), "{error}");

    server.run().await.unwrap();
    changes.mark_unchanged();
    note(&store, 5, "after").await.unwrap();
    assert_eq!(ids(&store).await, [1, 5]);
    // Others may have written meanwhile.
    eventually(PATIENCE, async || {
        if changes.has_changed().unwrap() { Ok(()) } else { Err("no change is told") }
    })
    .await;
    store.close().await;
}

/// SQLite counts pages and refuses those past the most of a file as it does where the disk is full.
#[tokio::test]
async fn a_write_that_has_no_room_is_refused_and_the_rest_stays() {
    let place = Place::sqlite();
    let store = place.open().await;
    store
        .write(|transaction| {
            Box::pin(async move {
                sqlx::raw_sql("PRAGMA max_page_count = 40")
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        })
        .await
        .unwrap();

    let large: &'static str = Box::leak("x".repeat(20_000).into_boxed_str());
    let mut kept = Vec::new();
    let mut writing = tokio::task::JoinSet::new();
    for id in 0..40 {
        let store = store.clone();
        writing.spawn(async move { (id, note(&store, id, large).await) });
    }
    while let Some(written) = writing.join_next().await {
        match written.unwrap() {
            (id, Ok(())) => kept.push(id),
            (_, Err(error)) => assert_eq!(error, Error::Full),
        }
    }
    for id in 40..50 {
        match note(&store, id, large).await {
            Ok(()) => kept.push(id),
            Err(error) => assert_eq!(error, Error::Full),
        }
    }
    kept.sort_unstable();
    assert!(kept.len() < 50);
    assert_eq!(ids(&store).await, kept);
    // Smaller ones may still have room.
    note(&store, 100, "small").await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_file_that_is_no_state_is_told_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    let text = "this is a letter\n".repeat(500);
    fs::write(&path, &text).unwrap();
    let error = Store::open(Location::Sqlite(path.clone()), &[NOTES]).await.err().unwrap();
    assert!(matches!(error, Error::Damaged(_)), "{error}");
    assert_eq!(fs::read_to_string(path).unwrap(), text);
}

#[tokio::test]
async fn a_new_file_and_its_folder_are_its_owner_s_alone() {
    let place = Place::sqlite();
    let store = place.open().await;
    let Location::Sqlite(path) = &place.location else { panic!("{}", place.location) };
    note(&store, 1, "x").await.unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    assert_eq!(mode(&path.with_extension("db-wal")), 0o600);
    store.close().await;
}
