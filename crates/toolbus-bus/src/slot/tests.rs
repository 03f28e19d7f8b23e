use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_parked_slot_is_free_for_others_until_its_call_comes_back() {
    let pool = SlotPool::new(1, 1);
    let slot = pool.try_take().unwrap();
    assert!(pool.try_take().is_none());
    slot.park(Kept::InMemory);
    assert_eq!(slot.kept(), Some(Kept::InMemory));
    let other = pool.try_take().unwrap();

    let mut back = Box::pin(slot.resume());
    assert!(tokio::time::timeout(SECOND, &mut back).await.is_err(), "there is none");
    drop(other);
    assert!(pool.try_take().is_none(), "who comes back goes before who is new");
    back.await.unwrap();
    assert_eq!(slot.kept(), None);
    drop(slot);
    assert!(pool.try_take().is_some());
}

#[tokio::test]
async fn a_call_that_finds_no_room_to_park_keeps_its_slot() {
    let pool = SlotPool::new(2, 1);
    let slots = [pool.try_take().unwrap(), pool.try_take().unwrap()];
    slots.iter().for_each(|slot| slot.park(Kept::InMemory));
    assert_eq!(slots.each_ref().map(Slot::kept), [Some(Kept::InMemory), None]);
    let other = pool.try_take().unwrap();
    assert!(pool.try_take().is_none());
    drop(other);
    slots[0].resume().await.unwrap();
    slots[1].park(Kept::InMemory);
    assert!(slots[1].kept().is_some(), "the room is free again");
}

#[tokio::test]
async fn a_slot_that_nobody_counts_does_nothing() {
    let slot = Slot::none();
    slot.park(Kept::InMemory);
    assert_eq!(slot.kept(), None);
    slot.resume().await.unwrap();
    assert!(slot.request().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_closes_waits_for_calls_that_run_and_for_no_parked_ones() {
    let pool = SlotPool::new(3, 3);
    let [runs, ends, parked] = [(); 3].map(|()| pool.try_take().unwrap());
    parked.park(Kept::InMemory);
    let ending = async {
        tokio::time::sleep(SECOND).await;
        drop(ends);
    };
    let (taken, ()) = tokio::join!(pool.close(3 * SECOND), ending);
    assert_eq!(taken, 1);
    assert!(pool.try_take().is_none());
    assert_eq!(parked.resume().await, Err(Closed));
    drop(runs);
    assert!(pool.try_take().is_none());
}
