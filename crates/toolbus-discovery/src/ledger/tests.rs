//! How counts of several processes become one total.

use super::{Ledger, Totals};

#[derive(Debug, Clone, Default, PartialEq)]
struct Count(u64);

impl Totals for Count {
    fn add(&mut self, other: &Self) {
        self.0 += other.0;
    }

    fn is_empty(&self) -> bool {
        self.0 == 0
    }

    fn rank(&self) -> (u64, i64) {
        (self.0, 0)
    }
}

fn ledger(entries_max: usize) -> Ledger<u32, Count> {
    Ledger::new(entries_max)
}

#[test]
fn what_is_written_and_what_is_not_are_one_total() {
    let mut ledger = ledger(10);
    ledger.count(1, |count| count.0 += 2);
    assert_eq!(ledger.take_unsaved(10), [(1, Count(2))]);
    ledger.count(1, |count| count.0 += 1);
    assert_eq!(ledger.total(&1), Some(Count(3)));

    // Another process has counted 5 meanwhile.
    ledger.saved(&1, Count(7));
    assert_eq!(ledger.total(&1), Some(Count(8)));
    ledger.read(1, Count(9));
    assert_eq!(ledger.total(&1), Some(Count(10)));
    assert_eq!(ledger.take_unsaved(10), [(1, Count(1))]);
    ledger.saved(&1, Count(10));
    assert_eq!(ledger.total(&1), Some(Count(10)));
}

#[test]
fn what_was_not_written_is_written_again_and_what_may_be_there_is_not() {
    let mut ledger = ledger(10);
    ledger.count(1, |count| count.0 += 2);
    let _ = ledger.take_unsaved(10);
    ledger.count(1, |count| count.0 += 1);
    ledger.not_saved(1);
    assert_eq!(ledger.take_unsaved(10), [(1, Count(3))]);
    ledger.unknown_whether_saved(&1);
    assert!(!ledger.has_unsaved());
    assert_eq!(ledger.total(&1), Some(Count(0)));
}

#[test]
fn the_least_used_fall_out() {
    let mut ledger = ledger(8);
    for key in 0..100 {
        ledger.count(key, |count| count.0 += u64::from(key));
    }
    assert!(ledger.len() <= 9, "{}", ledger.len());
    assert_eq!(ledger.total(&99), Some(Count(99)));
    assert_eq!(ledger.total(&0), None);
    // No more is written than there is.
    assert!(ledger.take_unsaved(1_000).len() <= 9);
}
