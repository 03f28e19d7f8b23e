//! The file that keeps what a login has brought, one for each server.
//!
//! Invariants: only its owner may read it (0600, in a folder of 0700); it is replaced as a whole or
//! not at all; a token in it is for the address that stands beside it and goes nowhere else. Two
//! processes that renew the same token do so one after another.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use oauth2::TokenResponse as _;
use reqwest::Url;
use rmcp::transport::auth::OAuthClientConfig;
use rmcp::transport::{AuthError, CredentialRefreshGuard, CredentialStore, StoredCredentials};
use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use tokio::time::{Instant, sleep};
use toolbus_wire::message::Secret;

use super::Error;
use crate::config::AuthorizationCode;
use crate::eraser::Eraser;
use crate::server_name::ServerName;

/// Longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How long another process may hold the file: longer than one refresh takes.
const LOCK_WAIT: Duration = Duration::from_secs(15);
/// How often it is tried meanwhile.
const LOCK_PAUSE: Duration = Duration::from_millis(50);

/// The file of one server. Clones are the same file.
#[derive(Clone)]
pub(super) struct Store {
    file: Option<Arc<Path>>,
    url: Url,
    eraser: Eraser,
    /// The secret of a client that was registered just now.
    client_secret: Option<Secret>,
}

/// What the file holds.
#[derive(Serialize, Deserialize)]
pub(super) struct Kept {
    /// The address that the tokens are for.
    url: String,
    /// The secret of the client that was registered at the login, where it got one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    client_secret: Option<Secret>,
    /// What the server asked for since, which the next login has to be for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) wanted_scopes: Vec<String>,
    pub(super) credentials: StoredCredentials,
}

impl Kept {
    /// Whether it was got by a client as this one is configured.
    pub(super) fn is_of(&self, code: &AuthorizationCode) -> bool {
        code.client_id.as_ref().is_none_or(|id| *id == self.credentials.client_id)
    }

    /// The client that the tokens were given to.
    pub(super) fn client(&self, code: &AuthorizationCode) -> OAuthClientConfig {
        // No redirect happens where this is used.
        let client = OAuthClientConfig::new(&*self.credentials.client_id, &*self.url);
        match code.client_secret.as_ref().or(self.client_secret.as_ref()) {
            Some(secret) => client.with_client_secret(secret.expose()),
            None => client,
        }
    }
}

impl Store {
    pub(super) fn new(
        folder: Option<PathBuf>,
        server: &ServerName,
        url: &Url,
        eraser: Eraser,
    ) -> Self {
        let name = server.as_str().to_ascii_lowercase();
        let file = folder.map(|folder| folder.join(format!("{name}.json")).into());
        Self { file, url: url.clone(), eraser, client_secret: None }
    }

    /// The same file, for a client that was given this secret when it was registered.
    pub(super) fn of_client(&self, client_secret: Option<Secret>) -> Self {
        Self { client_secret, ..self.clone() }
    }

    /// What is kept for this server at this address. A file that makes no sense keeps nothing.
    pub(super) async fn read(&self) -> Result<Option<Kept>, Error> {
        let Some(file) = self.file.clone() else { return Ok(None) };
        let text = blocking(move || read(&file)).await?;
        let Some(text) = text else { return Ok(None) };
        let kept = match serde_json::from_slice::<Kept>(&text) {
            Ok(kept) if kept.url == self.url.as_str() => kept,
            Ok(_) => return Ok(None),
            Err(_) => {
                tracing::warn!(file = ?self.file, "the file of tokens cannot be understood");
                return Ok(None);
            }
        };
        if let Some(given) = &kept.credentials.token_response {
            let refresh = given.refresh_token().map(|token| token.secret());
            for secret in [Some(given.access_token().secret()), refresh].into_iter().flatten() {
                self.eraser.learn(&Secret::from(secret.clone()));
            }
        }
        if let Some(secret) = &kept.client_secret {
            self.eraser.learn(secret);
        }
        Ok(Some(kept))
    }

    /// Notes what the next login has to be for.
    pub(super) async fn want(&self, scopes: &[String]) -> Result<(), Error> {
        let Some(mut kept) = self.read().await? else { return Ok(()) };
        let new = scopes.iter().filter(|scope| !kept.wanted_scopes.contains(scope));
        let new: Vec<String> = new.cloned().collect();
        if new.is_empty() {
            return Ok(());
        }
        kept.wanted_scopes.extend(new);
        self.write(&kept).await
    }

