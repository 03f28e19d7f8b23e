//! The sum over test programs.

use super::{LAST_LINES, SummaryReader, TestCounts, pass_lines_on};

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

#[test]
fn what_failed_is_told_once_more() {
    let mut counter = SummaryReader::default();
    counter.feed(b"test a ... ok\ntest b ... FAILED\ntest result: FAILED. 1 passed; 1 failed\n");
    assert_eq!(counter.failures, ["test b ... FAILED"]);

    let mut said = vec!["of another program"; LAST_LINES];
    said.extend([
        "it has no engine",
        "error: test failed, to rerun pass `--test ship`",
        "the next",
    ]);
    let failures = pass_lines_on(said.join("\n").as_bytes(), std::io::sink());
    assert_eq!(failures.len(), LAST_LINES);
    assert!(failures.ends_with(&[said[LAST_LINES].to_owned(), said[LAST_LINES + 1].to_owned()]));
}
