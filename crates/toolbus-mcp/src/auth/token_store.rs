//! The token store: one file for each server, with what a login has brought.
//!
//! Invariants: only its owner may read it (0600, in a folder of 0700); it is replaced as a whole or
//! not at all; a token in it is for the address that stands beside it and goes nowhere else. Two
//! processes that refresh the same token do so one after another.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oauth2::TokenResponse as _;
use reqwest::Url;
use rmcp::transport::auth::OAuthClientConfig;
use rmcp::transport::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use toolbus_json::Limits;
use toolbus_wire::message::Secret;

use super::Error;
use crate::config::AuthorizationCode;
use crate::eraser::Eraser;
use crate::server_name::ServerName;
use crate::small_file::{self, LockError, LockWait};

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// What a file may have. Most values are scopes, and some servers have hundreds.
const FILE_LIMITS: Limits = Limits::of_bytes(FILE_BYTES_MAX as usize).with_values(16 << 10);
/// Longest challenge of a server that is kept, in bytes.
const CHALLENGE_BYTES_MAX: usize = 4 << 10;
/// How a lock is waited for that another process holds: longer than one refresh takes.
const LOCK_WAIT: LockWait =
    LockWait { timeout: Duration::from_secs(35), interval: Duration::from_millis(50) };

/// The file of one server. Clones are the same file.
#[derive(Clone)]
pub(super) struct TokenStore {
    file: Option<Arc<Path>>,
    url: Url,
    eraser: Eraser,
    /// The login that is being made.
    login: LoginNotes,
}

/// What a login has to be remembered by, beside the tokens it brings.
#[derive(Clone, Default)]
pub(super) struct LoginNotes {
    /// The secret of a client that was registered just now.
    pub(super) client_secret: Option<Secret>,
    /// What it asks for.
    pub(super) asked_scopes: Vec<String>,
    /// What the server said when it refused a request without a token.
    pub(super) challenge: Option<String>,
}

/// The login that the file holds.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredLogin {
    /// The address that the tokens are for.
    url: String,
    /// The secret of the client that was registered at the login, where it got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<Secret>,
    /// What the last login asked for, whether or not it was given.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) asked_scopes: Vec<String>,
    /// What the server asked for since, which the next login has to be for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted_scopes: Vec<String>,
    /// What the server said when it refused a request without a token: the header
    /// `WWW-Authenticate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) challenge: Option<String>,
    /// None before the first login.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) credentials: Option<StoredCredentials>,
}

impl StoredLogin {
    fn empty(url: &Url) -> Self {
        Self {
            url: url.to_string(),
            client_secret: None,
            asked_scopes: Vec::new(),
            wanted_scopes: Vec::new(),
            challenge: None,
            credentials: None,
        }
    }

    /// Whether it was got by a client as this one is configured.
    pub(super) fn belongs_to(&self, code: &AuthorizationCode) -> bool {
        let credentials = self.credentials.as_ref();
        let known = credentials.map(|credentials| &credentials.client_id);
        code.client_id.as_ref().is_none_or(|id| known.is_none_or(|known| id == known))
    }

    /// The client that the tokens were given to.
    pub(super) fn client_config(&self, code: &AuthorizationCode) -> OAuthClientConfig {
        let id = self.credentials.as_ref().map_or("", |credentials| &credentials.client_id);
        // No redirect happens where this is used.
        let client = OAuthClientConfig::new(id, &*self.url);
        match code.client_secret.as_ref().or(self.client_secret.as_ref()) {
            Some(secret) => client.with_client_secret(secret.expose()),
            None => client,
        }
    }
}

impl TokenStore {
    pub(super) fn new(
        folder: Option<PathBuf>,
        server: &ServerName,
        url: &Url,
        eraser: Eraser,
    ) -> Self {
        let name = server.as_str().to_ascii_lowercase();
        let file = folder.map(|folder| folder.join(format!("{name}.json")).into());
        Self { file, url: url.clone(), eraser, login: LoginNotes::default() }
    }

    /// The same file, for a login that is being made.
    pub(super) fn for_login(&self, login: LoginNotes) -> Self {
        Self { login, ..self.clone() }
    }

    /// Reads what is stored for this server at this address. A file that makes no sense keeps
    /// nothing.
    pub(super) async fn read(&self) -> Result<Option<StoredLogin>, Error> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let text = run_blocking(move || read_file(&file)).await?;
        let Some(text) = text else { return Ok(None) };

        let kept = match toolbus_json::from_slice::<StoredLogin>(&text, &FILE_LIMITS) {
            Ok(kept) if kept.url == self.url.as_str() => kept,
            Ok(_) => return Ok(None),
            Err(_) => {
                let file = self.file.as_ref().map(|file| tracing::field::display(file.display()));
                tracing::warn!(file, "token file cannot be parsed and is ignored");
                return Ok(None);
            }
        };

        let credentials = kept.credentials.as_ref();
        if let Some(given) = credentials.and_then(|given| given.token_response.as_ref()) {
            let refresh = given.refresh_token().map(|token| token.secret());
            for secret in [Some(given.access_token().secret()), refresh].into_iter().flatten() {
                self.eraser.add_secrets(&Secret::from(secret.clone()));
            }
        }

