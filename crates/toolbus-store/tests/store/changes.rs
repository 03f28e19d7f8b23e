//! Who waits for a change is woken by it, in this process and in others.

use tokio::time::timeout;
use toolbus_store::Error;

use crate::support::*;

#[tokio::test]
async fn a_change_wakes_who_waits_here_and_elsewhere() {
    for place in Place::all().await {
        let (here, elsewhere) = (place.open().await, place.open().await);
        let mut near = here.changes("notes");
        let mut far = elsewhere.changes("notes");
        // What was missed before it was listened to is told as a change, too.
        for id in 1..=3 {
            near.mark_unchanged();
            note(&here, id, "x").await.unwrap();
            timeout(PATIENCE, near.changed()).await.expect("a change here").unwrap();
            let is_seen = async {
                loop {
                    if ids(&elsewhere).await.len() == usize::try_from(id).unwrap() {
                        break;
                    }
                    far.changed().await.unwrap();
                }
            };
            timeout(PATIENCE, is_seen).await.expect("a change elsewhere");
        }
        here.close().await;
        elsewhere.close().await;
    }
}

#[tokio::test]
async fn what_was_undone_is_no_change() {
    let place = Place::sqlite();
    let store = place.open().await;
    let mut changes = store.changes("notes");
    // The first look at the file is told, and then a write twice: by itself, and by the next look.
    timeout(PATIENCE, changes.changed()).await.expect("the first look").unwrap();
    let first_look = *changes.borrow_and_update();
    note(&store, 1, "x").await.unwrap();
    let write = changes.wait_for(|number| *number == first_look + 2);
    drop(timeout(PATIENCE, write).await.expect("a write").unwrap());
    assert!(matches!(note(&store, 1, "again").await, Err(Error::Conflict(_))));
    assert!(!changes.has_changed().unwrap());
    store.close().await;
}

/// Between the beginning of a wait and the first look at the file there may be a change.
#[tokio::test]
async fn a_change_before_the_first_look_is_told() {
    for place in Place::all().await {
        let (here, elsewhere) = (place.open().await, place.open().await);
        // sleeps: long enough to have found that nobody waits, and less than from one look to the next.
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let mut far = elsewhere.changes("notes");
        note(&here, 1, "x").await.unwrap();
        timeout(PATIENCE, far.changed()).await.expect("a change elsewhere").unwrap();
        here.close().await;
        elsewhere.close().await;
    }
}
