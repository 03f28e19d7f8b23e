use serde_json::json;
use toolbus_tools::id::{RunId, SessionId};
use toolbus_tools::{Door, Principal};
use toolbus_wire::name::AgentName;

use super::*;

fn scope() -> Scope {
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    scope.with_session(Some(SessionId::parse("session/s1").unwrap()))
}

fn batch(scope: &Scope, call: &str) -> BatchId {
    BatchId::of(scope, &CallId::parse(call).unwrap(), &json!([{"description": "d"}]))
}

#[test]
fn ids_have_their_forms() {
    let batch = batch(&scope(), "call_1");
    let wisp = batch.wisp(0);
    let is_hex = |text: &str| text.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'));
    let (batch_text, wisp_text) = (batch.to_string(), wisp.to_string());
    let digits = batch_text.strip_prefix("batch-").unwrap();
    assert!(digits.len() == 12 && is_hex(digits), "{batch_text}");
    let digits = wisp_text.strip_prefix("wisp-").unwrap();
    assert!(digits.len() == 11 && is_hex(digits), "{wisp_text}");

    assert_eq!(batch.key("summary"), format!("wisp/{batch}/summary"));
    assert_eq!(wisp.key("fetch", "output"), format!("wisp/{wisp}/fetch/output"));
    assert_eq!(wisp.call("fetch").unwrap().as_str(), format!("{wisp}-fetch"));
    assert_ne!(batch.wisp(0), batch.wisp(1));
}

#[test]
fn the_same_call_has_the_same_ids_and_another_has_others() {
    let scope = scope();
    let one = batch(&scope, "call_1");
    assert_eq!(one, batch(&scope, "call_1"));
    assert_ne!(one, batch(&scope, "call_2"));
    assert_ne!(one, BatchId::of(&scope, &CallId::parse("call_1").unwrap(), &json!([])));

    let other_run = Scope { run: RunId::random(), ..scope.clone() };
    assert_ne!(one, batch(&other_run, "call_1"), "models number their calls alike");
    let unique = "0123456789abcdef0123456789abcdef";
    assert_eq!(batch(&scope, unique), batch(&other_run, unique), "nobody else has this");
    let grouped = "01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(batch(&scope, grouped), batch(&other_run, grouped));

    let other = Scope { principal: Principal::claimed("mallory"), ..scope.clone() };
    assert_ne!(batch(&scope, unique), batch(&other, unique));
    let other = scope.clone().with_session(None);
    assert_ne!(batch(&scope, unique), batch(&other, unique));
}
