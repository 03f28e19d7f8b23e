use super::*;

/// While a client does not read, a bridge may report whatever it likes.
#[tokio::test]
async fn only_what_was_subscribed_to_waits_for_the_client() {
    let changed = ChangedResources::default();
    let subscribed = ["demo://a", "demo://b"].map(str::to_owned);
    for number in 0..1_000 {
        changed.report(&subscribed, &format!("demo://{number}"));
        changed.report(&subscribed, "demo://b");
    }
    assert_eq!(changed.next_resources().await, BTreeSet::from(["demo://b".to_owned()]));
}
