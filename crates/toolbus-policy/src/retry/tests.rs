use super::*;

#[test]
fn rv_b5_each_agent_tries_again_so_often_and_starts_over() {
    let mut policy = RetryPolicy::default();
    let (one, other) = (RunId::random(), RunId::random());
    let tries = |policy: &mut RetryPolicy, agent: &RunId| {
        (0..5).map(|_| policy.try_again(agent)).collect::<Vec<_>>()
    };
    let three = [true, true, true, false, false];
    assert_eq!(tries(&mut policy, &one), three);
    assert_eq!(tries(&mut policy, &other), three);
    policy.reset(&one);
    assert_eq!(tries(&mut policy, &one), three);
    assert!(!policy.try_again(&other));
    assert!(!RetryPolicy::new(0).try_again(&one));
}
