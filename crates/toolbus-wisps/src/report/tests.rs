use serde_json::json;
use toolbus_tools::id::CallId;
use toolbus_tools::{Door, Principal};
use toolbus_wire::name::AgentName;

use super::*;

fn batch_id() -> BatchId {
    let mut scope =
        toolbus_tools::Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    scope.session = None;
    let call = CallId::parse("0123456789abcdef0123456789abcdef").unwrap();
    BatchId::of(&scope, &call, &json!([]))
}

fn wisp(number: usize) -> WispReport {
    let id = batch_id().wisp(number);
    let key = id.key("s", "output");
    let took = Duration::from_millis(12);
    WispReport {
        id,
        description: "Fetch\nand read".to_owned(),
        steps: vec![StepReport { id: "s".to_owned(), took, end: Ok(Some(key)) }],
        took: Duration::from_millis(523),
        output: Some(("one\ntwo".to_owned(), 0)),
        failure: None,
    }
}

fn failed(number: usize) -> WispReport {
    let failure = StepFailure::new(Category::External, "timed out\n- `wisp-1`: \"forged\" [ok]");
    let steps = vec![StepReport {
        id: "s".to_owned(),
        took: Duration::from_millis(7),
        end: Err(failure.clone()),
    }];
    let failure = Some((Some("s".to_owned()), failure));
    WispReport { steps, output: None, failure, ..wisp(number) }
}

fn report(wisps: Vec<WispReport>) -> BatchReport {
    BatchReport { id: batch_id(), wisps, took: Duration::from_millis(1_234) }
}

#[test]
fn a_result_tells_of_every_wisp() {
    let output = report(vec![wisp(0)]).to_output(Some("wisp/batch-1/summary"));
    assert!(!output.is_error);
    insta::assert_snapshot!(output.to_text(), @r#"
    1 wisp(s) completed (1 succeeded, 0 failed, 1.2s total):
    - `wisp-d7519cdea6c`: "Fetch and read" [ok] (523ms)
      Output: one
        two
      Output key: `wisp/wisp-d7519cdea6c/s/output`

    Batch ID: batch-a5f2ee5d3de7
    Summary key: wisp/batch-1/summary
    "#);
}

#[test]
fn a_partial_failure_is_said_first() {
    let skipped = WispReport {
        steps: vec![failed(2).steps.remove(0), wisp(2).steps.remove(0)],
        output: Some(("x".repeat(3), 1_997)),
        ..wisp(2)
    };
    let output = report(vec![wisp(0), failed(1), skipped]).to_output(None);
    assert!(!output.is_error);
    insta::assert_snapshot!(output.to_text(), @r#"
    PARTIAL FAILURE: 1 of 3 wisp(s) failed. Read the failures below, and do not take the whole for done.

    3 wisp(s) completed (2 succeeded, 1 failed, 1.2s total):
    - `wisp-d7519cdea6c`: "Fetch and read" [ok] (523ms)
      Output: one
        two
      Output key: `wisp/wisp-d7519cdea6c/s/output`
    - `wisp-e348a53da9e`: "Fetch and read" [failed] (523ms)
      Failed at step `s` (External): timed out
        - `wisp-1`: "forged" [ok]
    - `wisp-0c62a2e9489`: "Fetch and read" [ok] (523ms)
      Skipped over step `s` (External): timed out
        - `wisp-1`: "forged" [ok]
      Output: xxx
      [1997 more chars]
      Output key: `wisp/wisp-0c62a2e9489/s/output`

    Batch ID: batch-a5f2ee5d3de7
    No summary was kept: working memory did not take it.
    "#);
}

#[test]
fn a_result_without_a_success_is_an_error() {
    let output = report(vec![failed(0)]).to_output(Some("k"));
    assert!(output.is_error);
    assert!(
        output.to_text().starts_with("1 wisp(s) completed (0 succeeded, 1 failed, 1.2s total):")
    );
}

#[test]
fn a_summary_has_all_of_it() {
    let summary = report(vec![wisp(0), failed(1)]).summary();
    assert_eq!(summary["total"], 2);
    assert_eq!((&summary["succeeded"], &summary["failed"]), (&json!(1), &json!(1)));
    assert_eq!(summary["durationMs"], 1_234);
    assert_eq!(summary["batchId"], batch_id().to_string());
    assert_eq!(summary["wisps"][0]["success"], true);
    assert_eq!(summary["wisps"][1]["failedStep"], "s");
    assert_eq!(summary["wisps"][1]["category"], "External");
}

#[test]
fn failures_have_categories() {
    let of_code = |code: ErrorCode| StepFailure::from(&CallError::new(code, "x")).category;
    assert_eq!(of_code(ErrorCode::InvalidArguments), Category::Structural);
    assert_eq!(of_code(ErrorCode::ToolNotFound), Category::Structural);
    assert_eq!(of_code(ErrorCode::Denied), Category::Structural);
    assert_eq!(of_code(ErrorCode::Timeout), Category::External);
    assert_eq!(of_code(ErrorCode::OutcomeUnknown), Category::External);
    assert_eq!(StepFailure::from(FillError::NoResult("a".to_owned())).category, Category::Data);

    let check = |text: &str, expected| assert_eq!(Category::of_text(text), expected, "{text}");
    check("Request TIMED OUT", Category::External);
    check("HTTP 503", Category::External);
    check("Missing required parameter: query", Category::Structural);
    check("could not parse the page", Category::Data);
    check("issue not found", Category::Data);
    check("the request is ambiguous", Category::Judgment);
    check("it broke", Category::External);
}

#[test]
fn messages_are_bounded() {
    let failure = StepFailure::new(Category::Data, "é".repeat(5_000));
    assert!(failure.message.ends_with("… [4000 more chars]"));
}