    async fn write(&self, kept: &Kept) -> Result<(), Error> {
        let file = self.file.clone().ok_or_else(|| {
            Error::Store("there is no folder for tokens: set mcp.tokens".to_owned())
        })?;
        let text = serde_json::to_vec(kept).map_err(|error| Error::Store(error.to_string()))?;
        blocking(move || replace(&file, &text)).await
    }

    async fn put(&self, credentials: StoredCredentials) -> Result<(), Error> {
        let before = self.read().await?;
        let (client_secret, mut wanted_scopes) = match before {
            Some(kept) if kept.credentials.client_id == credentials.client_id => {
                (kept.client_secret, kept.wanted_scopes)
            }
            Some(kept) => (None, kept.wanted_scopes),
            None => (None, Vec::new()),
        };
        wanted_scopes.retain(|scope| !credentials.granted_scopes.contains(scope));
        let url = self.url.to_string();
        let client_secret = self.client_secret.clone().or(client_secret);
        self.write(&Kept { url, client_secret, wanted_scopes, credentials }).await?;
        // Learns what is new.
        self.read().await.map(drop)
    }
}

#[async_trait]
impl CredentialStore for Store {
    async fn load(&self) -> Result<Option<StoredCredentials>, AuthError> {
        Ok(self.read().await.map_err(failed)?.map(|kept| kept.credentials))
    }

    async fn save(&self, credentials: StoredCredentials) -> Result<(), AuthError> {
        self.put(credentials).await.map_err(failed)
    }

    async fn clear(&self) -> Result<(), AuthError> {
        let Some(file) = self.file.clone() else { return Ok(()) };
        let removed = blocking(move || match fs::remove_file(file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        });
        removed.await.map_err(failed)
    }

    /// A refresh token that was refused is not offered again.
    async fn on_refresh_token_rejected(&self, used: &StoredCredentials) -> Result<(), AuthError> {
        let refresh = |credentials: &StoredCredentials| {
            let given = credentials.token_response.as_ref()?;
            given.refresh_token().map(|token| token.secret().clone())
        };
        match self.read().await.map_err(failed)? {
            Some(mut kept) if refresh(&kept.credentials) == refresh(used) => {
                kept.credentials.token_response = None;
                self.write(&kept).await.map_err(failed)
            }
            _ => Ok(()),
        }
    }

    async fn acquire_refresh_guard(&self) -> Result<Option<CredentialRefreshGuard>, AuthError> {
        let Some(file) = &self.file else { return Ok(None) };
        let file = file.with_extension("lock");
        let locked = async {
            let file = blocking(move || open_lock(&file)).await?;
            let end = Instant::now() + LOCK_WAIT;
            loop {
                match file.try_lock() {
                    Ok(()) => return Ok(file),
                    Err(TryLockError::Error(error)) => return Err(Error::Store(error.to_string())),
                    Err(TryLockError::WouldBlock) if Instant::now() >= end => {
                        return Err(Error::Store("another process is renewing it".to_owned()));
                    }
                    Err(TryLockError::WouldBlock) => sleep(LOCK_PAUSE).await,
                }
            }
        };
        Ok(Some(CredentialRefreshGuard::new(locked.await.map_err(failed)?)))
    }
}

fn failed(error: Error) -> AuthError {
    AuthError::CredentialStoreError(match error {
        Error::Store(what) => what,
        other => other.to_string(),
    })
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Error> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| Error::Store(error.to_string()))
}

fn read(file: &Path) -> io::Result<Option<Vec<u8>>> {
    let opened = match File::open(file) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = Vec::new();
    opened.take(FILE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(Some(text))
}

fn open_lock(file: &Path) -> io::Result<File> {
    if let Some(folder) = file.parent() {
        make(folder)?;
    }
    OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(file)
}

fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Writes beside the file, for the owner only, and renames: a crash leaves the old file or the new.
fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    make(folder)?;
    let mut new = NamedTempFile::with_prefix_in(".", folder)?;
    new.write_all(text)?;
    new.as_file().sync_all()?;
    new.persist(file).map_err(|error| error.error)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests;
