//! Access tokens for servers that ask for OAuth: obtained, stored, refreshed and requested again.
//!
//! rmcp knows the protocol (discovery, registration, PKCE, the token requests); this decides when
//! it is used. Invariants: one token is obtained at a time, and everyone who waited uses that one.
//! A token request that was begun is not dropped with the call that wanted it, nor by any limit but
//! its own, for the answer may hold the only refresh token that is still good. A request of a
//! server is sent again once at most. No token is in an error, a log or a `Debug` text, and each is
//! erased from what the server says.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use oauth2::TokenResponse as _;
use parking_lot::Mutex;
use reqwest::Url;
use rmcp::transport::auth::OAuthTokenResponse;
use rmcp::transport::{AuthorizationManager, ClientCredentialsConfig, StoredCredentials};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::Secret;

use crate::config::{ClientCredentials, Endpoint, Grant};
use crate::eraser::Eraser;
use crate::http::{self, HttpClients};
use crate::server_name::ServerName;

mod callback;
mod discovery;
mod error;
#[cfg(feature = "fuzzing")]
pub(crate) mod fuzzing;
pub mod login;
mod refusal;
mod requests;
mod token_refresh;
mod token_store;

use discovery::Discovery;
pub(crate) use error::Error;
use refusal::Refusal;
use requests::OAuthRequests;
use token_store::TokenStore;

/// How long a token is waited for. Obtaining it goes on.
const OBTAIN_TIMEOUT: Duration = Duration::from_secs(20);
/// How long it may take to find the authorization server.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long before its expiry a token counts as expired; less for short-lived tokens.
const EXPIRY_GRACE: Duration = Duration::from_secs(30);

/// The authorization of one server, over all its connections.
pub(crate) struct Authorization {
    server: ServerName,
    /// Without its query, which is no part of what a token is for.
    url: Url,
    grant: Grant,
    requests: Arc<OAuthRequests>,
    store: TokenStore,
    eraser: Eraser,
    tracker: TaskTracker,
    current: Mutex<Option<Token>>,
    obtaining: tokio::sync::Mutex<IssuerKnowledge>,
}

/// What is known of the authorization server, and which scopes were asked for.
#[derive(Default)]
struct IssuerKnowledge {
    manager: Option<AuthorizationManager>,
    /// What the server said last when it refused a request: where its metadata is may be said
    /// nowhere else.
    challenge: Option<String>,
    /// What a server asked for beyond what is configured.
    scopes: Vec<String>,
}

#[derive(Clone)]
struct Token {
    value: Secret,
    /// When it should not be used any more. Not said means when it is refused.
    until: Option<SystemTime>,
}

/// The reason for which a token is needed.
enum TokenNeed {
    /// There is none that can be used.
    Missing,
    /// The server refused this one, or a request without one.
    Refused(Option<Secret>, Refusal),
}

/// What an authorization is made of, beside its endpoint.
pub(crate) struct AuthorizationDeps<'a> {
    pub(crate) server: &'a ServerName,
    pub(crate) clients: &'a HttpClients,
    /// The folder that keeps tokens; see [`crate::settings::McpSettings::tokens`].
    pub(crate) folder: Option<PathBuf>,
    pub(crate) eraser: Eraser,
    pub(crate) tracker: TaskTracker,
}

impl Authorization {
    /// The authorization of a server that has one.
    pub(crate) fn of(endpoint: &Endpoint, deps: AuthorizationDeps<'_>) -> Option<Arc<Self>> {
        let grant = endpoint.grant.clone()?;
        let mut url = endpoint.url.clone();
        url.set_query(None);
        url.set_fragment(None);
        Some(Arc::new(Self {
            requests: Arc::new(OAuthRequests::new(deps.clients, &url, grant.issuer())),
            store: TokenStore::new(deps.folder, deps.server, &url, deps.eraser.clone()),
            server: deps.server.clone(),
            url,
            grant,
            eraser: deps.eraser,
            tracker: deps.tracker,
            current: Mutex::default(),
            obtaining: tokio::sync::Mutex::default(),
        }))
    }

