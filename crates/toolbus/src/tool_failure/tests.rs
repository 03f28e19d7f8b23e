use std::time::Duration;

use toolbus_wire::{ErrorCode, Execution};

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("the shelf cannot be read")]
struct Unreadable(#[source] BoxedError);

/// The error that a function fails with which uses `?` on this one.
fn failure<E: StdError + Send + Sync + 'static>(error: E) -> CallError {
    let function = || -> Result<(), ToolFailure> { Err(error)? };
    CallError::from(function().unwrap_err())
}

#[test]
fn an_error_tells_of_its_causes_and_that_the_tool_was_started() {
    let error = failure(Unreadable("no such shelf".into()));
    assert_eq!(error.message, "the shelf cannot be read: no such shelf");
    assert_eq!((error.code, error.execution), (ErrorCode::ExecutionFailed, Execution::Started));
    assert!(!error.is_retryable);
    // Many errors repeat their cause in their own words.
    let error = failure(Unreadable("the shelf cannot be read".into()));
    assert_eq!(error.message, "the shelf cannot be read");
}

#[test]
fn an_error_of_a_call_stays_what_it_is() {
    let busy =
        CallError::new(ErrorCode::Busy, "come back").with_retry_after(Duration::from_secs(9));
    assert_eq!(failure(busy.clone()), busy);
}

#[test]
fn a_boxed_error_tells_of_its_causes_too() {
    let boxed = || -> BoxedError { Box::new(Unreadable("no such shelf".into())) };
    let error = CallError::from(ToolFailure::from_boxed(boxed()));
    assert_eq!(error.message, "the shelf cannot be read: no such shelf");
    assert_eq!((error.code, error.execution), (ErrorCode::ExecutionFailed, Execution::Started));

    let function = || -> Result<(), ToolFailure> {
        let result: anyhow::Result<()> = Err(anyhow::anyhow!(boxed()).context("no book"));
        result.map_err(ToolFailure::from_boxed)
    };
    let error = CallError::from(function().unwrap_err());
    assert_eq!(error.message, "no book: the shelf cannot be read: no such shelf");

    let busy = CallError::new(ErrorCode::Busy, "come back");
    let boxed: BoxedError = Box::new(busy.clone());
    assert_eq!(CallError::from(ToolFailure::from_boxed(boxed)), busy);
}

#[test]
fn what_is_no_error_has_a_text_too() {
    let parsed: Result<u8, _> = "x".parse().map_err(|_| ToolFailure::new("not a number"));
    assert_eq!(CallError::from(parsed.unwrap_err()).message, "not a number");
}

#[test]
fn the_text_is_bounded() {
    let check = |error: CallError| {
        let length = error.message.len();
        assert!((FAILURE_BYTES_MAX..FAILURE_BYTES_MAX + 4).contains(&length), "{length}");
        assert!(error.message.ends_with('…'));
    };
    // Of two bytes each, so that the bound is within none of them.
    check(failure(Unreadable("ä".repeat(FAILURE_BYTES_MAX).into())));
    check(CallError::from(ToolFailure::new("x".repeat(FAILURE_BYTES_MAX + 1))));
}
