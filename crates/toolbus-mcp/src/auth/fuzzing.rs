//! What comes in at a login, and what a server refuses with, as a target of a fuzzer.

use super::callback::{parse_request_line, refusal_in};
use super::refusal::{SCOPE_BYTES_MAX, SCOPES_MAX, parse_scopes};

/// What the browser is sent back to.
const REDIRECT_URI: &str = "http://127.0.0.1:1/callback";

/// Reads the line of a request to the callback of a login, and the scopes of a refusal. Asserts
/// that no request leads elsewhere, and that nothing of it can do harm where it is shown.
pub fn logins(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    if let Some(url) = parse_request_line(text, REDIRECT_URI) {
        assert!(url.as_str().starts_with(REDIRECT_URI), "{url}");
        let refusal = refusal_in(&url).map(|error| error.to_string()).unwrap_or_default();
        assert!(!refusal.contains(char::is_control), "{refusal:?}");
    }

    let scopes = parse_scopes(text);
    assert!(scopes.len() <= SCOPES_MAX);
    for scope in scopes {
        assert!(scope.len() <= SCOPE_BYTES_MAX && !scope.contains(['"', '\\']), "{scope}");
    }
}
