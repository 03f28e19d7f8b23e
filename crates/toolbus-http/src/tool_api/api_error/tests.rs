#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use serde_json::json;
use toolbus_tools::CallError;
use toolbus_wire::ErrorCode;

use super::{ApiError, ApiErrorCode, whole_seconds};

#[test]
fn every_code_has_the_status_and_the_name_of_the_table() {
    let table = [
        (400, "INVALID_REQUEST"),
        (400, "INVALID_ARGUMENTS"),
        (400, "MISSING_REQUIRED_FIELD"),
        (400, "INVALID_JSON"),
        (400, "TOOL_NOT_INSTALLED"),
        (401, "UNAUTHORIZED"),
        (401, "INVALID_TOKEN"),
        (403, "FORBIDDEN"),
        (404, "TOOL_NOT_FOUND"),
        (404, "JOB_NOT_FOUND"),
        (404, "SERVER_NOT_FOUND"),
        (404, "PACK_NOT_FOUND"),
        (429, "RATE_LIMITED"),
        (429, "QUOTA_EXCEEDED"),
        (500, "EXECUTION_ERROR"),
        (500, "INTERNAL_ERROR"),
        (503, "SERVICE_UNAVAILABLE"),
        (504, "EXECUTION_TIMEOUT"),
    ];
    let codes =
        ApiErrorCode::ALL.map(|code| (code.status().as_u16(), serde_json::to_value(code).unwrap()));
    assert_eq!(codes.to_vec(), table.map(|(status, name)| (status, json!(name))).to_vec());
}

#[test]
fn what_may_be_sent_again_says_when() {
    for code in ApiErrorCode::ALL {
        let says = ApiError::new(code, "…").body.retry_after.is_some();
        assert_eq!(says, matches!(code.status().as_u16(), 429 | 503 | 504), "{code:?}");
    }
}

#[test]
fn each_error_of_a_call_has_its_code() {
    let check = |code, expected| {
        let error = ApiError::of_call("t", &CallError::new(code, "…"));
        assert_eq!(error.body.code, expected);
    };
    check(ErrorCode::ToolNotFound, ApiErrorCode::ToolNotFound);
    check(ErrorCode::InvalidArguments, ApiErrorCode::InvalidArguments);
    check(ErrorCode::Timeout, ApiErrorCode::ExecutionTimeout);
    check(ErrorCode::ExecutionFailed, ApiErrorCode::ExecutionError);
    check(ErrorCode::ToolError, ApiErrorCode::ExecutionError);
    check(ErrorCode::Denied, ApiErrorCode::Forbidden);
    check(ErrorCode::RateLimited, ApiErrorCode::RateLimited);
    check(ErrorCode::Busy, ApiErrorCode::ServiceUnavailable);
    check(ErrorCode::Unroutable, ApiErrorCode::ServiceUnavailable);
    check(ErrorCode::OutcomeUnknown, ApiErrorCode::ExecutionError);
    check(ErrorCode::AuthRequired, ApiErrorCode::Forbidden);
}

#[test]
fn a_limit_by_the_month_is_a_quota() {
    let error = CallError::new(ErrorCode::RateLimited, "…").with_details(json!({"per": "month"}));
    let error = ApiError::of_call("t", &error.with_retry_after(Duration::from_millis(1_500)));
    assert_eq!(error.body.code, ApiErrorCode::QuotaExceeded);
    assert_eq!(error.body.retry_after, Some(2));
}

#[test]
fn who_waits_whole_seconds_has_waited_long_enough() {
    assert_eq!(whole_seconds(Duration::ZERO), 1);
    assert_eq!(whole_seconds(Duration::from_millis(1_001)), 2);
}
