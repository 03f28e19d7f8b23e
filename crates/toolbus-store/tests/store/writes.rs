//! Writes: each whole or not at all, alone or with others.

use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use toolbus_store::{Error, sqlx};

use crate::support::*;

#[tokio::test]
async fn what_was_written_is_there_when_the_store_is_opened_again() {
    for place in Place::all().await {
        let store = place.open().await;
        let data = vec![0u8, 255, 10];
        let written = data.clone();
        let count = store
            .write(move |transaction| {
                Box::pin(async move {
                    let insert =
                        sqlx::query("INSERT INTO notes (id, text, data) VALUES ($1, $2, $3)");
                    let insert = insert.bind(i64::MAX).bind("naïve \u{1f980}").bind(written);
                    Ok(insert.execute(transaction.connection()).await?.rows_affected())
                })
            })
            .await;
        assert_eq!(count, Ok(1));
        note(&store, 2, "").await.unwrap();
        store.close().await;
        assert_eq!(note(&store, 3, "late").await, Err(Error::Closed));

        let store = place.open().await;
        let rows: Vec<(i64, String, Option<Vec<u8>>)> =
            sqlx::query_as("SELECT id, text, data FROM notes ORDER BY id")
                .fetch_all(store.readers())
                .await
                .unwrap();
        let expected =
            [(2, String::new(), None), (i64::MAX, "naïve \u{1f980}".to_owned(), Some(data))];
        assert_eq!(rows, expected);
        store.close().await;
    }
}

/// Many at once, of which every third has a key that is there already.
#[tokio::test]
async fn a_write_that_fails_is_undone_alone() {
    for place in Place::all().await {
        let store = place.open().await;
        note(&store, 0, "first").await.unwrap();
        let mut writing = JoinSet::new();
        for id in 1..=300 {
            let store = store.clone();
            writing.spawn(async move {
                let fails = id % 3 == 0;
                let written = store.write(move |transaction| {
                    Box::pin(async move {
                        for id in [id, if fails { 0 } else { 1_000 + id }] {
                            sqlx::query("INSERT INTO notes (id, text) VALUES ($1, 'x')")
                                .bind(id)
                                .execute(transaction.connection())
                                .await?;
                        }
                        Ok(id)
                    })
                });
                (id, written.await)
            });
        }
        let mut expected = vec![0];
        while let Some(written) = writing.join_next().await {
            match written.unwrap() {
                (id, Ok(told)) => {
                    assert_eq!(told, id);
                    expected.extend([id, 1_000 + id]);
                }
                (id, Err(error)) => {
                    assert!(id % 3 == 0 && matches!(error, Error::Conflict(_)), "{id}: {error}");
                }
            }
        }
        expected.sort_unstable();
        assert_eq!(expected.len(), 401);
        assert_eq!(ids(&store).await, expected);
        store.close().await;
    }
}

/// Of a failed statement one database goes on and the other ends the transaction: either way what
/// the caller is told is so.
#[tokio::test]
async fn a_failure_that_the_work_makes_nothing_of_is_not_told_as_done() {
    for place in Place::all().await {
        let store = place.open().await;
        let written = store.write(|transaction| {
            Box::pin(async move {
                for id in [1, 1] {
                    let insert = sqlx::query("INSERT INTO notes (id, text) VALUES ($1, 'x')");
                    drop(insert.bind(id).execute(transaction.connection()).await);
                }
                Ok(())
            })
        });
        let written = written.await;
        assert_eq!(ids(&store).await.len(), usize::from(written.is_ok()), "{written:?}");
        note(&store, 2, "after").await.unwrap();
        store.close().await;
    }
}

#[tokio::test]
async fn a_panic_ends_one_write_and_the_next_is_made() {
    for place in Place::all().await {
        let store = place.open().await;
        let written = store.write::<(), _>(|transaction| {
            Box::pin(async move {
                sqlx::query("INSERT INTO notes (id, text) VALUES (1, 'x')")
                    .execute(transaction.connection())
                    .await?;
                panic!("on purpose")
            })
        });
        let error = written.await.unwrap_err();
        assert!(matches!(error, Error::Unavailable(_)), "{error}");
        note(&store, 2, "after").await.unwrap();
        assert_eq!(ids(&store).await, [2]);
        store.close().await;
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_before_its_turn_is_not_made() {
    for place in Place::all().await {
        let store = place.open().await;
        let (began, has_begun) = oneshot::channel();
        let (go_on, may_end) = oneshot::channel::<()>();
        let mut holding = JoinSet::new();
        holding.spawn({
            let store = store.clone();
            async move {
                let hold = store.write(|_| {
                    Box::pin(async move {
                        began.send(()).unwrap();
                        may_end.await.unwrap();
                        Ok(())
                    })
                });
                hold.await
            }
        });
        has_begun.await.unwrap();

        let given_up = tokio::time::timeout(Duration::from_millis(50), note(&store, 1, "x")).await;
        assert!(given_up.is_err());
        go_on.send(()).unwrap();
        holding.join_next().await.unwrap().unwrap().unwrap();
        note(&store, 2, "after").await.unwrap();
        assert_eq!(ids(&store).await, [2]);
        store.close().await;
    }
}

#[tokio::test]
async fn readers_cannot_write() {
    for place in Place::all().await {
        let store = place.open().await;
        let insert = sqlx::query("INSERT INTO notes (id, text) VALUES (1, 'x')");
        let error = Error::from(insert.execute(store.readers()).await.unwrap_err());
        assert_eq!(error, Error::ReadOnly, "{}", place.location);
        store.close().await;
    }
}
