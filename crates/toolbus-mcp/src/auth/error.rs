//! Errors of authorization: why there is no token, in words that people and models may read: no
//! token, no address.

use std::time::Duration;

use rmcp::transport::AuthError;

use crate::config::Issuer;
use crate::eraser::{Eraser, shorten_text};
use crate::failure::{clean_line, quote_text};
use crate::http::root_cause;
use crate::server_name::ServerName;

/// Longest text of an authorization server that is repeated, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// Why there is no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Error {
    /// A person has to log in.
    #[error("needs login: mcp-bridge login {server}{}", for_scope(scope.as_deref()))]
    NeedsLogin {
        /// Where.
        server: ServerName,
        /// What the login has to be for, when one of lesser scope is there.
        scope: Option<String>,
    },
    /// The server wants more than its token is for, and that was asked for already.
    #[error("asks for the scope \"{0}\", which was asked for and not given")]
    Scope(String),
    /// The server does not take what its authorization server gave.
    #[error("it does not take the token that was given for it")]
    Refused,
    /// The server names an authorization server that is not the configured one. It was not asked.
    #[error("names the authorization server {named}, and auth.issuer in mcp.json is {configured}")]
    OtherIssuer {
        /// The host, with port and path, that the server names.
        named: String,
        /// The same of the configured one.
        configured: String,
    },
    /// What the server or its authorization server say about themselves cannot be used.
    #[error("its authorization metadata cannot be used: {0}")]
    Metadata(String),
    /// They say nothing, at none of the places where they are looked for.
    #[error("its authorization metadata cannot be used: there is none")]
    NoMetadata,
    /// The authorization server does not give a token.
    #[error("its authorization server gives no token: {0}")]
    Server(String),
    /// The tokens cannot be kept.
    #[error("its token cannot be kept: {0}")]
    Store(String),
}

impl Error {
    pub(super) fn timed_out(limit: Duration) -> Self {
        Self::Server(format!("it did not answer within {} ms", limit.as_millis()))
    }

    /// The error of a server that names another issuer than the configured one.
    pub(super) fn other_issuer(named: &str, configured: &Issuer) -> Self {
        let named = Issuer::parse(named);
        Self::OtherIssuer {
            named: named.map_or_else(|| "of no address".to_owned(), |named| named.to_string()),
            configured: configured.to_string(),
        }
    }

    /// Metadata that names another issuer than the one that was asked.
    pub(super) fn wrong_issuer() -> Self {
        Self::Metadata("its issuer is not the one that was asked".to_owned())
    }

    /// Metadata without an issuer.
    pub(super) fn no_issuer() -> Self {
        Self::Metadata("it names no issuer".to_owned())
    }

    /// Metadata that could not be read.
    pub(super) fn unreadable_metadata(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Metadata(format!("it was not given: {}", root_cause(error)))
    }

    /// Translates an error of rmcp, whose own text may name addresses and repeat whole answers.
    pub(super) fn from_rmcp(error: AuthError, server: &ServerName, eraser: &Eraser) -> Self {
        let metadata = |what: &str| Self::Metadata(what.to_owned());

        match error {
            AuthError::AuthorizationRequired | AuthError::TokenRefreshRejected(_) => {
                Self::NeedsLogin { server: server.clone(), scope: None }
            }
            AuthError::CredentialStoreError(what) => Self::Store(what),
            AuthError::DiscoveryRequestFailed { source, .. } => Self::unreadable_metadata(&*source),
            AuthError::AuthorizationServerMismatch { .. } => Self::wrong_issuer(),
            AuthError::AuthorizationServerMissingIssuer { .. } => Self::no_issuer(),
            AuthError::ProtectedResourceMetadataInvalid { .. } => {
                metadata("it is not about this server")
            }
            AuthError::AuthorizationServersUnavailable { .. } => {
                metadata("none of its authorization servers has any")
            }
            AuthError::NoAuthorizationSupport => Self::NoMetadata,
            AuthError::PkceUnsupported => metadata("its authorization server has no PKCE (S256)"),
            AuthError::TokenRefreshFailed(text)
            | AuthError::TokenExchangeFailed(text)
            | AuthError::ClientCredentialsError(text)
            | AuthError::RegistrationFailed(text)
            | AuthError::AuthorizationFailed(text) => Self::from_server(&text, eraser),
            other => Self::from_server(&other.to_string(), eraser),
        }
    }

    /// The error that an authorization server reports, without secrets and shortened.
    pub(super) fn from_server(text: &str, eraser: &Eraser) -> Self {
        let text = clean_line(text, eraser);
        Self::Server(quote_text(&shorten_text(&text, TEXT_BYTES_MAX)))
    }

    /// Whether a person has to do something.
    pub(crate) fn is_for_a_person(&self) -> bool {
        matches!(self, Self::NeedsLogin { .. })
    }
}

fn for_scope(scope: Option<&str>) -> String {
    scope.map_or_else(String::new, |scope| format!(" (for the scope \"{scope}\")"))
}
