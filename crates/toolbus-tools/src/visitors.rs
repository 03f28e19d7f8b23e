//! Who a request over HTTP is from, and whether it is answered: the clients of an interface by
//! their tokens, the names that the machine is reached by, and the origins of web pages.
//!
//! The server that takes a connection puts the address of its other end into the extensions of each
//! request, as a [`SocketAddr`]. Names that only this machine has for itself are for requests that
//! come from it: what a request calls the machine keeps web pages away, and no program.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Uri};

use crate::Principal;
use crate::canonical::sha256_hex;
use crate::scope::Proof;

/// Who clients are where nobody has a token.
const ANYBODY: &str = "http";
/// Who gave out the tokens.
const ISSUER: &str = "http";
/// Names of this machine that requests from it may always use.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Whose requests are answered.
#[derive(Clone, Default)]
pub struct ApiSettings {
    /// Names that clients may reach this machine by, with or without a port; a request for another
    /// one is refused. `localhost`, `127.0.0.1` and `[::1]` always may, from this machine.
    pub allowed_hosts: Vec<String>,
    /// Web pages that may ask, by their origins; a request from another one is refused.
    pub allowed_origins: Vec<String>,
    /// The clients, each with its token. Where there are any, a request without one of the tokens
    /// is refused.
    pub tokens: Vec<(String, String)>,
    /// The ids of clients, by their names. One without an id owns what its name owns.
    pub client_ids: BTreeMap<String, String>,
}

/// Why a request is not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VisitorError {
    /// The machine was reached by another name.
    #[error("this host is not one that the agent may be reached by")]
    Host,
    /// A web page asks that may not.
    #[error("pages of this origin may not speak to the agent")]
    Origin,
    /// No client has this token.
    #[error("a token of a client is needed: Authorization: Bearer TOKEN")]
    Unauthorized,
}

impl VisitorError {
    /// The error's name in answers.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Host => "host_not_allowed",
            Self::Origin => "origin_not_allowed",
            Self::Unauthorized => "unauthorized",
        }
    }

    /// The status of the answer.
    #[must_use]
    pub fn status(self) -> http::StatusCode {
        match self {
            Self::Host | Self::Origin => http::StatusCode::FORBIDDEN,
            Self::Unauthorized => http::StatusCode::UNAUTHORIZED,
        }
    }
}

/// Those who may come.
pub struct Visitors {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// The clients, by the digests of their tokens: how long it takes to compare those says nothing
    /// about a token.
    clients: Vec<(String, Principal)>,
}

impl Visitors {
    /// Those of these settings.
    #[must_use]
    pub fn new(settings: ApiSettings) -> Self {
        let ApiSettings { allowed_hosts, allowed_origins, tokens, client_ids } = settings;
        let client = |(name, token): (String, String)| {
            let id = client_ids.get(&name).map(|id| id.as_str().into());
            let proof = Proof::Token { issuer: ISSUER.into(), id };
            (sha256_hex(&token), Principal { name: name.into(), proof })
        };
        let clients = tokens.into_iter().map(client).collect();
        Self { hosts: allowed_hosts, origins: allowed_origins, clients }
    }

    /// Whether clients need a token.
    #[must_use]
    pub fn need_tokens(&self) -> bool {
        !self.clients.is_empty()
    }

    /// Returns true if a principal is one of the clients that have tokens now.
    #[must_use]
    pub fn has_client(&self, principal: &Principal) -> bool {
        self.clients.iter().any(|(_, client)| client == principal)
    }

    /// Returns true if a principal was admitted by a token of a client.
    #[must_use]
    pub fn is_client(principal: &Principal) -> bool {
        matches!(&principal.proof, Proof::Token { issuer, .. } if **issuer == *ISSUER)
    }

    /// Checks the name that a request was sent to.
    ///
    /// # Errors
    /// When it is not to be answered.
    pub fn check_host(&self, request: &Parts) -> Result<(), VisitorError> {
        let host = host_of(&request.uri, &request.headers);
        match self.is_allowed_host(host, is_from_here(request)) {
            true => Ok(()),
            false => Err(VisitorError::Host),
        }
    }

    /// Checks the name that a request was sent to, and the page that it comes from.
    ///
    /// # Errors
    /// When it is not to be answered.
    pub fn check_place(&self, request: &Parts) -> Result<(), VisitorError> {
        self.check_host(request)?;
        match request.headers.get(ORIGIN) {
            Some(origin) if !self.is_allowed_origin(origin.to_str().unwrap_or_default()) => {
                Err(VisitorError::Origin)
            }
            _ => Ok(()),
        }
    }

    /// The client whose token a request has. `None`: nobody has a token, and none is needed.
    ///
    /// # Errors
    /// When it has none of the tokens.
    pub fn identify(&self, request: &Parts) -> Result<Option<Principal>, VisitorError> {
        if self.clients.is_empty() {
            return Ok(None);
        }

        let bearer = request.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let digest = token.map(|(_, token)| sha256_hex(token.trim()));
        let client = self.clients.iter().find(|(known, _)| digest.as_ref() == Some(known));
        client.map(|(_, principal)| Some(principal.clone())).ok_or(VisitorError::Unauthorized)
    }

    /// The client of a request.
    ///
    /// # Errors
    /// When it is not to be answered.
    pub fn admit(&self, request: &Parts) -> Result<Principal, VisitorError> {
        self.check_place(request)?;
        Ok(self.identify(request)?.unwrap_or_else(|| Principal::claimed(ANYBODY)))
    }

    fn is_allowed_host(&self, host: &str, is_from_here: bool) -> bool {
        let name = name_of(host);
        let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
        let is_it = |allowed: &str| {
            // With a port it is that one alone.
            [host, name, bare].into_iter().any(|said| said.eq_ignore_ascii_case(allowed))
        };

        let is_listed = self.hosts.iter().any(|allowed| is_it(allowed.trim()));
        is_listed || (is_from_here && LOCAL_HOSTS.into_iter().any(is_it))
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let host = origin.split_once("://").map(|(_, host)| host).unwrap_or_default();
        let is_local = LOCAL_HOSTS.into_iter().any(|local| name_of(host) == local);
        is_local || self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
}

/// Whether a request comes from this machine. One whose server does not say where it comes from is
/// taken for one from elsewhere.
fn is_from_here(request: &Parts) -> bool {
    let peer = request.extensions.get::<SocketAddr>();
    // A port for both families writes addresses of the older one as ones of the newer.
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
}

/// The name that a request was sent to, perhaps with a port; empty where it names none.
#[must_use]
pub fn host_of<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.or_else(|| uri.authority().map(Authority::as_str)).unwrap_or_default()
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests;