    /// Makes a request with the token there is, and once more with another when the server refuses
    /// that one: it did not run what it refused.
    pub(crate) async fn send<T, F>(
        self: &Arc<Self>,
        request: impl Fn(Option<String>) -> F,
    ) -> Result<T, http::Error>
    where
        F: Future<Output = Result<T, http::Error>>,
    {
        let first = match self.usable_token() {
            Some(token) => Some(token),
            None => self.obtain_in_task(TokenNeed::Missing).await?,
        };
        let exposed = |token: &Secret| token.expose().to_owned();
        let error = match request(first.as_ref().map(exposed)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        let Some(refusal) = Refusal::of(&error) else { return Err(error) };
        let second = self.obtain_in_task(TokenNeed::Refused(first, refusal)).await?;
        let error = match request(second.as_ref().map(exposed)).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };

        match Refusal::of(&error) {
            Some(Refusal::Token { .. }) => Err(Error::Refused.into()),
            // Tells whether it is any use to ask for more. If so, the next call has it.
            Some(refusal) => match self.obtain_in_task(TokenNeed::Refused(second, refusal)).await {
                Ok(_) => Err(error),
                Err(reason) => Err(reason.into()),
            },
            None => Err(error),
        }
    }

    /// The token there is, unless it has ended.
    pub(crate) fn usable_token(&self) -> Option<Secret> {
        let current = self.current.lock();
        current.as_ref().filter(|token| token.is_usable()).map(|token| token.value.clone())
    }

    /// Obtains a token, or none where the server may do without one. In a task of its own, which
    /// ends by itself: a refresh token is good once, and its successor must not be lost. So only
    /// the waiting is limited here, and each step of the task for itself.
    async fn obtain_in_task(self: &Arc<Self>, need: TokenNeed) -> Result<Option<Secret>, Error> {
        let this = Arc::clone(self);
        let task = self.tracker.spawn(async move { this.obtain_token(need).await });

        match timeout(OBTAIN_TIMEOUT, task).await {
            Ok(Ok(obtained)) => obtained,
            Ok(Err(_)) => Err(Error::Server("the attempt failed".to_owned())),
            Err(_) => Err(Error::timed_out(OBTAIN_TIMEOUT)),
        }
    }

    async fn obtain_token(&self, need: TokenNeed) -> Result<Option<Secret>, Error> {
        // As long as its caller waits: whoever comes later has the token of the one before.
        let turn = timeout(OBTAIN_TIMEOUT, self.obtaining.lock()).await;
        let mut known = turn.map_err(|_| Error::timed_out(OBTAIN_TIMEOUT))?;
        let refused = match &need {
            TokenNeed::Missing => None,
            TokenNeed::Refused(token, _) => token.clone(),
        };

        if let Some(token) = self.usable_token().filter(|token| Some(token) != refused.as_ref()) {
            return Ok(Some(token));
        }

        if let Some(challenge) = need.challenge() {
            known.challenge = Some(challenge.to_owned());
        }

        let before = self.current.lock().take();
        let obtained = match &self.grant {
            Grant::ClientCredentials(client) => {
                self.exchange_client_credentials(client, &mut known, &need).await
            }
            Grant::AuthorizationCode(code) => {
                self.load_or_refresh_token(code, &mut known, &need).await
            }
        };

        match obtained {
            Ok(token) => {
                self.current.lock().clone_from(&token);
                Ok(token.map(|token| token.value))
            }
            Err(error @ Error::Scope(_)) => {
                // The token is as good as it was for everything else.
                *self.current.lock() = before;
                Err(error)
            }
            Err(error) => {
                // What was discovered may be what is wrong.
                known.manager = None;
                Err(error)
            }
        }
    }

