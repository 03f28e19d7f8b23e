//! Calls that take longer than their server is granted, and report progress meanwhile.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::Deadline;
use toolbus_mcp::CallError;
use toolbus_mcp::server_pool::ServerPool;

use crate::support::*;

/// How long the server is granted.
const GRANTED: Duration = Duration::from_secs(3);

async fn patient(with_progress_max: Duration) -> ServerPool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/patient.py");
    let timeout = GRANTED.as_millis();
    let entry = json!({"command": "python3", "args": ["-I", script], "timeoutMs": timeout});
    let mut options = options();
    options.call_timeout_with_progress_max = with_progress_max;
    start_with(json!({"p": entry}), options).await
}

/// What comes of a call whose caller lets progress extend it by this much.
async fn work(
    set: &ServerPool,
    arguments: Value,
    extension: Duration,
) -> Result<String, CallError> {
    let (sink, _heard) = progress();
    let deadline = Deadline::after(2 * GRANTED).extended_by_progress(extension);
    let call = call_of("p", "work", arguments).with_progress(sink).with_deadline(deadline);
    set.call(call).await.map(|result| result.text.unwrap_or_default())
}

fn is_timeout(told: &Result<String, CallError>) -> bool {
    matches!(told, Err(CallError::Timeout { timeout_ms, .. }) if *timeout_ms == GRANTED.as_millis())
}

#[tokio::test]
async fn progress_extends_a_call_whose_caller_allows_it() {
    let set = patient(PATIENCE).await;
    let steps = json!({"steps": 9});
    let silent = json!({"steps": 9, "silent": true});
    let (extended, fixed, silent) = tokio::join!(
        work(&set, steps.clone(), PATIENCE),
        work(&set, steps, Duration::ZERO),
        work(&set, silent, PATIENCE),
    );
    assert_eq!(extended.unwrap(), "worked");
    assert!(is_timeout(&fixed), "{fixed:?}");
    assert!(is_timeout(&silent), "{silent:?}");
}

#[tokio::test]
async fn progress_without_end_extends_a_call_to_its_maximum() {
    let set = patient(2 * GRANTED).await;
    let endless = work(&set, json!({"steps": -1}), PATIENCE).await;
    assert!(is_timeout(&endless), "{endless:?}");
    // What a server may have in all is not less than what it is granted.
    let set = patient(Duration::ZERO).await;
    assert_eq!(work(&set, json!({"steps": 2}), PATIENCE).await.unwrap(), "worked");
}