        if let Some(secret) = &kept.client_secret {
            self.eraser.add_secrets(secret);
        }

        Ok(Some(kept))
    }

    /// Notes what the next login has to be for.
    pub(super) async fn record_wanted_scopes(&self, scopes: &[String]) -> Result<(), Error> {
        let Some(mut kept) = self.read().await? else { return Ok(()) };
        let new = scopes.iter().filter(|scope| !kept.wanted_scopes.contains(scope));
        let new: Vec<String> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        kept.wanted_scopes.extend(new);
        self.write(&kept).await
    }

    /// Notes how the server has refused a request without a token, for the login that this needs.
    /// Without a folder for tokens there is nothing to note it in.
    pub(super) async fn record_challenge(&self, challenge: &str) -> Result<(), Error> {
        if self.file.is_none() || challenge.len() > CHALLENGE_BYTES_MAX {
            return Ok(());
        }
        let before = self.read().await?;
        if before.as_ref().is_some_and(|kept| kept.challenge.as_deref() == Some(challenge)) {
            return Ok(());
        }
        let kept = before.unwrap_or_else(|| StoredLogin::empty(&self.url));
        self.write(&StoredLogin { challenge: Some(challenge.to_owned()), ..kept }).await
    }

    async fn write(&self, kept: &StoredLogin) -> Result<(), Error> {
        let file = self.file.clone().ok_or_else(|| {
            Error::Store("there is no folder for tokens: set mcp.tokens".to_owned())
        })?;
        let text = serde_json::to_vec(kept).map_err(|error| Error::Store(error.to_string()))?;
        run_blocking(move || write_file(&file, &text)).await
    }

    async fn store_credentials(&self, credentials: StoredCredentials) -> Result<(), Error> {
        let before = self.read().await?;
        let mut kept = before.unwrap_or_else(|| StoredLogin::empty(&self.url));
        let login = self.login.clone();

        if kept.credentials.is_none_or(|known| known.client_id != credentials.client_id) {
            kept.client_secret = None;
        }

        kept.client_secret = login.client_secret.or(kept.client_secret);
        if !login.asked_scopes.is_empty() {
            kept.asked_scopes = login.asked_scopes;
        }

        kept.challenge = login.challenge.or(kept.challenge);
        kept.wanted_scopes.retain(|scope| !credentials.granted_scopes.contains(scope));
        self.write(&StoredLogin { credentials: Some(credentials), ..kept }).await?;

        // Learns what is new.
        self.read().await.map(drop)
    }
}

#[async_trait]
impl CredentialStore for TokenStore {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read().await.map_err(store_error)?.and_then(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.store_credentials(credentials).await.map_err(store_error)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let removed = run_blocking(move || match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        removed.await.map_err(store_error)
    }

    /// A refresh token that was refused is not offered again.
    async fn on_refresh_token_rejected(&self, used: &StoredCredentials) -> Result<(), AuthError> {
        let refresh = |credentials: &StoredCredentials| {
            let given = credentials.token_response.as_ref()?;
            given.refresh_token().map(|token| token.secret().clone())
        };
        let Some(mut kept) = self.read().await.map_err(store_error)? else { return Ok(()) };

        match &mut kept.credentials {
            Some(credentials) if refresh(credentials) == refresh(used) => {
                credentials.token_response = None;
                self.write(&kept).await.map_err(store_error)
            }
            _ => Ok(()),
        }
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Some(file) = &self.file else { return Ok(None) };
        let path = file.with_extension("lock");

        let locked = async {
            let opened = run_blocking(move || {
                small_file::create_folder(small_file::folder_of(&path))?;
                small_file::open_private(&path)
            });
            let lock_file = opened.await?;

            match LOCK_WAIT.lock_async(&lock_file).await {
                Ok(()) => Ok(lock_file),
                Err(LockError::Held) => {
                    Err(Error::Store("another process is refreshing this token".to_owned()))
                }
                Err(LockError::File(error)) => Err(Error::Store(error.to_string())),
            }
        };

        let lock_file = locked.await.map_err(store_error)?;

        Ok(Some(CredentialRefreshGuard::new(lock_file)))
    }
}

fn store_error(error: Error) -> AuthError {
    AuthError::CredentialStoreError(match error {
        Error::Store(what) => what,
        other => other.to_string(),
    })
}

async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| Error::Store(error.to_string()))
}

/// The bytes of the file, or `None` when it is missing.
fn read_file(file: &Path) -> io::Result<Option<Vec<u8>>> {
    match small_file::read_if_exists(file, FILE_BYTES_MAX) {
        // No file of ours: it makes no sense, as does an empty one.
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(Some(Vec::new())),
        read => read,
    }
}

fn write_file(file: &Path, text: &[u8]) -> io::Result<()> {
    small_file::create_folder(small_file::folder_of(file))?;
    small_file::replace_and_sync(file, text)
}

#[cfg(test)]
mod tests;
