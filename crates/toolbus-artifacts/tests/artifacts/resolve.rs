//! References among arguments: RV-I11, and the rules of 1c about them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_artifacts::NewArtifact;
use toolbus_testkit::memory::peak_bytes;
use toolbus_tools::call::Output;
use toolbus_tools::{ArtifactReach, ArtifactRef, ArtifactSet, Scope};

use crate::support::{Bench, call, config, scope};

async fn store(bench: &Bench, session: &str, media_type: &str, bytes: &[u8]) -> ArtifactRef {
    let new = NewArtifact::of(&scope(session), media_type, "tool", "call");
    bench.artifacts.store(new, bytes.to_vec()).await.unwrap().reference
}

/// What the tool gets for these arguments, or the message of the refusal.
async fn take(bench: &Bench, scope: &Arc<Scope>, arguments: Value) -> Result<Value, String> {
    let (invoker, taken) = bench.invoker(Output::default());
    match call(&invoker, scope, "take", arguments).await {
        Ok(_) => Ok(taken.lock().pop().unwrap()),
        Err(error) => {
            assert_eq!(taken.lock().len(), 0, "it was not run");
            Err(error.message)
        }
    }
}

#[tokio::test]
async fn rv_i11_a_reference_is_what_it_stands_for() {
    let bench = Bench::sqlite(config());
    let text = store(&bench, "session/a", "text/plain", "ä text".as_bytes()).await;
    let value = store(&bench, "session/a", "application/json", br#"[1, {"b": 2}]"#).await;
    let bytes = store(&bench, "session/a", "image/png", &[0, 255]).await;
    let scope = scope("session/a");
    let check = async |arguments: Value, expected: Value| {
        assert_eq!(take(&bench, &scope, arguments).await.unwrap(), expected);
    };

    check(json!({"text": text.to_value()}), json!({"text": "ä text"})).await;
    check(json!({"list": value.to_value()}), json!({"list": [1, {"b": 2}]})).await;
    check(json!({"any": bytes.to_value()}), json!({"any": "AP8="})).await;
    check(json!({"choice": text.to_value()}), json!({"choice": "ä text"})).await;
    // JSON where the tool takes a text is its text.
    check(json!({"text": value.to_value()}), json!({"text": r#"[1, {"b": 2}]"#})).await;
    // 1c.8: anywhere, and only where it is the sole member.
    let deep = json!({"any": [{"x": {"y": text.to_value()}}, {"$artifact": "art_1", "z": 1}]});
    let expected = json!({"any": [{"x": {"y": "ä text"}}, {"$artifact": "art_1", "z": 1}]});
    check(deep, expected).await;
}

/// What calls itself a text or JSON, and is neither, is bytes.
#[tokio::test]
async fn a_type_that_lies_changes_no_byte() {
    let bench = Bench::sqlite(config());
    let scope = scope("session/a");
    for (media_type, bytes, expected) in [
        ("text/plain", &[0xff, 0xfe][..], json!("//4=")),
        ("application/json", &[0xff][..], json!("/w==")),
        ("application/json", b"{\"a\": ", json!("{\"a\": ")),
        ("image/png", b"<script>", json!("PHNjcmlwdD4=")),
    ] {
        let reference = store(&bench, "session/a", media_type, bytes).await;
        let taken = take(&bench, &scope, json!({"any": reference.to_value()})).await.unwrap();
        assert_eq!(taken, json!({"any": expected}), "{media_type}");
    }
}

#[tokio::test]
async fn what_a_reference_stands_for_has_to_fit_the_schema() {
    let bench = Bench::sqlite(config());
    let text = store(&bench, "session/a", "text/plain", b"no list").await;
    let scope = scope("session/a");
    let refused = take(&bench, &scope, json!({"list": text.to_value()})).await.unwrap_err();
    assert!(refused.contains("/list"), "{refused}");
    // What is wrong elsewhere is said before anything is read.
    let refused =
        take(&bench, &scope, json!({"text": text.to_value(), "no": 1})).await.unwrap_err();
    assert!(refused.contains("no"), "{refused}");
}

/// 1c.9: one's own only; what is not resolved goes as it is, to a tool that takes it so.
#[tokio::test]
async fn rule_1c_9_a_foreign_reference_stands_for_nothing() {
    let bench = Bench::sqlite(config());
    let foreign = store(&bench, "session/b", "text/plain", b"secret").await;
    let own = store(&bench, "session/a", "text/plain", b"own").await;
    let in_session = scope("session/a");
    for reference in [foreign.to_value(), json!({"$artifact": "../../etc"})] {
        let arguments = json!({"any": reference});
        assert_eq!(take(&bench, &in_session, arguments.clone()).await.unwrap(), arguments);
        let refused = take(&bench, &in_session, json!({"text": reference})).await.unwrap_err();
        assert!(refused.contains("there is no artifact"), "{refused}");
    }

    // A chain refers to what it was given and to what it has made.
    let set = ArtifactSet::default();
    let chain = Scope { artifacts: ArtifactReach::Only(set.clone()), ..(*in_session).clone() };
    let chain = Arc::new(chain);
    let arguments = json!({"any": own.to_value()});
    assert_eq!(take(&bench, &chain, arguments.clone()).await.unwrap(), arguments);
    set.insert(own);
    assert_eq!(take(&bench, &chain, arguments).await.unwrap(), json!({"any": "own"}));
}

#[tokio::test]
async fn what_is_resolved_is_bounded() {
    let bench = Bench::sqlite(config());
    let large = store(&bench, "session/a", "text/plain", &vec![b'x'; 5 << 20]).await;
    let scope = scope("session/a");
    let one = json!({"any": [large.to_value()]});
    assert!(take(&bench, &scope, one).await.is_ok());
    let two = json!({"any": [large.to_value(), large.to_value()]});
    assert!(take(&bench, &scope, two).await.unwrap_err().contains("8388608"));
    let many = json!({"any": vec![json!({"$artifact": "a"}); 1001]});
    assert!(take(&bench, &scope, many).await.unwrap_err().contains("more than 1000"));
    // A reference in an artifact is data.
    let nested = store(&bench, "session/a", "application/json", br#"{"$artifact": "art_0"}"#).await;
    let given = take(&bench, &scope, json!({"any": nested.to_value()})).await.unwrap();
    assert_eq!(given, json!({"any": {"$artifact": "art_0"}}));
}

/// As pointers, these references would have megabytes each.
#[tokio::test]
async fn where_references_are_takes_no_memory() {
    let bench = Bench::sqlite(config());
    let own = store(&bench, "session/a", "text/plain", b"own").await;
    let nested = |value: Value| json!({"any": {"n".repeat(4 << 20): vec![value; 100]}});
    let expected = nested(json!("own"));
    let before = peak_bytes();
    let taken = take(&bench, &scope("session/a"), nested(own.to_value())).await.unwrap();
    let grown = peak_bytes() - before;
    assert_eq!(taken, expected);
    assert!(grown < 200 << 20, "{grown} bytes more");
}

#[tokio::test]
async fn the_values_of_all_artifacts_are_bounded_together() {
    let bench = Bench::sqlite(config());
    let text = json!(vec![0; 100_000]).to_string();
    let list = store(&bench, "session/a", "application/json", text.as_bytes()).await;
    let arguments = json!({"any": vec![list.to_value(); 3]});
    let taken = take(&bench, &scope("session/a"), arguments).await.unwrap();
    let any = taken["any"].as_array().unwrap();
    let of_values: Vec<bool> = any.iter().map(Value::is_array).collect();
    assert_eq!(of_values, [true, true, false]);
    assert_eq!(any[2], json!(text));
}
