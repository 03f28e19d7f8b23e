//! Cross-origin requests of web pages (CORS): which pages may read what the face answers.
//!
//! A request of a page that is not allowed is refused by its `Origin` in any case. What is here
//! makes browsers show a page of an allowed origin the answers, with the session in their headers.

use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};

/// How long a browser may remember what it was told, in seconds.
const PREFLIGHT_TTL: HeaderValue = HeaderValue::from_static("600");
/// The methods of the protocol.
const METHODS: HeaderValue = HeaderValue::from_static("GET, POST, DELETE");
/// Any header: those of 2026-07-28 are named after the arguments of tools. The one that a client
/// has its token in is none of those that the star stands for.
const HEADERS: HeaderValue = HeaderValue::from_static("*, authorization");
/// What a page may read beside the body.
const EXPOSED: HeaderValue =
    HeaderValue::from_static("mcp-session-id, retry-after, www-authenticate");

/// The pages whose browsers are told that they may read answers.
pub(crate) struct Cors {
    origins: Vec<String>,
}

impl Cors {
    /// Those of these origins. One that ends in `:*` is of any port.
    pub(crate) fn new(origins: &[String]) -> Self {
        Self { origins: origins.to_vec() }
    }

    /// The origin of a request, where it is one of them.
    pub(crate) fn allowed_origin(&self, headers: &HeaderMap) -> Option<HeaderValue> {
        let origin = headers.get(ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.origins.iter().any(|allowed| is_of(text, allowed)).then(|| origin.clone())
    }

    /// The answer to a browser that asks before it sends a page's request.
    pub(crate) fn preflight(origin: Option<HeaderValue>) -> Response {
        let Some(origin) = origin else { return StatusCode::FORBIDDEN.into_response() };
        let headers = [
            (ACCESS_CONTROL_ALLOW_METHODS, METHODS),
            (ACCESS_CONTROL_ALLOW_HEADERS, HEADERS),
            (ACCESS_CONTROL_MAX_AGE, PREFLIGHT_TTL),
        ];
        Self::allow((StatusCode::NO_CONTENT, headers).into_response(), Some(origin))
    }

    /// Lets the page of an origin read a response. A cache must not take it for another's.
    pub(crate) fn allow(mut response: Response, origin: Option<HeaderValue>) -> Response {
        let headers = response.headers_mut();
        headers.append(VARY, HeaderValue::from_static("origin"));
        if let Some(origin) = origin {
            headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
            headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
        }
        response
    }
}

/// Whether a browser asks if it may send a page's request.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::OPTIONS && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Whether an origin is the allowed one. Browsers write origins in lower case.
fn is_of(origin: &str, allowed: &str) -> bool {
    let Some(of_any_port) = allowed.strip_suffix(":*") else {
        return origin.eq_ignore_ascii_case(allowed.trim_end_matches('/'));
    };
    let (head, rest) = origin.split_at_checked(of_any_port.len()).unwrap_or((origin, ""));
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    head.eq_ignore_ascii_case(of_any_port)
        && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests;
