//! A person's login: an address to open in a browser, and the code that comes back from there.
//!
//! It is bounded in time, ends with nothing kept when it fails, and shows neither code nor token.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use rmcp::transport::{
    AuthError, AuthorizationManager, AuthorizationRequest, AuthorizationSession,
};
use tokio::io::AsyncBufRead;
use tokio::time::timeout;
use toolbus_wire::message::Secret;

pub use super::callback::Callback;
use super::discovery::{self, DiscoveredIssuer, Discovery, without_logs};
use super::requests::OAuthRequests;
use super::token_store::{LoginNotes, StoredLogin, TokenStore};
use crate::config::{AuthorizationCode, Entry, Grant, Target};
use crate::eraser::Eraser;
use crate::http::HttpClients;
use crate::server_name::ServerName;

/// The client's name at authorization servers that register it.
const CLIENT_NAME: &str = "Toolbus";

/// A login that has begun.
pub struct Login {
    server: ServerName,
    session: AuthorizationSession,
    callback: Callback,
    state: String,
    eraser: Eraser,
}

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server's entry does not ask for one.
    #[error("the entry of '{0}' in mcp.json has no auth of type authorization_code")]
    NotNeeded(String),
    /// There is no such entry.
    #[error("there is no server '{0}' in mcp.json")]
    NoServer(String),
    /// The login was not finished in time.
    #[error("nobody logged in within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The authorization server said no.
    #[error("the login was refused: {0}")]
    Refused(String),
    /// The port for the browser cannot be opened.
    #[error("cannot listen on the port that the browser comes back to")]
    Port(#[source] std::io::Error),
    /// The HTTP client cannot be built.
    #[error("the HTTP client cannot be built")]
    Client(#[from] reqwest::Error),
    /// It is the authorization server, what is said about it, or the file for the tokens.
    #[error("no login at '{server}': {reason}")]
    Failed {
        /// The server.
        server: String,
        /// What is wrong.
        reason: String,
    },
}

impl Login {
    /// Finds the authorization server of an entry and becomes its client: the configured one, one
    /// by metadata document, or one that is registered now.
    ///
    /// # Errors
    /// When the entry asks for no login, or there is no way to one.
    pub async fn begin(entry: &Entry, tokens: Option<PathBuf>) -> Result<Self, Error> {
        let Target::Endpoint(endpoint) = &entry.target else {
            return Err(Error::NotNeeded(entry.name.to_string()));
        };
        let Some(Grant::AuthorizationCode(code)) = &endpoint.grant else {
            return Err(Error::NotNeeded(entry.name.to_string()));
        };

        let mut url = endpoint.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        let eraser = entry.eraser();
        let explain = |error| oauth_error(error, &entry.name, &eraser);
        let store = TokenStore::new(tokens, &entry.name, &url, eraser.clone());
        let kept = store.read().await.map_err(|error| login_error(&error, &entry.name))?;
        let clients = HttpClients::new()?;

        // What the server says today, or what it said to a bridge whose request it refused.
        let challenge = discovery::request_challenge(&clients, endpoint).await;
        let challenge = challenge.or_else(|| kept.as_ref()?.challenge.clone());
        // Boxed: it is large, and would be part of the caller's future.
        let issuer = code.issuer.as_ref();
        let requests = Arc::new(OAuthRequests::new(&clients, &url, issuer));
        let discovery = Discovery {
            server: &entry.name,
            url: &url,
            issuer,
            requests: &requests,
            eraser: &eraser,
        };
        let found = Box::pin(discovery.find(challenge.as_deref())).await;
        let found = found.map_err(|error| login_error(&error, &entry.name))?;

        let callback = Callback::listen(code.redirect_port).await.map_err(Error::Port)?;
        let asked_scopes = scopes_to_request(&found.manager, code, kept.as_ref()).await;
        let notes = LoginNotes { client_secret: None, asked_scopes, challenge };
        let session = start_authorization(found, code, &store, callback.redirect_uri(), notes);
        let session = Box::pin(without_logs(session)).await.map_err(explain)?;

        let page = Url::parse(session.get_authorization_url()).map_err(|e| explain(e.into()))?;
        if !requests.is_allowed(&page) {
            let insecure = super::Error::Metadata("its page for logins is not https".to_owned());
            return Err(login_error(&insecure, &entry.name));
        }

        let state = page.query_pairs().find(|(name, _)| name == "state");
        let state = state.map(|(_, value)| value.into_owned()).unwrap_or_default();
        Ok(Self { server: entry.name.clone(), session, callback, state, eraser })
    }

    /// The address to open in a browser.
    #[must_use]
    pub fn url(&self) -> &str {
        self.session.get_authorization_url()
    }

    /// Waits up to `limit` for the person to have logged in, takes the token and keeps it. The
    /// address that the browser ends at may also come as a line of `pasted`.
    ///
    /// # Errors
    /// When the login was not finished in time, or there is no token for it.
    pub async fn finish(
        self,
        limit: Duration,
        pasted: impl AsyncBufRead + Unpin,
    ) -> Result<(), Error> {
        let answer = timeout(limit, self.callback.wait_for_answer(&self.state, pasted)).await;
        let answer = answer.unwrap_or(Err(Error::TimedOut(limit)))?;
        let exchanged = without_logs(self.session.handle_callback_url(answer.as_str())).await;
        exchanged.map_err(|error| oauth_error(error, &self.server, &self.eraser)).map(drop)
    }
}

/// What to ask for: what is configured, else what the server says that it needs; and what the
/// server asked for since, with what was granted before.
async fn scopes_to_request(
    manager: &AuthorizationManager,
    code: &AuthorizationCode,
    kept: Option<&StoredLogin>,
) -> Vec<String> {
    let mut scopes = match &code.scopes[..] {
        [] => manager.select_initial_scopes(&[]).await,
        configured => configured.to_vec(),
    };

    if let Some(kept) = kept.filter(|kept| !kept.wanted_scopes.is_empty()) {
        let granted = kept.credentials.as_ref().map(|given| &given.granted_scopes);
        for scope in granted.into_iter().flatten().chain(&kept.wanted_scopes) {
            if !scopes.contains(scope) {
                scopes.push(scope.clone());
            }
        }
    }

    scopes
}

async fn start_authorization(
    found: DiscoveredIssuer,
    code: &AuthorizationCode,
    store: &TokenStore,
    redirect_uri: String,
    notes: LoginNotes,
) -> Result<AuthorizationSession, AuthError> {
    let DiscoveredIssuer { mut manager, knows_documents } = found;
    let scopes = &notes.asked_scopes;
    let request = AuthorizationRequest::new(&*redirect_uri).with_scopes(scopes.clone());
    let request = request.with_initial_scope_selection();

    let (request, secret) = if let Some(id) = &code.client_id {
        let request = request.with_preregistered_client(id);
        match &code.client_secret {
            Some(secret) => (request.with_client_secret(secret.expose()), None),
            None => (request, None),
        }
    } else if let Some(url) = code.client_metadata_url.as_ref().filter(|_| knows_documents) {
        (request.with_client_metadata_url(url), None)
    } else {
        let names: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let client = manager.register_client(CLIENT_NAME, &redirect_uri, &names).await?;
        let request = request.with_preregistered_client(client.client_id);
        match client.client_secret {
            Some(secret) => (request.with_client_secret(&*secret), Some(Secret::from(secret))),
            None => (request, None),
        }
    };

    manager.set_credential_store(store.for_login(LoginNotes { client_secret: secret, ..notes }));
    AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)
}

fn oauth_error(error: AuthError, server: &ServerName, eraser: &Eraser) -> Error {
    login_error(&super::Error::from_rmcp(error, server, eraser), server)
}

fn login_error(error: &super::Error, server: &ServerName) -> Error {
    Error::Failed { server: server.to_string(), reason: error.to_string() }
}
