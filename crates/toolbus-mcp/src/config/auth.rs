//! The member `auth` of an entry: how the bridge shows a server who it is.
//!
//! | `type` | is |
//! |---|---|
//! | `bearer` | a token that the operator has: it becomes the header `Authorization` |
//! | `client_credentials` | OAuth 2.1 for a program that has an id and a secret |
//! | `authorization_code` | OAuth 2.1 for a person, who logs in once with `mcp-bridge login` |
//!
//! OAuth is for addresses that nobody on the way can read or change: `https`, or this machine. A
//! secret of the configuration is for one authorization server, the `issuer` beside it: which one
//! that is, is not for the MCP server to say.

use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderName, HeaderValue};
use toolbus_wire::message::Secret;

use super::issuer::Issuer;
use super::members::Members;
use crate::http::is_local;

const BEARER: &[&str] = &["type", "token"];
const CLIENT_CREDENTIALS: &[&str] =
    &["type", "issuer", "clientId", "clientSecret", "scopes", "resource"];
const AUTHORIZATION_CODE: &[&str] =
    &["type", "issuer", "clientId", "clientSecret", "clientMetadataUrl", "scopes", "redirectPort"];

/// The OAuth grant by which a token for a server is obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// With an id and a secret of our own.
    ClientCredentials(ClientCredentials),
    /// By a person who has logged in.
    AuthorizationCode(AuthorizationCode),
}

/// OAuth's client credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCredentials {
    /// The only authorization server that is shown the secret.
    pub issuer: Issuer,
    /// Who we are to the authorization server.
    pub client_id: String,
    /// What proves it.
    pub client_secret: Secret,
    /// What is asked for; nothing means what the authorization server gives by itself.
    pub scopes: Vec<String>,
    /// What the token is for, when that is not the server's address.
    pub resource: Option<String>,
}

/// OAuth's authorization code, with PKCE.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthorizationCode {
    /// The only authorization server that is asked for tokens; always there with a secret. Without
    /// it, that is the one which the server names at the login.
    pub issuer: Option<Issuer>,
    /// The client that is registered already. Without it one is registered at the login.
    pub client_id: Option<String>,
    /// Its secret, where it has one.
    pub client_secret: Option<Secret>,
    /// An https address that describes the client and is its id, for authorization servers that
    /// know such; it is preferred to registering.
    pub client_metadata_url: Option<String>,
    /// What is asked for; nothing means what the server says that it needs.
    pub scopes: Vec<String>,
    /// The port on 127.0.0.1 that the login comes back to; nothing means any.
    pub redirect_port: Option<u16>,
}

impl Grant {
    /// The client's secret, which must be erased from texts.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        match self {
            Self::ClientCredentials(client) => Some(&client.client_secret),
            Self::AuthorizationCode(code) => code.client_secret.as_ref(),
        }
    }

    /// The only authorization server that is asked for tokens, where one is configured.
    pub(crate) fn issuer(&self) -> Option<&Issuer> {
        match self {
            Self::ClientCredentials(client) => Some(&client.issuer),
            Self::AuthorizationCode(code) => code.issuer.as_ref(),
        }
    }
}

/// Reads `auth`. A bearer token becomes one of `headers`.
pub(super) fn read_auth(
    members: &mut Members<'_>,
    mut auth: Members<'_>,
    url: &Url,
    headers: &mut Vec<(HeaderName, HeaderValue)>,
) -> Option<Grant> {
    if headers.iter().any(|(name, _)| *name == AUTHORIZATION) {
        auth.add_mistake("", "goes without an Authorization in headers");
    }

    let kind = auth.take_text("type");
    let (grant, known) = match kind.as_deref() {
        Some("bearer") => {
            headers.extend(read_bearer(&mut auth).map(|value| (AUTHORIZATION, value)));
            (None, BEARER)
        }
        Some("client_credentials") => (read_client_credentials(&mut auth), CLIENT_CREDENTIALS),
        Some("authorization_code") => (read_authorization_code(&mut auth), AUTHORIZATION_CODE),
        _ => {
            let what = "has to be bearer, client_credentials or authorization_code";
            members.add_mistake("auth.type", what);
            return None;
        }
    };

    if grant.is_some() && url.scheme() != "https" && !is_local(url) {
        auth.add_mistake("", "needs an address that begins with https://, or is on this machine");
    }

    auth.refuse_unknown(known);
    members.add_findings_of("auth", auth.finish());
    grant
}

