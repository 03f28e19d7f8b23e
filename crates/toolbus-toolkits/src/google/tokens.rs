//! Access tokens of calls, which are refreshed in memory.
//!
//! Calls that start together make one refresh: the first holds the lock while it asks. A token is
//! good as long as the refresh token is in the vault that it was made with, so a logout counts at
//! once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use toolbus_tools::CredentialSource;
use zeroize::Zeroizing;

use super::oauth::{OAuthClient, OAuthError};
use super::product::Product;
use super::{Client, VAULT_PROVIDER};

/// How long before its end an access token is not used any more.
const EXPIRY_GRACE: Duration = Duration::from_secs(60);

/// The access tokens of the products.
pub(super) struct Tokens {
    vault: Option<Arc<dyn CredentialSource>>,
    gmail: Mutex<Option<KeptToken>>,
    calendar: Mutex<Option<KeptToken>>,
}

struct KeptToken {
    refresh_token: Zeroizing<String>,
    access_token: Zeroizing<String>,
    good_until: Instant,
}

/// What a request is made with.
#[derive(Clone)]
pub(super) struct CallToken {
    pub(super) access_token: Zeroizing<String>,
    /// To keep it out of texts.
    pub(super) refresh_token: Zeroizing<String>,
}

/// Why a call has no token, in words that models may read.
#[derive(Debug, thiserror::Error)]
pub(super) enum TokenError {
    #[error(
        "logins at Google are kept in the vault, and there is none: set vault.key_file or \
         vault.key_command, then run `agent-host login google`"
    )]
    NoVault,
    #[error("nobody has logged in for {0}: run `agent-host login google`")]
    NoLogin(&'static str),
    #[error("the login for {0} is over or was revoked: run `agent-host login google`")]
    Over(&'static str),
    #[error("{0}")]
    Unreadable(String),
    #[error("the access token cannot be refreshed: {0}")]
    OAuth(#[source] OAuthError),
    #[error("{0}")]
    Client(String),
}

impl Tokens {
    pub(super) fn new(vault: Option<Arc<dyn CredentialSource>>) -> Self {
        Self { vault, gmail: Mutex::new(None), calendar: Mutex::new(None) }
    }

    /// The token for a product, refreshed where it is over or is the one that Google refused.
    pub(super) async fn find(
        &self,
        product: Product,
        client: &Client,
        refused: Option<&CallToken>,
    ) -> Result<CallToken, TokenError> {
        let mut kept = match product {
            Product::Gmail => self.gmail.lock().await,
            Product::Calendar => self.calendar.lock().await,
        };
        let refresh_token = self.refresh_token(product).await?;
        if let Some(kept) = &*kept
            && kept.refresh_token == refresh_token
            && kept.good_until > Instant::now()
            && refused.is_none_or(|refused| refused.access_token != kept.access_token)
        {
            return Ok(kept.for_call());
        }

        let oauth = client.oauth().await.map_err(|error| TokenError::Client(error.to_string()))?;
        let fresh = refresh(&oauth, &refresh_token, product).await?;
        let made = KeptToken {
            refresh_token,
            access_token: fresh.text,
            good_until: Instant::now() + fresh.ttl.saturating_sub(EXPIRY_GRACE),
        };
        let token = made.for_call();
        *kept = Some(made);
        Ok(token)
    }

    async fn refresh_token(&self, product: Product) -> Result<Zeroizing<String>, TokenError> {
        let vault = self.vault.as_ref().ok_or(TokenError::NoVault)?;
        let found = vault.find(VAULT_PROVIDER, product.token_name()).await;
        let found = found.map_err(|error| TokenError::Unreadable(error.to_string()))?;
        let found = found.filter(|token| !token.trim().is_empty());
        found.ok_or(TokenError::NoLogin(product.title()))
    }
}

impl KeptToken {
    fn for_call(&self) -> CallToken {
        CallToken {
            access_token: self.access_token.clone(),
            refresh_token: self.refresh_token.clone(),
        }
    }
}

async fn refresh(
    oauth: &OAuthClient,
    refresh_token: &str,
    product: Product,
) -> Result<super::oauth::AccessToken, TokenError> {
    oauth.refresh(refresh_token).await.map_err(|error| match error {
        OAuthError::Refused { code, .. } if code == "invalid_grant" => {
            TokenError::Over(product.title())
        }
        error => TokenError::OAuth(error),
    })
}
