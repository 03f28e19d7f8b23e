//! Who a request is from, and whether it is answered.

use axum::http::header::{AUTHORIZATION, HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri};
use toolbus_tools::Principal;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::scope::Proof;

use crate::ApiSettings;
use crate::refusal::Refusal;

/// Who clients are where nobody has a token.
const ANYBODY: &str = "http";
/// Who gave out the tokens.
const ISSUER: &str = "http";
/// Names of this machine that may always be used.
const LOCAL_HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(crate) struct Visitors {
    hosts: Vec<String>,
    origins: Vec<String>,
    /// The clients, by the digests of their tokens: how long it takes to compare those says nothing
    /// about a token.
    clients: Vec<(String, Principal)>,
}

impl Visitors {
    pub(crate) fn new(settings: ApiSettings) -> Self {
        let ApiSettings { allowed_hosts, allowed_origins, tokens } = settings;
        let client = |(name, token): (String, String)| {
            let proof = Proof::Token { issuer: ISSUER.into() };
            (sha256_hex(&token), Principal { name: name.into(), proof })
        };
        let clients = tokens.into_iter().map(client).collect();
        Self { hosts: allowed_hosts, origins: allowed_origins, clients }
    }

    /// The client of a request.
    pub(crate) fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<Principal, Refusal> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let host = host.or_else(|| uri.authority().map(Authority::as_str)).unwrap_or_default();
        if !self.is_allowed_host(host) {
            let what = "this host is not one that the agent may be reached by";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "host_not_allowed", what));
        }
        if let Some(origin) = headers.get(ORIGIN) {
            let origin = origin.to_str().unwrap_or_default();
            if !self.is_allowed_origin(origin) {
                let what = "pages of this origin may not speak to the agent";
                return Err(Refusal::new(StatusCode::FORBIDDEN, "origin_not_allowed", what));
            }
        }

        if self.clients.is_empty() {
            return Ok(Principal::claimed(ANYBODY));
        }
        let bearer = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = bearer
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let digest = token.map(|(_, token)| sha256_hex(token.trim()));
        let client = self.clients.iter().find(|(known, _)| digest.as_ref() == Some(known));
        client.map(|(_, principal)| principal.clone()).ok_or_else(|| {
            let what = "a token of a client is needed: Authorization: Bearer TOKEN";
            Refusal::new(StatusCode::UNAUTHORIZED, "unauthorized", what)
        })
    }

    fn is_allowed_host(&self, host: &str) -> bool {
        let name = name_of(host);
        let is_it = |allowed: &str| {
            // With a port it is that one alone.
            host.eq_ignore_ascii_case(allowed) || name.eq_ignore_ascii_case(allowed)
        };
        LOCAL_HOSTS.into_iter().any(is_it) || self.hosts.iter().any(|allowed| is_it(allowed))
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let host = origin.split_once("://").map(|(_, host)| host).unwrap_or_default();
        let is_local = LOCAL_HOSTS.into_iter().any(|local| name_of(host) == local);
        is_local || self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }
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