fn read_bearer(auth: &mut Members<'_>) -> Option<HeaderValue> {
    let token = take_required_secret(auth, "token")?;
    match HeaderValue::try_from(format!("Bearer {}", token.expose().trim())) {
        Ok(mut value) => {
            value.set_sensitive(true);
            Some(value)
        }
        Err(_) => {
            auth.add_mistake("token", "has a character that no header may have");
            None
        }
    }
}

fn read_client_credentials(auth: &mut Members<'_>) -> Option<Grant> {
    let client_id = take_required_secret(auth, "clientId");
    let client_secret = take_required_secret(auth, "clientSecret");
    let issuer = take_issuer(auth, SecretPresence::Given);
    let scopes = auth.take_texts("scopes");
    let resource = auth.take_text("resource");
    Some(Grant::ClientCredentials(ClientCredentials {
        issuer: issuer?,
        client_id: client_id?.expose().to_owned(),
        client_secret: client_secret?,
        scopes,
        resource,
    }))
}

fn read_authorization_code(auth: &mut Members<'_>) -> Option<Grant> {
    let client_id = auth.take_secret("clientId").map(|id| id.expose().to_owned());
    let client_secret = auth.take_secret("clientSecret");
    let client_metadata_url = auth.take_text("clientMetadataUrl");

    if client_secret.is_some() && client_id.is_none() {
        auth.add_mistake("clientSecret", "goes with clientId");
    }

    let secret = if client_secret.is_some() { SecretPresence::Given } else { SecretPresence::None };
    let issuer = take_issuer(auth, secret);

    let is_https = |text: &String| {
        Url::parse(text).is_ok_and(|url| url.scheme() == "https" && url.path() != "/")
    };

    if client_metadata_url.as_ref().is_some_and(|url| !is_https(url)) {
        auth.add_mistake("clientMetadataUrl", "has to begin with https:// and to have a path");
    }

    Some(Grant::AuthorizationCode(AuthorizationCode {
        issuer,
        client_id,
        client_secret,
        client_metadata_url,
        scopes: auth.take_texts("scopes"),
        redirect_port: auth.take_port("redirectPort"),
    }))
}

/// Whether an entry has a secret, which an issuer has to stand beside.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SecretPresence {
    Given,
    None,
}

/// Takes the issuer of the authorization server.
fn take_issuer(auth: &mut Members<'_>, secret: SecretPresence) -> Option<Issuer> {
    let before = auth.mistake_count();
    let Some(text) = auth.take_expanded("issuer") else {
        if secret == SecretPresence::Given && auth.mistake_count() == before {
            let what = "is missing: the address of the only authorization server that may have \
                        clientSecret, as its metadata names it";
            auth.add_mistake("issuer", what);
        }
        return None;
    };

    let is_safe = |issuer: &Issuer| issuer.url().scheme() == "https" || is_local(issuer.url());
    let issuer = Issuer::parse(&text).filter(is_safe);
    if issuer.is_none() {
        let what = "has to be an address that begins with https://, or is on this machine, without \
                    query and fragment";
        auth.add_mistake("issuer", what);
    }

    issuer
}

fn take_required_secret(auth: &mut Members<'_>, member: &str) -> Option<Secret> {
    let before = auth.mistake_count();
    let value = auth.take_secret(member);
    if value.is_none() && auth.mistake_count() == before {
        auth.add_mistake(member, "is missing");
    }
    value
}
