use std::collections::HashSet;

use serde_json::json;

use super::*;

fn binding() -> Binding {
    Binding {
        version: VERSION,
        subject: "mcp:bank/pay".to_owned(),
        definition: Some("d1".to_owned()),
        arguments: json!({"to": "alice", "amount": 10}),
        artifacts: Vec::new(),
        chain: None,
        principal: BoundPrincipal { name: "alice".to_owned(), proof: "claimed".to_owned() },
        session: Some("session/a".to_owned()),
        rule: "payments".to_owned(),
        agent: None,
    }
}

/// Each with one member changed.
fn variants() -> Vec<Binding> {
    let claimed = |name: &str| BoundPrincipal { name: name.to_owned(), proof: "claimed".into() };
    let broker = BoundPrincipal { proof: "broker:alice".to_owned(), ..claimed("alice") };
    let with = |change: fn(&mut Binding)| {
        let mut changed = binding();
        change(&mut changed);
        changed
    };
    vec![
        binding(),
        with(|b| b.subject = "mcp:bank/pays".to_owned()),
        with(|b| b.definition = Some("d2".to_owned())),
        with(|b| b.definition = None),
        with(|b| b.arguments["amount"] = json!(11)),
        with(|b| b.arguments["more"] = json!(null)),
        with(|b| b.artifacts = vec!["a".to_owned()]),
        Binding { principal: claimed("bob"), ..binding() },
        Binding { principal: broker, ..binding() },
        with(|b| b.session = Some("session/b".to_owned())),
        with(|b| b.session = None),
        with(|b| b.rule = "all".to_owned()),
        with(|b| b.version = 2),
    ]
}

#[test]
fn whatever_changes_of_a_call_changes_its_digest() {
    let all = variants();
    let digests: HashSet<_> = all.iter().map(Binding::digest).collect();
    assert_eq!(digests.len(), all.len());
    let same = binding().with_arguments(json!({"amount": 10.0, "to": "alice"}));
    assert_eq!(same.digest(), binding().digest());
}

#[test]
fn the_kept_text_is_read_as_it_was() {
    let kept: Binding = serde_json::from_str(&binding().text()).unwrap();
    assert_eq!(kept.digest(), binding().digest());
}

#[test]
fn what_is_remembered_holds_for_the_tool_and_caller_it_was_said_of() {
    let remembered = |remember, binding: &Binding| binding.remembered_digest(remember);
    let same = |remember| {
        let own = remembered(remember, &binding());
        let all = variants();
        let same = all.iter().enumerate().skip(1);
        let same = same.filter(|(_, other)| remembered(remember, other) == own);
        same.map(|(at, _)| at).collect::<Vec<_>>()
    };
    assert_eq!(same(Remember::Session), [4, 5, 6], "any arguments, in this session");
    assert_eq!(same(Remember::Tool), [4, 5, 6, 9, 10], "any arguments, in any session");
    assert_eq!(same(Remember::Arguments), [9, 10], "these arguments, in any session");
    assert_eq!(remembered(Remember::Once, &binding()), None);
    let without_session = Binding { session: None, ..binding() };
    assert_eq!(remembered(Remember::Session, &without_session), None);
}

/// A yes to a rule that asks once per tool holds for one agent, and answers to other rules stay as
/// they were.
#[test]
fn a_yes_for_a_tool_is_remembered_for_one_agent() {
    let of = |agent: &str| Binding { agent: Some(agent.to_owned()), ..binding() };
    let digest = |binding: &Binding| binding.remembered_digest(Remember::Tool).unwrap();
    assert_ne!(digest(&of("one")), digest(&of("other")));
    assert_ne!(digest(&of("one")), digest(&binding()));
    let elsewhere = Binding { session: None, arguments: json!({}), ..of("one") };
    assert_eq!(digest(&of("one")), digest(&elsewhere));
    assert_eq!(of("one").default_remember(), Remember::Tool);
    assert_eq!(binding().default_remember(), Remember::Once);
    assert!(!binding().text().contains("agent"), "rows of before are read as they were");
}
