//! Who a request is from: a client by its token, or anybody where nobody has one.

use axum::http::header::WWW_AUTHENTICATE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use toolbus_tools::Principal;
use toolbus_tools::visitors::{ApiSettings, VisitorError, Visitors};

use crate::refusals::refuse;

/// Who clients are where nobody has a token.
const ANYBODY: &str = "mcp";

/// Those who may come.
pub(crate) struct Clients(Visitors);

impl Clients {
    pub(crate) fn new(settings: ApiSettings) -> Self {
        Self(Visitors::new(settings))
    }

    /// The client of a request of the protocol. Its origin is left to the transport, whose lists of
    /// origins know patterns.
    pub(crate) fn admit(&self, request: &Parts) -> Result<Principal, VisitorError> {
        self.0.check_host(request)?;
        self.identify(request)
    }

    /// The same of any other request, with its origin.
    pub(crate) fn admit_visitor(&self, request: &Parts) -> Result<Principal, VisitorError> {
        self.0.check_place(request)?;
        self.identify(request)
    }

    fn identify(&self, request: &Parts) -> Result<Principal, VisitorError> {
        Ok(self.0.identify(request)?.unwrap_or_else(|| Principal::claimed(ANYBODY)))
    }
}

/// The answer to a request that is not let in.
pub(crate) fn refuse_visitor(error: VisitorError) -> Response {
    let mut response = refuse(error.status(), format!("{error}\n"));
    if response.status() == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
