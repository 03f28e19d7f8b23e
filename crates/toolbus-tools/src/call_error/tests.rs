use super::*;

fn check(error: &CallError, execution: Execution, retryable: bool) {
    assert_eq!((error.execution, error.is_retryable), (execution, retryable), "{error:?}");
}

#[test]
fn a_call_that_may_have_been_started_is_not_to_be_made_again() {
    let timeout = CallError::timeout("t", Duration::from_secs(1));
    check(&timeout, Execution::Unknown, false);
    check(&timeout.clone().with_execution(Execution::Started), Execution::Started, false);
    check(&timeout.clone().with_execution(Execution::NotStarted), Execution::NotStarted, true);
    check(&timeout.of_repeatable(), Execution::Unknown, true);

    check(&CallError::new(ErrorCode::Busy, ""), Execution::NotStarted, true);
    let busy_after_start = CallError::new(ErrorCode::Busy, "").with_execution(Execution::Started);
    check(&busy_after_start, Execution::Started, false);
    check(&CallError::not_registered("t"), Execution::NotStarted, false);
    check(&CallError::execution_failed("").of_repeatable(), Execution::Started, false);
}

#[test]
fn an_error_has_the_members_of_the_wire_that_are_known() {
    let error = CallError::new(ErrorCode::RateLimited, "slower");
    let expected = json!({
        "code": "rate_limited",
        "message": "slower",
        "isRetryable": true,
        "execution": "not_started",
    });
    assert_eq!(error.to_json(), expected);

    let more = error.with_retry_after(Duration::from_secs(5)).with_details(json!({"a": 1}));
    assert_eq!(
        (&more.to_json()["retryAfterMs"], &more.to_json()["details"]["a"]),
        (&json!(5_000), &json!(1))
    );
}
