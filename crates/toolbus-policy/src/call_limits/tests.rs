use super::*;

/// A long run makes far more calls than a program may.
#[test]
fn rv_a1_direct_calls_have_more_room_than_a_chain() {
    let seconds = |limits: CallLimits| {
        let CallLimits { calls_max, call_timeout, approval_timeout, total_timeout } = limits;
        let times = [call_timeout, approval_timeout, total_timeout];
        (calls_max, times.map(|time| time.as_secs()))
    };
    let of = |name: &str| CallLimits::of(&RulesName::new(name)).map(seconds);
    assert_eq!(of("chain"), Some((50, [60, 55, 300])));
    assert_eq!(of("direct"), Some((10_000, [600, 300, 3_600])));
    assert_eq!(CallLimits::of(&RulesName::default()), Some(CallLimits::DIRECT));
    assert_eq!(of("other"), None);
}

#[tokio::test(start_paused = true)]
async fn a_budget_of_them_ends_by_calls_and_by_time() {
    let parent = Budget::calls(60);
    let chain = CallLimits::CHAIN.budget(&parent);
    assert_eq!((0..55).filter(|_| chain.charge_call().is_ok()).count(), 50);
    assert_eq!(parent.usage().calls, 50);

    let late = CallLimits::CHAIN.budget(&parent);
    tokio::time::advance(Duration::from_secs(300)).await;
    assert_eq!(late.charge_call(), Err(toolbus_tools::budget::Exceeded::Time));
}
