//! Leases: one holder at a time, and none that writes after its time.

use std::time::Duration;

use tokio::task::JoinSet;
use toolbus_store::{Error, Lease, Store, sqlx};

use crate::support::*;

const LONG: Duration = Duration::from_secs(600);

/// Writes a note as the holder of a lease.
async fn note_under(store: &Store, lease: &Lease, id: i64) -> Result<(), Error> {
    let lease = lease.clone();
    store
        .write(move |transaction| {
            Box::pin(async move {
                sqlx::query("INSERT INTO notes (id, text) VALUES ($1, 'x')")
                    .bind(id)
                    .execute(transaction.connection())
                    .await?;
                lease.check(transaction).await
            })
        })
        .await
}

#[tokio::test]
async fn one_of_many_has_it() {
    for place in Place::all().await {
        let stores = [place.open().await, place.open().await];
        let mut asking = JoinSet::new();
        for number in 0..40 {
            let store = stores[number % 2].clone();
            asking.spawn(async move {
                let holder = format!("holder {number}");
                let lease = store.acquire_lease("schedules", &holder, LONG).await.unwrap();
                lease.map(|lease| (lease, holder))
            });
        }
        let mut held: Vec<_> = asking.join_all().await.into_iter().flatten().collect();
        assert_eq!(held.len(), 1);
        let (lease, holder) = held.remove(0);
        for store in &stores {
            assert_eq!(store.lease_holder("schedules").await.unwrap(), Some(holder.clone()));
        }

        lease.renew(&stores[1]).await.unwrap();
        assert_eq!(stores[0].acquire_lease("schedules", "other", LONG).await, Ok(None));
        lease.release(&stores[0]).await.unwrap();
        assert_eq!(stores[0].lease_holder("schedules").await, Ok(None));
        assert!(stores[0].acquire_lease("schedules", "other", LONG).await.unwrap().is_some());
        for store in stores {
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_holder_whose_time_is_over_writes_nothing_once_another_has_it() {
    for place in Place::all().await {
        let store = place.open().await;
        let old = store.acquire_lease("schedules", "old", Duration::ZERO).await.unwrap().unwrap();
        assert_eq!(store.lease_holder("schedules").await, Ok(None));
        // Nobody has taken it meanwhile.
        note_under(&store, &old, 1).await.unwrap();

        let new = store.acquire_lease("schedules", "new", LONG).await.unwrap().unwrap();
        let lost = Err(Error::LeaseLost("schedules".to_owned()));
        assert_eq!(old.renew(&store).await, lost);
        assert_eq!(note_under(&store, &old, 2).await, lost);
        note_under(&store, &new, 3).await.unwrap();
        assert_eq!(ids(&store).await, [1, 3]);
        // It gives back nothing that is another's.
        old.release(&store).await.unwrap();
        assert_eq!(store.lease_holder("schedules").await, Ok(Some("new".to_owned())));
        store.close().await;
    }
}
