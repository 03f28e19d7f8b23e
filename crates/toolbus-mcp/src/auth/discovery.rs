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
const REFUSAL_WAIT: Duration = Duration::from_secs(10);

/// The member of an authorization server's metadata that says so.
const DOCUMENTS: &str = "client_id_metadata_document_supported";

/// What was found.
pub(super) struct Found {
    /// It knows the authorization server.
    pub(super) manager: AuthorizationManager,
    /// Whether the authorization server takes the address of a document for a client's id.
    pub(super) knows_documents: bool,
}

/// Finds the authorization server of the server at `url`.
///
/// Nothing is guessed: a server that publishes no metadata has no authorization server, whatever
/// older revisions of the protocol made of its address.
pub(super) async fn manager(
    url: &Url,
    requests: Arc<dyn OAuthHttpClient>,
    challenge: Option<&str>,
) -> Result<Found, AuthError> {
    quietly(async {
        let url = url.clone();
        let mut manager = AuthorizationManager::new_with_oauth_http_client(url, requests).await?;
        let found = manager.resolve_metadata_from_challenge(challenge).await?;
        if !found.source.is_discovered() {
            return Err(AuthError::NoAuthorizationSupport);
        }
        let knows_documents = found.metadata.additional_fields.get(DOCUMENTS);
        let knows_documents = knows_documents.and_then(serde_json::Value::as_bool) == Some(true);
        manager.set_metadata(found.metadata);
        Ok(Found { manager, knows_documents })
    })
    .await
}

/// What a server says when it refuses a request that has no token: where its metadata is, and which
/// scope it wants. None when it does not refuse, or says nothing.
///
/// Asked as it will be asked again and again, by POST: many servers answer GET with 404 or 405, token
/// or not. The request is one that opens no session.
pub(super) async fn challenge(clients: &HttpClients, endpoint: &Endpoint) -> Option<String> {
    let question = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {}});
    let request = clients.client_for(&endpoint.url).post(endpoint.url.clone());
    let request = request
        .headers(endpoint.headers.iter().cloned().collect())
        .header(ACCEPT, "application/json, text/event-stream")
        .json(&question);
    let answer = timeout(REFUSAL_WAIT, request.send()).await.ok()?.ok()?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return None;
    }
    let said = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    let said: Vec<&str> = said.filter_map(|value| value.to_str().ok()).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// Runs what rmcp does for OAuth without its logs: they hold codes, and what authorization servers
/// answer.
pub(super) async fn quietly<T>(work: impl Future<Output = T>) -> T {
    work.with_subscriber(Dispatch::none()).await
}
