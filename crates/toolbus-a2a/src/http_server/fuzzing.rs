//! Requests of clients as a target of a fuzzer.

use axum::http::{HeaderMap, HeaderValue};
use toolbus_tools::Principal;

use super::call::Call;
use super::methods::{PARTS_MAX, read_message};
use crate::protocol::{
    HTTP_DEPTH_HEADER, HTTP_DOORS_HEADER, SendParams, TaskParams, VERSION_HEADER,
};

/// Reads a request: a line each for the headers with the version, the depth and the doors, which
/// may be empty, and its body. Asserts that a message has parts, and not too many.
pub fn requests(bytes: &[u8]) {
    let mut parts = bytes.splitn(4, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in [VERSION_HEADER, HTTP_DEPTH_HEADER, HTTP_DOORS_HEADER] {
        let value = parts.next().unwrap_or_default();
        if let Ok(value) = HeaderValue::from_bytes(value)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }

    let body = parts.next().unwrap_or_default();
    let call = match Call::read(body, &headers, &Principal::claimed("fuzz")) {
        Ok(call) => call,
        Err((id, error)) => {
            let _ = error.to_response(&id);
            return;
        }
    };

    if let Ok(params) = call.params::<SendParams>() {
        let _ = (params.is_blocking(), params.wants_push(), params.history_length());
        let _ = params.skill();
        if let Ok(message) = read_message(&params.message) {
            assert!((1..=PARTS_MAX).contains(&message.parts.len()));
        }
    }
    if let Ok(params) = call.params::<TaskParams>() {
        let _ = call.key(&params.id);
    }
}
