//! The texts of the contract.

use toolbus_scripts::runner::KernelObject;

use super::*;

fn captured(text: &str) -> Captured {
    Captured { text: text.to_owned(), truncated: false }
}

fn outcome(stdout: &str, stderr: &str, ending: Ending) -> CommandOutcome {
    let (stdout, stderr) = (captured(stdout), captured(stderr));
    CommandOutcome { stdout, stderr, ending, unread: Vec::new() }
}

#[track_caller]
fn check(outcome: CommandOutcome, text: &str, is_error: bool) {
    let output = outcome.into_output(Duration::from_secs(30)).unwrap();
    assert_eq!((output.content.as_deref(), output.is_error), (Some(text), is_error));
}

/// MX-B1.
#[test]
fn b1_stdout_comes_before_stderr_and_a_code_behind_both() {
    check(outcome("out\n", "err\n\n", Ending::Exited(0)), "out\nerr", false);
    check(outcome("out\n", "err\n", Ending::Exited(3)), "out\nerr\n\n[exit code 3]", false);
    check(outcome("", "", Ending::Exited(1)), "\n[exit code 1]", false);
    check(outcome("", "", Ending::Killed { signal: 11 }), "\n[exit code 139]", false);
}

/// MX-B2.
#[test]
fn b2_what_was_printed_in_time_is_kept() {
    check(outcome("half", "", Ending::TimedOut), "half\n[timed out after 30s]", true);
    let short = outcome("", "", Ending::TimedOut).into_output(Duration::from_millis(1500));
    assert_eq!(short.unwrap().content.as_deref(), Some("\n[timed out after 1.5s]"));
}

/// MX-B4.
#[test]
fn b4_streams_that_do_not_end_are_named() {
    let held =
        CommandOutcome { unread: vec!["stdout"], ..outcome("some", "err", Ending::TimedOut) };
    check(held, "some[stdout read timed out]err\n[timed out after 30s]", true);
}

#[test]
fn other_endings_are_told() {
    check(outcome("a", "", Ending::OutOfMemory), "a\n[out of memory]", true);
    let files = Ending::TooMany(KernelObject::Files);
    check(outcome("a", "", files), "a\n[too many files]", true);
    assert!(outcome("a", "", Ending::Cancelled).into_output(Duration::ZERO).is_err());

    let mut flood = outcome("a", "", Ending::Exited(0));
    flood.stdout.truncated = true;
    check(flood, "a\n[output truncated]", false);
}
