//! Rules for the record: the subjects of commits.

use std::process::Command;

use super::Mistake;
use crate::workspace;

/// Commits up to this one were made before the rule.
const LAST_WITHOUT_RULES: &str = "d3afdc6";

/// Characters of a subject that `git log --oneline` shows whole.
const SUBJECT_MAX: usize = 72;

/// Checks the commits of the branch that is checked out. Where git or the history is not there, as
/// in a shallow clone, nothing is checked.
pub(super) fn check_subjects() -> Vec<Mistake> {
    let range = format!("{LAST_WITHOUT_RULES}..HEAD");
    let mut git = Command::new("git");
    git.current_dir(workspace::root()).args(["log", "--no-merges", "--format=%h %s", &range, "--"]);
    workspace::read_output(&mut git).map(|log| check_log(&log)).unwrap_or_default()
}

/// `log` has a commit's short id and subject on each line.
pub(super) fn check_log(log: &str) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for line in log.lines() {
        let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
        let length = subject.chars().count();

        if length > SUBJECT_MAX {
            mistakes.push(Mistake {
                path: format!("commit {id}"),
                line: 1,
                what: format!(
                    "its subject has {length} characters, and a subject at most {SUBJECT_MAX}"
                ),
                mend: "say `area: what` and move the rest into the body, before it is pushed",
            });
        }
    }
    mistakes
}
