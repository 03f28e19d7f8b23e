use std::sync::Arc;

use super::*;

fn is_active(set: &ResourceSet<Arc<()>>, uri: &str) -> bool {
    set.state.lock().active.contains_key(uri)
}

#[test]
fn an_unsubscribe_overtakes_the_subscribe_before_it() {
    let set = ResourceSet::default();
    let subscription = Arc::new(());

    let starting = set.begin("demo://a").unwrap().expect("it is new");
    set.remove("demo://a");
    starting.finish(Arc::clone(&subscription));
    assert!(!is_active(&set, "demo://a"));
    assert_eq!(Arc::strong_count(&subscription), 1, "it is ended");

    let starting = set.begin("demo://a").unwrap().expect("it is new");
    starting.finish(Arc::clone(&subscription));
    assert!(is_active(&set, "demo://a"));
    assert!(set.begin("demo://a").unwrap().is_none());
    set.remove("demo://a");
    assert_eq!(Arc::strong_count(&subscription), 1);
}

#[test]
fn requests_without_an_answer_take_room_until_they_are_given_up() {
    let set = ResourceSet::<Arc<()>>::default();

    let uris = (0..RESOURCES_MAX).map(|number| format!("demo://{number}"));
    let mut starting: Vec<_> = uris.map(|uri| set.begin(&uri).unwrap()).collect();
    assert_eq!(set.begin("demo://more").err(), Some(TooMany));
    starting.pop();
    assert!(set.begin("demo://more").is_ok());
}
