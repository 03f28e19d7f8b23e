//! Which state follows from what.

use super::*;

#[test]
fn cx_r7_a_tool_goes_through_its_states() {
    let check = |facts: LifecycleFacts, expected: Lifecycle| {
        assert_eq!(Lifecycle::of(&facts), expected, "{facts:?}");
    };
    let indexed = LifecycleFacts { is_indexed: true, ..LifecycleFacts::default() };
    let used = LifecycleFacts {
        last_used: Some(Duration::from_secs(60)),
        runs: 20,
        success_rate: 1.0,
        ..indexed
    };
    check(LifecycleFacts::default(), Lifecycle::Registered);
    check(indexed, Lifecycle::Discoverable);
    check(used, Lifecycle::Optimized);
    let unused = LifecycleFacts { last_used: Some(UNUSED_INTERVAL), ..used };
    check(unused, Lifecycle::NotRecommended);
    check(LifecycleFacts { success_rate: 0.49, ..used }, Lifecycle::NotRecommended);
    // A few failures say little.
    check(LifecycleFacts { success_rate: 0.0, runs: 19, ..used }, Lifecycle::Optimized);
}
