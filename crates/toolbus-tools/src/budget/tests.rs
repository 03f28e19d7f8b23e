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
    assert_eq!(child.charge_call(), Err(Exceeded::Calls { used: 2, cap: 2 }));
    assert_eq!(parent.charge_call(), Ok(()));
    assert_eq!(parent.usage().calls, 3);
}

#[test]
fn what_the_parent_refuses_is_not_counted_below() {
    let parent = Budget::calls(1);
    let child = parent.child(limits(10));
    assert_eq!(child.charge_call(), Ok(()));
    assert_eq!(child.charge_call(), Err(Exceeded::Calls { used: 1, cap: 1 }));
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
    let used = TurnUsage { tokens: 11, cost_micro_usd: 5, ..TurnUsage::default() };
    assert_eq!(child.add_usage(used), Err(Exceeded::Tokens { used: 11, cap: 10 }));
    assert_eq!(child.charge_call(), Err(Exceeded::Tokens { used: 11, cap: 10 }));
    assert_eq!(tokens.usage().turns, used);

    let deadline = Some(Deadline::after(Duration::from_secs(1)));
    let hasty = Budget::limited(BudgetLimits { deadline, ..BudgetLimits::default() });
    assert_eq!(hasty.charge_call(), Ok(()));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(hasty.charge_call(), Err(Exceeded::Time));
}

/// What turns use is over a limit once there is more of it, and never before; no limit, never.
#[test]
fn rv_b1_a_total_over_its_cap_is_told_with_its_name() {
    let one = TurnUsage { turns: 1, tokens: 1, cost_micro_usd: 1 };
    let check = |limits: BudgetLimits, expected: &str| {
        let budget = Budget::limited(limits);
        for _ in 0..3 {
            assert_eq!(budget.add_usage(one), Ok(()));
            assert_eq!(budget.charge_call(), Ok(()));
        }
        let exceeded = budget.add_usage(one).unwrap_err();
        assert_eq!(exceeded.to_string(), expected);
        assert_eq!(budget.charge_call(), Err(exceeded));
    };
    let none = BudgetLimits::default();
    let turns = "the budget of turns is spent: 4 used of 3";
    check(BudgetLimits { turns: Some(3), ..none }, turns);
    let tokens = "the budget of tokens is spent: 4 used of 3";
    check(BudgetLimits { tokens: Some(3), ..none }, tokens);
    let cost = "the budget of millionths of a dollar is spent: 4 used of 3";
    check(BudgetLimits { cost_micro_usd: Some(3), ..none }, cost);

    let unlimited = Budget::limited(none);
    let much = TurnUsage { turns: 1 << 40, tokens: 1 << 40, cost_micro_usd: 1 << 40 };
    assert_eq!(unlimited.add_usage(much), Ok(()));
}
