//! Counts of tests, and the output of doctests.

use super::TestOutcome;

/// Numbers of tests that passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl TestCounts {
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { passed: self.passed + other.passed, failed: self.failed + other.failed }
    }

    /// Adds a line like `test result: ok. 3 passed; 0 failed; 0 ignored; …`; ignores any other.
    fn add_line(&mut self, line: &str) -> bool {
        let Some((_, numbers)) =
            line.strip_prefix("test result: ").and_then(|rest| rest.split_once(". "))
        else {
            return false;
        };
        for part in numbers.split("; ") {
            match part.split_once(' ') {
                Some((number, "passed")) => self.passed += number.parse().unwrap_or(0),
                Some((number, "failed")) => self.failed += number.parse().unwrap_or(0),
                _ => {}
            }
        }
        true
    }
}

impl std::fmt::Display for TestCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Adds up the summary lines in the output of `cargo test --doc`.
#[derive(Debug, Default)]
pub(super) struct DoctestReader {
    pub(super) counts: TestCounts,
    failures: Vec<String>,
}

impl DoctestReader {
    /// Reads one line. Returns true if the line is worth showing: most packages have no doctest,
    /// and say so in three lines.
    pub(super) fn add(&mut self, line: &str) -> bool {
        if line.starts_with("test ") && line.ends_with("FAILED") {
            self.failures.push(line.to_owned());
        }
        let is_summary = self.counts.add_line(line);
        !(line.is_empty() || line == "running 0 tests" || is_summary && line.contains(" 0 passed"))
            || line.contains("FAILED")
    }

    /// The counts and failures read so far.
    pub(super) fn into_outcome(self) -> TestOutcome {
        let Self { counts, failures } = self;
        TestOutcome { counts, failures, ..TestOutcome::not_run() }
    }
}
