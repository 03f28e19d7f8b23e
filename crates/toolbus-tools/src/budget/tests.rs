use std::time::Duration;

use super::*;

fn limits(calls: u64) -> BudgetLimits {
    BudgetLimits { calls: Some(calls), ..BudgetLimits::default() }
}

#[test]
fn a_child_counts_in_itself_and_in_its_parent() {
    let parent = Budget::calls(3);
    let child = parent.child(limits(2));
    assert_eq!(child.charge_call(), Ok(()));
    assert_eq!(child.charge_call(), Ok(()));
    assert_eq!(child.charge_call(), Err(Exceeded::Calls(2)));
    assert_eq!(parent.charge_call(), Ok(()));
    assert_eq!(parent.usage().calls, 3);
}

#[test]
fn what_the_parent_refuses_is_not_counted_below() {
    let parent = Budget::calls(1);
    let child = parent.child(limits(10));
    assert_eq!(child.charge_call(), Ok(()));
    assert_eq!(child.charge_call(), Err(Exceeded::Calls(1)));
    assert_eq!((child.usage().calls, parent.usage().calls), (1, 1));
}

#[test]
fn no_two_threads_take_the_last_call() {
    let parent = Budget::calls(100);
    let taken = AtomicU64::new(0);
    std::thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                let child = parent.child(limits(50));
                let calls = (0..50).filter(|_| child.charge_call().is_ok()).count();
                taken.fetch_add(calls as u64, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(taken.into_inner(), 100);
}

#[tokio::test(start_paused = true)]
async fn tokens_cost_and_time_refuse_the_next_call() {
    let tokens = Budget::limited(BudgetLimits { tokens: Some(10), ..BudgetLimits::default() });
    let child = tokens.child(BudgetLimits::default());
    child.add_usage(10, 5);
    assert_eq!(child.charge_call(), Err(Exceeded::Tokens(10)));
    assert_eq!(tokens.usage().cost_micro_usd, 5);

    let deadline = Some(Deadline::after(Duration::from_secs(1)));
    let hasty = Budget::limited(BudgetLimits { deadline, ..BudgetLimits::default() });
    assert_eq!(hasty.charge_call(), Ok(()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hasty.charge_call(), Err(Exceeded::Time));
}
