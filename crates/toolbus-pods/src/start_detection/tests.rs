//! Logs of pods, whole and not.

use super::*;

fn ended(reason: &str, exit_code: Option<i32>) -> ContainerEnd {
    ContainerEnd { reason: reason.to_owned(), message: String::new(), exit_code }
}

#[test]
fn only_a_whole_log_of_a_container_that_was_seen_to_end_proves_that_nothing_began() {
    let check = |text: &str, reason: &str, never: bool| {
        let begun =
            conclude_start(classify_log("n0", text.as_bytes()), Some(&ended(reason, Some(137))));
        assert_eq!(
            matches!(begun, Ok(StartState::NeverStarted(_))),
            never,
            "{text:?} {reason}: {begun:?}"
        );
        assert!(never || matches!(begun, Err(Error::OutcomeUnknown(_))), "{begun:?}");
    };
    check("n0 0 ready \n", "Error", true);
    check("n0 0 ready \nn0 1 ready \nn0 2 taken \n", "OOMKilled", true);
    // Its beginning is missing, a line is, the last is cut off, or there is none at all.
    check("n0 4 ready \n", "Error", false);
    check("n0 0 ready \nn0 2 ready \n", "Error", false);
    check("n0 0 ready \nn0 1 star", "Error", false);
    check("", "Error", false);
    check("a script that is the first process\n", "Completed", false);
    // More than was read.
    let long: String = (0..4000).map(|line| format!("n0 {line} ready of a long line\n")).collect();
    check(&long, "Error", false);
    // The node has lost sight of the container.
    for reason in ["Unknown", "ContainerStatusUnknown", "Evicted", ""] {
        check("n0 0 ready \n", reason, false);
    }
}

#[test]
fn what_runs_has_begun_and_what_lives_may() {
    let started = classify_log("n0", b"n0 0 ready \nn0 1 started \nn0 9 out\n");
    assert_eq!(conclude_start(started, Some(&ended("Error", Some(1)))), Ok(StartState::Started));
    assert_eq!(conclude_start(started, None), Ok(StartState::Started));
    for text in ["", "n0 0 ready \n", "n0 4 ready \n"] {
        assert_eq!(
            conclude_start(classify_log("n0", text.as_bytes()), None),
            Ok(StartState::NotYet)
        );
    }
    // Nobody looked into the container: its pod failed as a whole.
    let begun = conclude_start(classify_log("n0", b"n0 0 ready \n"), Some(&ended("Error", None)));
    assert!(matches!(begun, Err(Error::OutcomeUnknown(_))), "{begun:?}");
}
