//! Whose fault the end of a call is.

use super::*;

#[test]
fn rule_3c_13_mistakes_of_callers_are_not_the_tools() {
    let check = |error: Option<ErrorCode>, execution: Execution, expected: Verdict| {
        let status = error.as_ref().map_or(CallStatus::Error, CallStatus::of_error);
        let record = CallRecord {
            subject: None,
            arguments: None,
            input_bytes: None,
            output_bytes: None,
            status,
            error: error.clone(),
            refused_by: None,
            execution,
            took: Duration::from_secs(2),
        };
        let verdict = Verdict::of(&record, Duration::from_secs(2));
        assert_eq!(verdict, expected, "{error:?} {execution:?}");
        let refused = CallRecord { refused_by: Some("schema"), ..record };
        assert_eq!(Verdict::of(&refused, Duration::ZERO), Verdict::Nothing);
    };
    let (ran, not_started) = (Execution::Started, Execution::NotStarted);
    check(None, ran, Verdict::Failure);
    check(Some(ErrorCode::ExecutionFailed), ran, Verdict::Failure);
    check(Some(ErrorCode::Timeout), Execution::Unknown, Verdict::Timeout);
    check(Some(ErrorCode::Timeout), not_started, Verdict::Nothing);
    check(Some(ErrorCode::Unroutable), not_started, Verdict::Unavailable);
    check(Some(ErrorCode::OutcomeUnknown), Execution::Unknown, Verdict::Unavailable);
    for code in [
        ErrorCode::InvalidArguments,
        ErrorCode::Denied,
        ErrorCode::RateLimited,
        ErrorCode::Busy,
        ErrorCode::Cancelled,
        ErrorCode::AuthRequired,
        ErrorCode::ToolNotFound,
    ] {
        check(Some(code), not_started, Verdict::Nothing);
    }
}

#[test]
fn a_caller_that_gives_a_tool_no_time_does_not_lower_it() {
    let record = CallRecord {
        subject: None,
        arguments: None,
        input_bytes: None,
        output_bytes: None,
        status: CallStatus::Timeout,
        error: Some(ErrorCode::Timeout),
        refused_by: None,
        execution: Execution::Unknown,
        took: Duration::from_millis(5),
    };
    assert_eq!(Verdict::of(&record, Duration::from_millis(5)), Verdict::Nothing);
    assert_eq!(Verdict::of(&record, TIMEOUT_MIN), Verdict::Timeout);
}
