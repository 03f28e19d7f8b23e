//! Which errors are refusals.

use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use super::*;

fn lacking(challenge: &str, scope: &str) -> http::Error {
    let scope = Some(scope.to_owned()).filter(|scope| !scope.is_empty());
    http::Error::InsufficientScope(InsufficientScopeError::new(challenge.to_owned(), scope))
}

#[test]
fn refusals_of_tokens_and_of_scopes() {
    let token = |challenge: &str| Some(Refusal::Token { challenge: challenge.to_owned() });
    let required = AuthRequiredError::new("Bearer x".to_owned());
    assert_eq!(Refusal::of(&http::Error::AuthRequired(required)), token("Bearer x"));
    let text = |text: &'static str| http::Error::UnexpectedServerResponse(text.into());
    assert_eq!(Refusal::of(&text("HTTP 401 Unauthorized: who?")), token(""));
    assert_eq!(Refusal::of(&text("HTTP 404 Not Found: HTTP 401")), None);

    let scopes =
        lacking("Bearer error=\"insufficient_scope\"", "files:read  a\"b files:write\u{7}");
    assert_eq!(Refusal::of(&scopes), Some(Refusal::Scopes(vec!["files:read".to_owned()])));
    assert_eq!(Refusal::of(&lacking("Bearer error=\"insufficient_scope\"", "")), None);
    assert_eq!(Refusal::of(&lacking("Bearer error=\"other\"", "files:read")), None);
}
