//! Refusals: how a server says that a request's token is missing, wrong or not enough.

use crate::http;

/// Most scopes of one refusal.
pub(super) const SCOPES_MAX: usize = 32;
/// Longest scope, in bytes.
pub(super) const SCOPE_BYTES_MAX: usize = 128;

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There was no token, or not a good one: HTTP 401.
    Token {
        /// The header `WWW-Authenticate`, or nothing.
        challenge: String,
    },
    /// The token is not for as much: HTTP 403 with `insufficient_scope`, and these are missing.
    Scopes(Vec<String>),
}

impl Refusal {
    pub(super) fn of(error: &http::Error) -> Option<Self> {
        match error {
            http::Error::AuthRequired(refused) => {
                Some(Self::Token { challenge: refused.www_authenticate_header.clone() })
            }
            // Without a challenge, it comes as text.
            http::Error::UnexpectedServerResponse(text) if text.starts_with("HTTP 401") => {
                Some(Self::Token { challenge: String::new() })
            }
            http::Error::InsufficientScope(refused)
                if refused.www_authenticate_header.contains("insufficient_scope") =>
            {
                let scopes = parse_scopes(refused.required_scope.as_deref().unwrap_or_default());
                (!scopes.is_empty()).then_some(Self::Scopes(scopes))
            }
            _ => None,
        }
    }
}

/// The scopes of a text, as far as they are such: RFC 6749 has no spaces, quotes, backslashes or
/// control characters in them.
pub(super) fn parse_scopes(text: &str) -> Vec<String> {
    let is_scope = |scope: &&str| {
        scope.len() <= SCOPE_BYTES_MAX
            && scope.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
    };
    text.split_whitespace().filter(is_scope).take(SCOPES_MAX).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
