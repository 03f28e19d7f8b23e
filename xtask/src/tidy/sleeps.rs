//! The rule for waits of tests: they wait for conditions or under a paused clock. A sleep in real
//! time says why nothing else would do, in a comment that begins with [`REASON`].

use super::Mistake;
use super::source::Source;

/// What the comment right above a sleep, or behind it, begins with.
const REASON: &str = "// sleeps: ";

/// What a file has that pauses the clock of its tests.
const PAUSES: [&str; 2] = ["start_paused", "time::pause"];

/// Folders of test code whose clock is paused by another file.
const PAUSED_ELSEWHERE: [&str; 2] = [
    // By world.rs, for the whole exploration.
    "crates/toolbus-bus/tests/exploration/",
    // By every file of tests beside it, which use this responder.
    "crates/toolbus-bus/src/responder/",
];

/// All sleeps of a file that say no reason.
pub(super) fn check_file(path: &str, text: &str) -> Vec<Mistake> {
    let is_paused = PAUSES.iter().any(|pause| text.contains(pause))
        || PAUSED_ELSEWHERE.iter().any(|folder| path.starts_with(folder));
    if !is_test_code(path) || is_paused {
        return Vec::new();
    }

    let lines: Vec<_> = text.lines().map(str::trim).collect();
    let sleeps = (0..lines.len()).filter(|at| is_sleep(lines[*at]) && !has_reason(&lines, *at));
    sleeps
        .map(|at| Mistake {
            path: path.to_owned(),
            line: at + 1,
            what: "a test sleeps in real time".to_owned(),
            mend: "wait for a condition (toolbus_testkit::eventually), pause the clock, watch with \
                   toolbus_testkit::quiet_for, or say why not in a comment `// sleeps: …`",
        })
        .collect()
}

/// Whether a file is code of tests, conformance suites included.
fn is_test_code(path: &str) -> bool {
    path.starts_with("crates/")
        && path.ends_with(".rs")
        && !path.contains("/benches/")
        && (Source::is_test_path(path)
            || path.contains("/tests/")
            || path.contains("/src/conformance"))
}

/// Whether a line of code calls a function of this name. Methods and scripts in other languages
/// have a dot before it.
fn is_sleep(line: &str) -> bool {
    if line.starts_with("//") {
        return false;
    }
    ["sleep(", "sleep_until("].iter().any(|call| {
        line.match_indices(call).any(|(at, _)| {
            let before = &line[..at];
            let is_word =
                before.ends_with(|last: char| last.is_alphanumeric() || "_.'\"".contains(last));
            !is_word && !before.ends_with("fn ")
        })
    })
}

fn has_reason(lines: &[&str], at: usize) -> bool {
    let above = lines[..at].iter().rev().take_while(|line| line.starts_with("//"));
    lines[at].contains(REASON) || above.into_iter().any(|line| line.starts_with(REASON))
}
