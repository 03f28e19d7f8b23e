//! Logins of a person, and their end.

use std::time::Duration;

use reqwest::Url;

use super::oauth::{BrowserLogin, DeviceLogin, Granted, OAuthClient, OAuthError};
use super::product::Product;
use super::{Client, Error, GoogleDeps, GoogleSettings};

/// Logs a person in at Google, and out.
pub struct GoogleLogin {
    oauth: OAuthClient,
    products: Vec<Product>,
}

/// Why nobody can log in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The client is not set up.
    #[error(transparent)]
    Client(#[from] Error),
    /// Its id or secret cannot be read.
    #[error("{0}")]
    Key(String),
}

impl GoogleLogin {
    /// Makes ready to log in for these products.
    ///
    /// # Errors
    /// When the client has no id or no secret.
    pub async fn new(
        settings: &GoogleSettings,
        deps: &GoogleDeps,
        products: &[Product],
    ) -> Result<Self, LoginError> {
        let client = Client::new(settings, deps)?;
        let oauth = client.oauth().await.map_err(|error| LoginError::Key(error.to_string()))?;
        Ok(Self { oauth, products: products.to_vec() })
    }

    /// Begins a login whose answer a browser brings to this address of the machine.
    #[must_use]
    pub fn begin_in_browser(&self, redirect: &str) -> BrowserLogin {
        self.oauth.begin_browser(&self.products, redirect)
    }

    /// Takes the answer of the browser: the address that it ended at.
    ///
    /// # Errors
    /// When it belongs to another login, or Google refuses.
    pub async fn finish_in_browser(
        &self,
        login: BrowserLogin,
        answer: &Url,
    ) -> Result<Granted, OAuthError> {
        self.oauth.finish_browser(login, answer, &self.products).await
    }

    /// Begins a login that a person finishes on another device.
    ///
    /// # Errors
    /// When Google refuses. It has no devices log in for Gmail and Calendar (`invalid_scope`);
    /// other servers, which the settings may name, do.
    pub async fn begin_on_device(&self) -> Result<DeviceLogin, OAuthError> {
        self.oauth.begin_device(&self.products).await
    }

    /// Waits up to a limit for the person to have confirmed it.
    ///
    /// # Errors
    /// When nobody does, or Google refuses.
    pub async fn finish_on_device(
        &self,
        login: &DeviceLogin,
        limit: Duration,
    ) -> Result<Granted, OAuthError> {
        self.oauth.finish_device(login, &self.products, limit).await
    }

    /// Has Google forget a refresh token, and all that was granted with it.
    ///
    /// # Errors
    /// When Google refuses, or does not answer.
    pub async fn revoke(&self, refresh_token: &str) -> Result<(), OAuthError> {
        self.oauth.revoke(refresh_token).await
    }
}
