use toolbus_policy::SessionOwner;
use toolbus_tools::Principal;
use toolbus_tools::id::SessionId;
use toolbus_wire::name::AgentName;

use super::*;

fn event(what: SubagentChange) -> SubagentEvent {
    let owner = SessionOwner {
        agent: AgentName::standard(),
        principal: Principal::claimed("alice"),
        session: SessionId::parse("s1").expect("a session"),
    };
    let description = "Read the\n\nthree reports".to_owned();
    SubagentEvent { id: "0123456789ab".to_owned(), owner, description, what, lineage: None }
}

fn check(end: SubagentEnd, expected: &str) {
    assert_eq!(event(SubagentChange::of_end(end, 64)).text(), expected);
}

#[test]
fn events_are_read_by_models() {
    const ABOUT: &str = "[The subagent 0123456789ab ('Read the three reports')";
    let progress = SubagentChange::Progress { message: "half way".to_owned() };
    assert_eq!(event(progress).text(), format!("{ABOUT} reports: half way]"));
    let (done, nothing) = ("done".to_owned(), String::new());
    check(
        SubagentEnd::Completed { text: done.clone() },
        &format!("{ABOUT} has completed its task:]\n\ndone"),
    );
    check(
        SubagentEnd::Completed { text: nothing.clone() },
        &format!("{ABOUT} has completed its task:]\n\n(no text)"),
    );
    check(
        SubagentEnd::Cancelled { text: nothing },
        &format!("{ABOUT} has not completed its task: it was cancelled]"),
    );
    check(
        SubagentEnd::Failed { text: done, error: "no model".to_owned() },
        &format!("{ABOUT} has not completed its task: no model. As far as it came:]\n\ndone"),
    );
}

#[test]
fn what_is_kept_is_bounded_and_has_no_zeros() {
    let long = SubagentEnd::Completed { text: "ä".repeat(100) };
    let SubagentChange::Ended { text, is_success: true, error: None } =
        SubagentChange::of_end(long, 64)
    else {
        panic!("it is a success");
    };
    assert!(text.len() <= 64 && text.ends_with("[cut off: it is longer]"), "{text}");
    assert_eq!(cut("a\0b".to_owned(), 64), "a\u{fffd}b");
    assert_eq!(cut("a".repeat(64), 64), "a".repeat(64));
}

#[test]
fn an_end_is_kept_as_it_is() {
    let end = SubagentEnd::Failed { text: "so far".to_owned(), error: "no".to_owned() };
    let change = SubagentChange::of_end(end, 1_000);
    let kept = serde_json::to_string(&change).expect("it is written");
    assert_eq!(serde_json::from_str::<SubagentChange>(&kept).expect("it is read"), change);
}
