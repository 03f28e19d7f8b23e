use serde_json::json;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// RV-I9: whatever is no clear yes is a no.
#[test]
fn rv_i9_whatever_is_no_clear_yes_is_a_no() {
    let yes = |remember| Approve::Yes { remember, remember_for: HOUR };
    for (answer, expected) in [
        (json!({"action": "approve"}), yes(Remember::Once)),
        (json!({"action": "approve", "remember": "tool"}), yes(Remember::Tool)),
        (json!({"action": "approve", "remember": "for ever"}), Approve::No),
        (json!({"action": "approve", "remember": 1}), Approve::No),
        (
            json!({"action": "modify", "modifiedArguments": {"a": 1}}),
            Approve::With(json!({"a": 1})),
        ),
        (json!({"action": "modify"}), Approve::With(json!(null))),
        (json!({"action": "deny"}), Approve::No),
        (json!({"action": "skip"}), Approve::No),
        (json!({"action": true}), Approve::No),
        (json!("approve"), Approve::No),
        (json!(null), Approve::No),
    ] {
        assert_eq!(read_answer(&answer, HOUR), expected, "{answer}");
    }

    for (answer, expected) in [
        (json!({"action": "accept", "content": {"decision": "approve"}}), yes(Remember::Once)),
        (
            json!({"action": "accept", "content": {"decision": "approve", "remember": "session"}}),
            yes(Remember::Session),
        ),
        (json!({"action": "accept", "content": {"decision": "deny"}}), Approve::No),
        (json!({"action": "accept"}), Approve::No),
        (json!({"action": "decline", "content": {"decision": "approve"}}), Approve::No),
        (json!({"action": "cancel"}), Approve::No),
        (json!({}), Approve::No),
    ] {
        assert_eq!(read_form(&answer, HOUR), expected, "{answer}");
    }
}
