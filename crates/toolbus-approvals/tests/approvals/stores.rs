//! Stores that fail: the call is denied, and nothing runs.

use std::time::Duration;

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_approvals::{Answer, ApprovalState, Approve, BINDING_BYTES_MAX};
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_testkit::{eventually, postgres};
use toolbus_tools::Principal;

use crate::support::*;

async fn pragma(store: &LazyStore, pragma: &'static str) {
    let written = store.open().await.unwrap().write(move |transaction| {
        Box::pin(async move {
            sqlx::raw_sql(pragma).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    written.await.unwrap();
}

/// A call with this store, which must not hang.
async fn told(store: LazyStore) -> String {
    let host = Host::new(store, with_operator());
    let call =
        host.invoker.invoke(pay(json!({"to": "alice", "ms": 0, "more": "x".repeat(20_000)})));
    let told = denied(tokio::time::timeout(Duration::from_secs(40), call).await.expect("an end"));
    assert!(host.ran().is_empty());
    told
}

#[tokio::test]
async fn a_store_that_is_not_there_denies() {
    let folder = tempfile::tempdir().unwrap();
    let store = LazyStore::new(
        Location::Sqlite(folder.path().to_owned()),
        &[toolbus_approvals::MIGRATIONS],
    );
    assert!(told(store).await.contains("the state cannot be"));
    let path = folder.path().join("letter");
    std::fs::write(&path, "no database\n".repeat(500)).unwrap();
    let store = LazyStore::new(Location::Sqlite(path), &[toolbus_approvals::MIGRATIONS]);
    assert!(told(store).await.contains("the state cannot be read"));
}

#[tokio::test]
async fn a_store_that_is_full_or_read_only_denies() {
    let place = Place::sqlite();
    let store = place.store();
    let host = Host::new(store.clone(), with_operator());
    host.approvals.take_over().await.unwrap();
    pragma(&store, "PRAGMA max_page_count = 1").await;
    assert!(told(store.clone()).await.contains("the disk that the state is on is full"));

    let place = Place::sqlite();
    let store = place.store();
    pragma(&store, "PRAGMA query_only = ON").await;
    assert!(told(store).await.contains("the state can only be read"));
}

#[tokio::test]
async fn a_store_that_is_locked_denies() {
    let place = Place::sqlite();
    let (store, other) = (place.store(), place.store());
    pragma(&store, "PRAGMA busy_timeout = 200").await;
    let (locked, release) = (CancellationToken::new(), CancellationToken::new());
    let (is_locked, released) = (locked.clone(), release.clone());
    let hold = other.open().await.unwrap().write(move |transaction| {
        Box::pin(async move {
            let delete = sqlx::query("DELETE FROM approvals");
            delete.execute(transaction.connection()).await?;
            is_locked.cancel();
            released.cancelled().await;
            Ok(())
        })
    });
    let calling = async {
        locked.cancelled().await;
        let told = told(store).await;
        release.cancel();
        told
    };
    let (held, told) = tokio::join!(hold, calling);
    held.unwrap();
    assert!(told.contains("locked by somebody else"), "{told}");
}

/// The database goes while a call waits: it is denied when its time is over at the latest.
#[tokio::test]
async fn a_store_that_goes_away_denies_what_waits() {
    let Some(mut server) = postgres::server().await else { return };
    let location: Location = server.database().unwrap().parse().unwrap();
    let store = || LazyStore::new(location.clone(), &[toolbus_approvals::MIGRATIONS]);
    let config =
        toolbus_approvals::ApprovalConfig { timeout: Duration::from_secs(3), ..with_operator() };
    let host = Host::new(store(), config);
    let operator = Operator { store: toolbus_approvals::ApprovalStore::new(store(), false) };
    let stopping = async {
        operator.asked().await;
        server.stop().await.unwrap();
    };
    let call =
        tokio::time::timeout(Duration::from_secs(30), host.invoker.invoke(pay(json!({"to": "a"}))));
    let (outcome, ()) = tokio::join!(call, stopping);
    let told = denied(outcome.expect("an end"));
    assert!(told.contains("the state cannot be reached"), "{told}");
    assert!(host.ran().is_empty());
    server.run().await.unwrap();
    // What nobody waits for any more is of no use to anybody.
    eventually(PATIENCE, async || {
        let pending = operator.store.list(Some(ApprovalState::Pending), 10).await;
        match pending.map_err(|error| error.to_string())?.first() {
            None => Ok(()),
            Some(asked) => {
                let answer = Answer::new(Approve::ONCE, &Principal::local());
                let answered = operator.store.answer(&asked.id, answer).await;
                Err(format!("{answered:?}"))
            }
        }
    })
    .await;
    assert!(host.ran().is_empty());
}

#[tokio::test]
async fn a_call_that_is_too_large_to_be_kept_is_denied() {
    let place = Place::sqlite();
    let host = Host::new(place.store(), with_operator());
    let large = json!({"to": "alice", "more": "x".repeat(BINDING_BYTES_MAX)});
    let told = denied(host.invoker.invoke(pay(large)).await);
    let expected = format!("over the limit of {BINDING_BYTES_MAX}");
    assert!(told.contains(&expected), "{told}");
    assert!(place.operator().states().await.is_empty());
}
