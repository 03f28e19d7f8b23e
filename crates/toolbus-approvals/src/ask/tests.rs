use serde_json::json;

use super::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A call that a rule asks about each time, or once per tool.
fn asked(agent: Option<&str>) -> Binding {
    let binding = json!({
        "version": 1, "subject": "mcp:bank/pay", "definition": "d", "arguments": {},
        "artifacts": [], "principal": {"name": "alice", "proof": "claimed"}, "session": null,
        "rule": "payments",
    });
    let mut binding: Binding = serde_json::from_value(binding).unwrap();
    binding.agent = agent.map(str::to_owned);
    binding
}

/// A plain yes to a rule that asks once per tool covers the tool, for the long default time.
#[test]
fn a_yes_to_a_rule_that_asks_once_per_tool_covers_the_tool() {
    let asked = asked(Some("RockBot"));
    let covers = |answer: Value, expected: Remember, is_long: bool| {
        let Approve::Yes { remember, remember_for } = read_answer(&answer, &asked, HOUR) else {
            panic!("{answer}");
        };
        assert_eq!((remember, remember_for > HOUR), (expected, is_long), "{answer}");
    };
    covers(json!({"action": "approve"}), Remember::Tool, true);
    covers(json!({"action": "approve", "remember": "tool"}), Remember::Tool, true);
    covers(json!({"action": "approve", "remember": "once"}), Remember::Once, false);
    covers(json!({"action": "approve", "remember": "session"}), Remember::Session, false);
    assert_eq!(read_answer(&json!({"action": "deny"}), &asked, HOUR), Approve::No);

    let timed = Approve::yes(&asked, None, Some(HOUR), Duration::ZERO);
    assert_eq!(timed, Approve::Yes { remember: Remember::Tool, remember_for: HOUR });
}

/// RV-I9: whatever is no clear yes is a no.
#[test]
fn rv_i9_whatever_is_no_clear_yes_is_a_no() {
    let yes = |remember| Approve::Yes { remember, remember_for: HOUR };
    let asked = asked(None);
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
        assert_eq!(read_answer(&answer, &asked, HOUR), expected, "{answer}");
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
        assert_eq!(read_form(&answer, &asked, HOUR), expected, "{answer}");
    }
}

/// A form can say yes to a loop of a chain, and what is not clear is a no.
#[test]
fn a_form_approves_calls_of_a_chain_to_come() {
    let check = |content: Value, expected: Approve| {
        let answer = json!({"action": "accept", "content": content});
        assert_eq!(read_form(&answer, &asked(None), HOUR), expected, "{answer}");
    };
    let more = |calls, arguments| Approve::ForChain(ForChain { calls, arguments });
    let once = Approve::Yes { remember: Remember::Once, remember_for: HOUR };

    check(json!({"decision": "approve", "more_calls": 0, "matching": ""}), once);
    check(json!({"decision": "approve", "more_calls": 5}), more(5, Value::Null));
    let matching = json!({
        "decision": "approve", "remember": "once", "more_calls": 5, "matching": "{\"a\": \"x*\"}",
    });
    check(matching, more(5, json!({"a": "x*"})));

    for unclear in [
        json!({"decision": "deny", "more_calls": 5}),
        json!({"decision": "approve", "more_calls": -1}),
        json!({"decision": "approve", "more_calls": "5"}),
        json!({"decision": "approve", "more_calls": 1.5}),
        json!({"decision": "approve", "more_calls": 5, "matching": "{"}),
        json!({"decision": "approve", "more_calls": 5, "matching": 1}),
        json!({"decision": "approve", "more_calls": 5, "remember": "tool"}),
    ] {
        check(unclear, Approve::No);
    }
}
