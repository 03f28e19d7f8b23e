//! A vault that is opened when somebody needs it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;
use toolbus_store::LazyStore;
use toolbus_tools::{CredentialSource, Credentials, UnreadableCredential};
use zeroize::Zeroizing;

use crate::providers::Providers;
use crate::{CredentialPlace, KeySource, Vault, VaultError};

/// How long a key that could not be had, or is the wrong one, is not fetched again: a command that
/// fetches one may be dear.
const FETCH_BACKOFF: Duration = Duration::from_secs(1);

/// A vault that is opened at its first use, and again where that failed or its key was changed.
/// Clones are the same vault.
#[derive(Clone)]
pub struct LazyVault(Arc<Inner>);

struct Inner {
    store: LazyStore,
    key: KeySource,
    providers: OnceCell<Providers>,
    /// Held while the key is fetched: of all that need it, one fetches it.
    opened: Mutex<OpenState>,
}

#[derive(Default)]
struct OpenState {
    vault: Option<Vault>,
    failed: Option<(Instant, VaultError)>,
}

impl LazyVault {
    /// The vault of a store, which knows [`MIGRATIONS`](crate::MIGRATIONS), with the key of this
    /// source.
    #[must_use]
    pub fn new(store: LazyStore, key: KeySource) -> Self {
        let (providers, opened) = (OnceCell::new(), Mutex::default());
        Self(Arc::new(Inner { store, key, providers, opened }))
    }

    /// Whether there may be a credential: a store without a file has none.
    #[must_use]
    pub fn may_hold_something(&self) -> bool {
        self.0.store.may_hold_something()
    }

    /// The vault, which is opened where it is not.
    ///
    /// # Errors
    /// When its store cannot be opened, its key cannot be had, or that is the wrong one.
    pub async fn open(&self) -> Result<Vault, VaultError> {
        self.open_newer_than(None).await
    }

    /// The credentials that a call of this tool by this caller is made with; see
    /// [`Vault::credentials`]. Without any of this provider, no key is fetched.
    ///
    /// # Errors
    /// Those of [`LazyVault::open`] and of [`Vault::credentials`].
    pub async fn credentials(
        &self,
        provider: &str,
        tool: &str,
        user: &str,
    ) -> Result<Credentials, VaultError> {
        if !self.has_any(provider).await? {
            return Ok(Credentials::default());
        }
        let vault = self.open().await?;
        match vault.credentials(provider, tool, user).await {
            Err(error) => {
                self.newer_than(&vault, error).await?.credentials(provider, tool, user).await
            }
            found => found,
        }
    }

    /// The value of one place, and of no other that may fit as well.
    ///
    /// # Errors
    /// Those of [`LazyVault::open`] and of [`Vault::find`].
    pub async fn find(
        &self,
        place: &CredentialPlace,
    ) -> Result<Option<Zeroizing<String>>, VaultError> {
        if !self.has_any(&place.provider).await? {
            return Ok(None);
        }
        let vault = self.open().await?;
        match vault.find(place).await {
            Err(error) => self.newer_than(&vault, error).await?.find(place).await,
            found => found,
        }
    }

    /// Whether a provider has credentials at all, as far as that is known here.
    pub(crate) fn knows_of(&self, provider: &str) -> Option<bool> {
        match self.0.providers.get() {
            Some(providers) => providers.knows_of(provider),
            None if !self.may_hold_something() => Some(false),
            None => None,
        }
    }

    async fn has_any(&self, provider: &str) -> Result<bool, VaultError> {
        if let Some(has_any) = self.knows_of(provider) {
            return Ok(has_any);
        }
        let Inner { store, providers, .. } = &*self.0;
        let open = async || Ok::<_, VaultError>(Providers::of(store.open().await?));
        Ok(providers.get_or_try_init(open).await?.has_any(provider).await?)
    }

    /// The vault with the key that its source has now, where this error says that somebody has
    /// changed it.
    ///
    /// # Errors
    /// This error, where it is another; and why there is no other key.
    async fn newer_than(&self, vault: &Vault, error: VaultError) -> Result<Vault, VaultError> {
        if !matches!(error, VaultError::WrongKey { .. }) {
            return Err(error);
        }
        tracing::info!(%error, "fetching the key of the vault again");
        self.open_newer_than(Some(vault.key_name())).await
    }

    /// The vault with another key than this one, which is not its key any more.
    async fn open_newer_than(&self, stale: Option<&str>) -> Result<Vault, VaultError> {
        let store = self.0.store.open().await?;
        let providers = self.0.providers.get_or_init(async || Providers::of(store)).await;

        let mut opened = self.0.opened.lock().await;
        let current = opened.vault.as_ref().filter(|vault| Some(vault.key_name()) != stale);
        if let Some(vault) = current {
            return Ok(vault.clone());
        }
        if let Some((at, error)) = &opened.failed
            && at.elapsed() < FETCH_BACKOFF
        {
            return Err(error.clone());
        }

        let fetching = async {
            let key = self.0.key.fetch().await?;
            Vault::open_with(store.clone(), key, providers.clone()).await
        };
        let result = fetching.await;
        match &result {
            Ok(vault) => *opened = OpenState { vault: Some(vault.clone()), failed: None },
            Err(error) => {
                *opened = OpenState { vault: None, failed: Some((Instant::now(), error.clone())) };
            }
        }
        result
    }
}

impl CredentialSource for LazyVault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>> {
        Box::pin(async move {
            match self.find(&CredentialPlace::new(provider, name)).await {
                Ok(found) => {
                    if found.is_some() {
                        // Who, what, when; no value.
                        tracing::info!(provider, credential = name, "a credential was read");
                    }
                    Ok(found)
                }
                Err(error) => {
                    tracing::error!(provider, credential = name, %error, "cannot read credential");
                    Err(UnreadableCredential(error.reason().to_owned()))
                }
            }
        })
    }
}
