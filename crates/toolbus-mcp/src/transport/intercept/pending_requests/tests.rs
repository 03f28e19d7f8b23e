use toolbus_bus::{Asker, Progress};

use toolbus_wire::json::RawJson;

use super::*;

fn add_call(pending: &mut PendingRequests, id: i64) {
    let tag = CallTag::new(Progress::none(), Asker::none(), RawJson::of(&()));
    pending.add_call(RequestId::Number(id), tag, None);
}

#[test]
fn a_call_that_was_given_up_counts_until_its_answer() {
    let mut pending = PendingRequests::default();
    add_call(&mut pending, 1);
    pending.give_up(&RequestId::Number(1));
    assert!(pending.only_call().is_none());
    add_call(&mut pending, 2);
    assert!(pending.only_call().is_none(), "it could be either");

    // With the id as a text, as some servers have it.
    assert!(!pending.take_answered(&RequestId::String("1".into())), "nobody waits for it");
    assert!(pending.only_call().is_some());
}

#[test]
fn what_belongs_to_no_call_is_forgotten() {
    let mut pending = PendingRequests::default();
    pending.add(RequestId::Number(1));
    pending.give_up(&RequestId::Number(1));
    add_call(&mut pending, 2);
    pending.take_unsent(&RequestId::Number(2));
    add_call(&mut pending, 3);
    assert!(pending.only_call().is_some());
}

#[test]
fn a_listing_is_nothing_that_a_server_asks_about() {
    let mut pending = PendingRequests::default();
    add_call(&mut pending, 1);
    let (listing, id) = (CallTag::of_listing(), RequestId::Number(2));
    pending.add_call(id.clone(), listing, None);
    assert!(pending.only_call().is_some() && pending.call(&id).is_none());
    assert!(pending.answered_call(&id).is_some());
    pending.give_up(&id);
    assert!(pending.only_call().is_some());
}

#[test]
fn after_too_many_it_is_never_known_again() {
    let mut pending = PendingRequests::default();
    let ids = 0..=i64::try_from(UNANSWERED_MAX).unwrap();
    for id in ids.clone() {
        add_call(&mut pending, id);
        pending.give_up(&RequestId::Number(id));
    }
    assert_eq!(pending.unanswered.len(), UNANSWERED_MAX);
    for id in ids {
        pending.take_answered(&RequestId::Number(id));
    }
    add_call(&mut pending, -1);
    assert!(pending.only_call().is_none());
}
