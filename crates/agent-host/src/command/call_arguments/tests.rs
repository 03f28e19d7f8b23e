//! Arguments on the command line.

use super::*;

async fn read(given: &[&str]) -> Result<CallArguments, String> {
    let given: Vec<_> = given.iter().map(ToString::to_string).collect();
    CallArguments::read(&given).await
}

async fn to_json(given: &[&str], schema: Option<&Value>) -> String {
    read(given).await.expect("arguments").to_json(schema)
}

#[tokio::test]
async fn json_stays_as_it_was_written() {
    let text = r#"{"big": 123456789012345678901234567890, "small": 1e400}"#;
    assert_eq!(to_json(&[text], None).await, text);
    assert_eq!(to_json(&[], None).await, "{}");
    assert_eq!(to_json(&["[1]"], None).await, "[1]");
}

#[tokio::test]
async fn pairs_become_an_object() {
    let schema = json!({"properties": {
        "code": {"type": "string"},
        "count": {"type": "integer"},
        "mode": {"enum": ["1", "2"]},
    }});
    let pairs = ["code=1", "count=1", "mode=2", "more={\"a\": [1.50]}", "word=a=b", "empty="];
    assert_eq!(
        to_json(&pairs, Some(&schema)).await,
        r#"{"code":"1","count":1,"mode":"2","more":{"a": [1.50]},"word":"a=b","empty":""}"#
    );
    // Without a schema, what is JSON is taken as such.
    assert_eq!(to_json(&["code=1"], None).await, r#"{"code":1}"#);
}

#[tokio::test]
async fn what_is_neither_is_refused() {
    let error = read(&["{a: 1}"]).await.expect_err("no JSON");
    assert!(error.starts_with("the arguments are not JSON"), "{error}");
    let error = read(&["word"]).await.expect_err("no JSON");
    assert!(error.starts_with("the arguments are not JSON"), "{error}");

    for wrong in [&["a=1", "word"][..], &["a=1", "{}"], &["=1"]] {
        let error = read(wrong).await.expect_err("no pairs");
        assert!(error.contains("neither NAME=VALUE nor"), "{error}");
    }
}

#[tokio::test]
async fn single_arguments_can_be_looked_at() {
    for given in [&[r#"{"server_name": "a", "n": 1}"#][..], &["server_name=a", "n=1"]] {
        let given = read(given).await.expect("arguments");
        assert_eq!(given.text_of("server_name").as_deref(), Some("a"));
        assert_eq!(given.names(), ["server_name", "n"]);
    }
}
