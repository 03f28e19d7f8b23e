//! When two messages are alike.

use serde_json::{Map, Value};

/// A reply, recorded or ours.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) routing_key: String,
    pub(crate) message_type: String,
    pub(crate) correlation_id: String,
    /// Names and values of the headers but for the trace, which is another one each time.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

/// Asserts that ours says what was recorded, but for the members named (in lower case).
#[track_caller]
pub(crate) fn assert_alike(recorded: &Reply, ours: &Reply, but_for: &[&str]) {
    assert_eq!(recorded.routing_key, ours.routing_key);
    assert_eq!(recorded.message_type, ours.message_type, "{ours:#?}");
    assert_eq!(recorded.correlation_id, ours.correlation_id);
    assert_eq!(recorded.headers, ours.headers, "of {}", recorded.correlation_id);
    let known = normal(&recorded.body, but_for);
    let ours_normal = keep(normal(&ours.body, but_for), &known);
    assert_eq!(known, ours_normal, "of {}", recorded.correlation_id);
}

/// Asserts that ours says what was recorded, and goes on in one text.
#[track_caller]
pub(crate) fn assert_alike_at_first(recorded: &Reply, ours: &Reply, member: &str) {
    assert_alike(recorded, ours, &[&*member.to_lowercase()]);
    let text = |reply: &Reply| reply.body[member].as_str().expect("a text").to_owned();
    assert!(text(ours).starts_with(&text(recorded)), "{ours:#?}");
}

/// Code and message of a `ToolError`.
pub(crate) fn text_of_error(reply: &Reply) -> (&str, &str) {
    assert_eq!(reply.message_type, "RockBot.Tools.ToolError", "{reply:#?}");
    let text = |name: &str| reply.body[name].as_str().expect("a text");
    (text("code"), text("message"))
}

/// A value without nulls, and with the names of its members in lower case.
fn normal(value: &Value, but_for: &[&str]) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .filter(|(_, value)| !value.is_null())
                .map(|(name, value)| (name.to_lowercase(), normal(value, &[])))
                .filter(|(name, _)| !but_for.contains(&name.as_str()))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(|item| normal(item, &[])).collect(),
        other => other.clone(),
    }
}

/// Ours without members that the recording does not know.
fn keep(ours: Value, known: &Value) -> Value {
    match (ours, known) {
        (Value::Object(members), Value::Object(known)) => Value::Object(
            members
                .into_iter()
                .filter_map(|(name, value)| {
                    let known = known.get(&name)?;
                    Some((name, keep(value, known)))
                })
                .collect::<Map<_, _>>(),
        ),
        (Value::Array(items), Value::Array(known)) if items.len() == known.len() => {
            items.into_iter().zip(known).map(|(item, known)| keep(item, known)).collect()
        }
        (other, _) => other,
    }
}
