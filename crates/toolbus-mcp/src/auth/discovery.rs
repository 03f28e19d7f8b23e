//! Finds a server's authorization server.

use std::sync::Arc;

use reqwest::Url;
use rmcp::transport::{AuthError, AuthorizationManager, OAuthHttpClient};
use tracing::Dispatch;
use tracing::instrument::WithSubscriber;

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

/// Runs what rmcp does for OAuth without its logs: they hold codes, and what authorization servers
/// answer.
pub(super) async fn quietly<T>(work: impl Future<Output = T>) -> T {
    work.with_subscriber(Dispatch::none()).await
}
