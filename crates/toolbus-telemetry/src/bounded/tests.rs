//! The bound holds, and what is known stays known.

use super::*;

#[test]
fn values_past_the_bound_are_other() {
    let bounded = Bounded::new(2);
    let of = |text: &str| bounded.value(text).as_str().to_owned();
    assert_eq!(["a", "b", "c", "a", "b"].map(of), ["a", "b", OTHER, "a", "b"]);
    assert_eq!(bounded.known.read().len(), 2);
}

#[test]
fn a_value_that_is_too_long_takes_no_place() {
    let bounded = Bounded::new(1);
    let long = "x".repeat(VALUE_BYTES_MAX + 1);
    assert_eq!(bounded.value(&long).as_str(), OTHER);
    assert_eq!(bounded.value(&long[1..]).as_str(), &long[1..]);
}
