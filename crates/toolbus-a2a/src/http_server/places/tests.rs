use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{NoPlace, Places};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

#[test]
fn a_client_has_its_share_and_no_more() {
    let places = Arc::new(Places::new(3, 2));
    let first = places.take("a", soon()).expect("a place");
    let _second = places.take("a", soon()).expect("a place");
    assert_eq!(places.take("a", soon()).err(), Some(NoPlace::OfClient(2)));
    let _third = places.take("b", soon()).expect("a place");
    assert_eq!(places.take("b", soon()).err(), Some(NoPlace::OfAll(3)));
    drop(first);
    places.take("b", soon()).expect("a place that was given back");
}

#[test]
fn a_place_that_is_not_given_back_ends() {
    let places = Arc::new(Places::new(1, 1));
    let _kept = places.take("a", Instant::now()).expect("a place");
    places.take("b", soon()).expect("the time of the other is over");
    places.close();
    assert_eq!(places.take("b", soon()).err(), Some(NoPlace::Stopping));
}
