//! The sum over test programs.

use super::{SummaryReader, TestCounts};

fn check(chunks: &[&str], expected: TestCounts) {
    let mut counter = SummaryReader::default();
    for chunk in chunks {
        counter.feed(chunk.as_bytes());
    }
    assert_eq!(counter.counts, expected);
}

#[test]
fn closing_lines_are_added_up() {
    check(
        &[
            "running 3 tests\ntest a ... ok\n",
            "test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.",
            "01s\n\ntest result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured; 4 filtered out\n",
        ],
        TestCounts { passed: 13, failed: 2 },
    );
}

#[test]
fn other_lines_count_nothing() {
    check(
        &["test result: unknown\nthe test result: ok. 3 passed; 0 failed\n3 passed; 1 failed\n"],
        TestCounts::default(),
    );
}

#[test]
fn the_sum_reads_as_a_closing_line() {
    assert_eq!(TestCounts { passed: 13, failed: 2 }.to_string(), "13 passed, 2 failed");
}
