//! What is read of answers.

use proptest::prelude::*;
use toolbus_wire::message::a2a::ROLE_AGENT;

use super::*;

fn part(kind: &str, text: Option<&str>, data: Option<&str>) -> AgentMessagePart {
    AgentMessagePart {
        kind: kind.to_owned(),
        text: text.map(str::to_owned),
        data: data.map(str::to_owned),
        mime_type: None,
    }
}

fn result(state: AgentTaskState, parts: Vec<AgentMessagePart>) -> TaskChange {
    let message = AgentMessage { role: ROLE_AGENT.to_owned(), parts, metadata: None };
    TaskChange::of_result(&AgentTaskResult {
        task_id: "t".to_owned(),
        context_id: None,
        state,
        artifacts: None,
        message: Some(message),
    })
}

#[test]
fn parts_are_lines_and_what_has_no_text_is_its_data() {
    for (parts, expected) in [
        (vec![], ""),
        (vec![part("text", Some("a"), None)], "a"),
        (vec![part("text", Some("a"), None), part("data", None, Some("{}"))], "a\n{}"),
        (vec![part("file", None, None), part("newer", Some("b"), Some("c"))], "b"),
    ] {
        let expected = TaskChange::Answered { state: 3, text: expected.to_owned() };
        assert_eq!(result(AgentTaskState::Completed, parts), expected);
    }
}

#[test]
fn what_is_kept_is_read_back() {
    for change in [
        TaskChange::Progress { state: 1, text: "a".to_owned() },
        TaskChange::NotCancelled { code: "c".to_owned(), message: "m".to_owned() },
        result(AgentTaskState::Other(-7), vec![]),
        TaskChange::Failed { code: "c".to_owned(), message: "m".to_owned(), is_retryable: true },
        TaskChange::TimedOut { seconds: 7 },
    ] {
        let kept = serde_json::to_string(&change).unwrap();
        assert_eq!(serde_json::from_str::<TaskChange>(&kept).unwrap(), change);
        let is_end = !kept.contains("progress") && !kept.contains("not_cancelled");
        assert_eq!(change.is_end(), is_end, "{kept}");
    }
}

proptest! {
    #[test]
    fn a_text_is_cut_within_its_bytes(text in "[aä€\\x00]{0,200}", bytes_max in 40_usize..200) {
        let text_bytes = text.len();
        let kept = cut(text.clone(), bytes_max);
        prop_assert!(kept.len() <= bytes_max + 2 * text.matches('\0').count());
        prop_assert!(!kept.contains('\0'));
        if text_bytes <= bytes_max {
            prop_assert_eq!(kept, text.replace('\0', "\u{fffd}"));
        }
    }
}
