//! Finds a server's authorization server.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::{StatusCode, Url};
use rmcp::transport::{AuthError, AuthorizationManager, OAuthHttpClient};
use serde_json::json;
use tokio::time::timeout;
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

use crate::config::Endpoint;
use crate::http::HttpClients;

/// How long a server may take to refuse a request.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The member of an authorization server's metadata that says so.
const DOCUMENTS: &str = "client_id_metadata_document_supported";

/// An authorization server that was discovered.
pub(super) struct DiscoveredIssuer {
    /// It knows the authorization server.
    pub(super) manager: AuthorizationManager,
    /// Whether the authorization server takes the address of a document for a client's id.
    pub(super) knows_documents: bool,
}

/// Finds the authorization server of the server at `url`.
///
/// Nothing is guessed: a server that publishes no metadata has no authorization server, whatever
/// older revisions of the protocol made of its address.
pub(super) async fn discover(
    url: &Url,
    requests: Arc<dyn OAuthHttpClient>,
    challenge: Option<&str>,
) -> Result<DiscoveredIssuer, AuthError> {
    without_logs(async {
        let url = url.clone();
        let mut manager = AuthorizationManager::new_with_oauth_http_client(url, requests).await?;
        let found = manager.resolve_metadata_from_challenge(challenge).await?;
        if !found.source.is_discovered() {
            return Err(AuthError::NoAuthorizationSupport);
        }
        let knows_documents = found.metadata.additional_fields.get(DOCUMENTS);
        let knows_documents = knows_documents.and_then(serde_json::Value::as_bool) == Some(true);
        manager.set_metadata(found.metadata);
        Ok(DiscoveredIssuer { manager, knows_documents })
    })
    .await
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
    let request = clients.client_for(&endpoint.url).post(endpoint.url.clone());
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
