//! Finds a server's authorization server.
//!
//! Which one that is, says the server, or the configuration. What it is, says the issuer alone: its
//! metadata is read from its own addresses. Where an issuer is configured, nobody else is asked.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::transport::auth::{AuthorizationMetadata, AuthorizationMetadataResolution};
use rmcp::transport::{AuthError, AuthorizationManager};
use serde_json::json;
use tokio::time::timeout;
use toolbus_json::Limits;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use super::Error;
use super::requests::{OAuthRequests, RESPONSE_BYTES_MAX};
use crate::config::{Endpoint, Issuer};
use crate::eraser::Eraser;
use crate::http::HttpClients;
use crate::server_name::ServerName;

/// How long a server may take to refuse a request.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// What the metadata of an authorization server may have. Most values are scopes, and some servers
/// have hundreds.
const METADATA_LIMITS: Limits = Limits::of_bytes(RESPONSE_BYTES_MAX).with_values(16 << 10);

/// The member of an authorization server's metadata that says so.
const DOCUMENTS: &str = "client_id_metadata_document_supported";

/// An authorization server that was discovered.
pub(super) struct DiscoveredIssuer {
    /// It knows the authorization server.
    pub(super) manager: AuthorizationManager,
    /// Whether the authorization server takes the address of a document for a client's id.
    pub(super) knows_documents: bool,
}

/// The search for the authorization server of one MCP server.
pub(super) struct Discovery<'a> {
    pub(super) server: &'a ServerName,
    pub(super) url: &'a Url,
    /// The only authorization server that may be found.
    pub(super) issuer: Option<&'a Issuer>,
    pub(super) requests: &'a Arc<OAuthRequests>,
    pub(super) eraser: &'a Eraser,
}

impl Discovery<'_> {
    /// Finds the authorization server, with what the server said when it refused a request.
    ///
    /// Nothing is guessed: a server that publishes no metadata has no authorization server but the
    /// configured one, whatever older revisions of the protocol made of its address.
    pub(super) async fn find(&self, challenge: Option<&str>) -> Result<DiscoveredIssuer, Error> {
        without_logs(async {
            let requests = Arc::clone(self.requests) as _;
            let manager =
                AuthorizationManager::new_with_oauth_http_client(self.url.clone(), requests);
            let mut manager = manager.await.map_err(|error| self.explain(error))?;

            let named = manager.resolve_metadata_from_challenge(challenge).await;
            let issuer = self.choose_issuer(named)?;
            // Read again: rmcp takes what it finds at some addresses without asking whose they are.
            let metadata = self.read_metadata(&issuer).await?;

            let knows_documents = metadata.additional_fields.get(DOCUMENTS);
            let knows_documents =
                knows_documents.and_then(serde_json::Value::as_bool) == Some(true);
            manager.set_metadata(metadata);
            Ok(DiscoveredIssuer { manager, knows_documents })
        })
        .await
    }

    /// The configured issuer, unless the server names others only; else the one that it names.
    fn choose_issuer(
        &self,
        named: Result<AuthorizationMetadataResolution, AuthError>,
    ) -> Result<Issuer, Error> {
        let Some(configured) = self.issuer else {
            let found = named.map_err(|error| self.explain(error))?;
            if !found.source.is_discovered() {
                return Err(Error::NoMetadata);
            }
            let issuer = found.metadata.issuer.as_deref().and_then(Issuer::parse);
            return issuer.ok_or_else(Error::no_issuer);
        };

        let named = match named {
            Ok(found) if found.source.is_discovered() => Vec::from_iter(found.metadata.issuer),
            Ok(_) => return Ok(configured.clone()),
            Err(AuthError::AuthorizationServersUnavailable { authorization_servers, .. }) => {
                authorization_servers
            }
            Err(error) => return Err(self.explain(error)),
        };

        match named.first() {
            Some(other) if !named.iter().any(|named| configured.is_named_by(named)) => {
                Err(Error::other_issuer(other, configured))
            }
            _ => Ok(configured.clone()),
        }
    }

    /// What the issuer says of itself, where it says so.
    async fn read_metadata(&self, issuer: &Issuer) -> Result<AuthorizationMetadata, Error> {
        for url in issuer.metadata_urls() {
            let document = self.requests.get_document(url).await;
            let document = document.map_err(|error| Error::unreadable_metadata(&*error))?;
            let metadata = document.and_then(|text| {
                toolbus_json::from_slice::<AuthorizationMetadata>(&text, &METADATA_LIMITS).ok()
            });
            let Some(metadata) = metadata else { continue };

            return match &metadata.issuer {
                Some(named) if issuer.is_named_by(named) => Ok(metadata),
                Some(_) => Err(Error::wrong_issuer()),
                None => Err(Error::no_issuer()),
            };
        }

        Err(Error::NoMetadata)
    }

    fn explain(&self, error: AuthError) -> Error {
        Error::from_rmcp(error, self.server, self.eraser)
    }
}

/// Asks a server for its challenge, which it gives when it refuses a request without a token: where
/// its metadata is, and which scope it wants. None when it does not refuse, or says nothing.
///
/// Asked as it will be asked again and again, by POST: many servers answer GET with 404 or 405,
/// token or not. The request is one that opens no session.
pub(super) async fn request_challenge(
    clients: &HttpClients,
    endpoint: &Endpoint,
) -> Option<String> {
    let question = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}});
    let request = clients.client_for(&endpoint.url).ok()?.post(endpoint.url.clone());
    let request = request
        .headers(endpoint.headers.iter().cloned().collect())
        .header(ACCEPT, "application/json, text/event-stream")
        .json(&question);
    let answer = timeout(REFUSAL_TIMEOUT, request.send()).await.ok()?.ok()?;

    if answer.status() != StatusCode::UNAUTHORIZED {
        return None;
    }

    let challenges = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    let challenges: Vec<&str> = challenges.filter_map(|value| value.to_str().ok()).collect();
    (!challenges.is_empty()).then(|| challenges.join(", "))
}

/// Runs what rmcp does for OAuth without its logs: they hold codes, and what authorization servers
/// answer.
pub(super) async fn without_logs<T>(work: impl Future<Output = T>) -> T {
    work.with_subscriber(Dispatch::none()).await
}