    /// Exchanges the client's id and secret for a token. `None` where the authorization server is
    /// unknown until the server has refused a request.
    async fn exchange_client_credentials(
        &self,
        client: &ClientCredentials,
        known: &mut IssuerKnowledge,
        need: &TokenNeed,
    ) -> Result<Option<Token>, Error> {
        if let Some(scopes) = need.missing_scopes() {
            let is_asked_for =
                |scope| client.scopes.contains(scope) || known.scopes.contains(scope);
            if scopes.iter().all(is_asked_for) {
                return Err(Error::Scope(scopes.join(" ")));
            }
            known.scopes.extend(scopes.iter().cloned());
            known.scopes.sort();
            known.scopes.dedup();
        }

        let mut manager = match self.take_or_discover_manager(known).await {
            Err(Error::NoMetadata) if matches!(need, TokenNeed::Missing) => return Ok(None),
            found => found?,
        };
        let new = known.scopes.iter().filter(|scope| !client.scopes.contains(scope));
        let config = ClientCredentialsConfig::ClientSecret {
            client_id: client.client_id.clone(),
            client_secret: client.client_secret.expose().to_owned(),
            scopes: client.scopes.iter().chain(new).cloned().collect(),
            resource: Some(client.resource.clone().unwrap_or_else(|| self.url.to_string())),
        };

        let given = discovery::without_logs(async {
            manager.validate_client_credentials_metadata(&config)?;
            manager.configure_client_credentials(&config)?;
            manager.exchange_client_credentials(&config).await
        });
        let given = given.await.map_err(|error| self.explain_error(error))?;

        known.manager = Some(manager);
        let token = Token::from_response(&given, SystemTime::now());
        self.eraser.add_secrets(&token.value);
        tracing::debug!(server = %self.server, "obtained an access token");

        Ok(Some(token))
    }

    async fn take_or_discover_manager(
        &self,
        known: &mut IssuerKnowledge,
    ) -> Result<AuthorizationManager, Error> {
        match known.manager.take() {
            Some(manager) => Ok(manager),
            None => {
                let discovery = Discovery {
                    server: &self.server,
                    url: &self.url,
                    issuer: self.grant.issuer(),
                    requests: &self.requests,
                    eraser: &self.eraser,
                };
                let finding = discovery.find(known.challenge.as_deref());
                let found = timeout(DISCOVERY_TIMEOUT, finding).await;
                Ok(found.map_err(|_| Error::timed_out(DISCOVERY_TIMEOUT))??.manager)
            }
        }
    }

    fn needs_login(&self, scope: Option<String>) -> Error {
        Error::NeedsLogin { server: self.server.clone(), scope }
    }

    fn explain_error(&self, error: rmcp::transport::AuthError) -> Error {
        Error::from_rmcp(error, &self.server, &self.eraser)
    }
}

impl TokenNeed {
    fn refused_token(&self) -> Option<&Secret> {
        match self {
            Self::Missing => None,
            Self::Refused(token, _) => token.as_ref(),
        }
    }

    fn challenge(&self) -> Option<&str> {
        match self {
            Self::Refused(_, Refusal::Token { challenge }) if !challenge.is_empty() => {
                Some(challenge)
            }
            _ => None,
        }
    }

    fn missing_scopes(&self) -> Option<&[String]> {
        match self {
            Self::Refused(_, Refusal::Scopes(scopes)) => Some(scopes),
            _ => None,
        }
    }
}

impl Token {
    fn from_response(given: &OAuthTokenResponse, at: SystemTime) -> Self {
        let lifetime = given.expires_in();
        Self {
            value: Secret::from(given.access_token().secret().clone()),
            until: lifetime.and_then(|lifetime| {
                at.checked_add(lifetime.saturating_sub(EXPIRY_GRACE.min(lifetime / 4)))
            }),
        }
    }

    fn from_stored(credentials: &StoredCredentials) -> Option<Self> {
        let received_at = Duration::from_secs(credentials.token_received_at.unwrap_or(0));
        let at = SystemTime::UNIX_EPOCH.checked_add(received_at)?;
        Some(Self::from_response(credentials.token_response.as_ref()?, at))
    }

    fn is_usable(&self) -> bool {
        self.until.is_none_or(|until| SystemTime::now() < until)
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Carried through rmcp, whose errors have no place for ours.
impl From<Error> for http::Error {
    fn from(error: Error) -> Self {
        Self::Io(io::Error::other(error))
    }
}

/// Our own error inside one of rmcp's, if there is one.
pub(crate) fn carried_error(error: &http::Error) -> Option<&Error> {
    match error {
        http::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}
