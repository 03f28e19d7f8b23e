use super::*;

fn breaker() -> Breaker {
    Breaker::new(&WispsConfig::default())
}

#[tokio::test(start_paused = true)]
async fn thirty_failures_within_five_minutes_open_it() {
    let breaker = breaker();
    breaker.count("a", 29);
    assert_eq!(breaker.check("a"), Ok(()));
    tokio::time::advance(Duration::from_secs(60)).await;
    breaker.count("a", 1);

    let Err(Error::BreakerOpen { failures, retry_after, .. }) = breaker.check("a") else {
        panic!("it is open");
    };
    assert_eq!((failures, retry_after), (30, Duration::from_secs(240)));
    assert_eq!(breaker.check("b"), Ok(()), "it is the other's");

    tokio::time::advance(Duration::from_secs(240)).await;
    assert_eq!(breaker.check("a"), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let breaker = breaker();
    breaker.count("a", 1_000_000);
    breaker.count("a", 0);
    assert_eq!(breaker.owners.lock()["a"].len(), 30);

    tokio::time::advance(Duration::from_secs(1)).await;
    for owner in 0..2 * OWNERS_MAX {
        breaker.count(&owner.to_string(), 1);
    }
    assert_eq!(breaker.owners.lock().len(), OWNERS_MAX);
    assert_eq!(breaker.check("a"), Ok(()), "its failures were the oldest");
}
