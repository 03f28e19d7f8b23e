//! The clients that reach the agent over HTTP: each with its token, from where the settings say
//! that it is, and with its id.

use std::collections::BTreeMap;
use std::path::Path;

use toolbus_config::{Errors, KeyReference, Mistake, Secret, read_secret_file};
use toolbus_http::tool_api;
use toolbus_tools::CredentialSource;

use crate::fleet::Fleet;
use crate::http_settings::{self, HttpSettings};
use crate::settings::Settings;
use crate::state;

/// The provider of tokens in the vault.
const VAULT_PROVIDER: &str = "http:tokens";
/// Longest token that is taken out of a file, in bytes: it comes in the head of a request.
const TOKEN_BYTES_MAX: usize = 4 << 10;

/// The clients that have tokens. Without any, everybody who reaches an address is let in.
#[derive(Default)]
pub(crate) struct HttpClients {
    /// The token of each, with its name before it.
    pub(crate) tokens: Vec<(String, String)>,
    /// The ids, by the names.
    pub(crate) ids: BTreeMap<String, String>,
}

/// The ids of clients cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the ids of the clients of http.tokens cannot be read")]
pub(crate) struct IdsError(#[source] toolbus_store::Error);

impl HttpClients {
    /// Reads the token of every client, where there is an address that clients come to. The vault
    /// is opened where one is there.
    ///
    /// # Errors
    /// With each that cannot be had: its key and why, and nothing of a token.
    pub(crate) async fn load(settings: &Settings) -> Result<Self, Errors> {
        if settings.http.address.is_none() && settings.mcp_face.address.is_none() {
            return Ok(Self::default());
        }

        let needs_vault = settings.http.tokens.values().any(is_in_vault);
        let store = if needs_vault { state::store(settings) } else { None };
        let vault = store.as_ref().and_then(|store| state::vault(settings, store));
        let source = vault.as_ref().map(|vault| vault as &dyn CredentialSource);

        let found = Self::read(&settings.http, source).await;
        if let Some(store) = store {
            store.close().await;
        }
        found
    }

    /// The same with this vault.
    pub(crate) async fn read(
        settings: &HttpSettings,
        vault: Option<&dyn CredentialSource>,
    ) -> Result<Self, Errors> {
        let mut found = Vec::new();
        for (name, written) in &settings.tokens {
            found.push(("tokens", name, find_token(written, vault).await));
        }
        for (name, file) in &settings.token_files {
            found.push(("token_files", name, read_token(file)));
        }

        let (mut tokens, mut mistakes) = (Vec::new(), Vec::new());
        for (setting, name, token) in found {
            let token = token.and_then(|token| {
                let token = token.trim().to_owned();
                http_settings::check_token(&token).map(|()| token)
            });
            match token {
                Ok(token) => tokens.push((name.clone(), token)),
                Err(what) => mistakes.push(Mistake::new(format!("http.{setting}.{name}"), what)),
            }
        }
        Errors::of(mistakes)?;
        Ok(Self { tokens, ids: BTreeMap::new() })
    }

    /// The same with the id of each. Without a state there are none.
    ///
    /// # Errors
    /// When they cannot be read or written.
    pub(crate) async fn with_ids(
        mut self,
        settings: &Settings,
        fleet: &Fleet,
    ) -> Result<Self, IdsError> {
        let has_own_face = settings.mcp_face.address.is_some() && !self.tokens.is_empty();
        let is_reached = settings.http.address.is_some() || has_own_face;
        let Some(state) = fleet.state().filter(|_| is_reached) else { return Ok(self) };
        // A state that nothing was kept in has no clients that could have been removed.
        if self.tokens.is_empty() && !state.store().may_hold_something() {
            return Ok(self);
        }

        let names: Vec<_> = self.tokens.iter().map(|(name, _)| name.clone()).collect();
        let ids = tool_api::client_ids(state.store(), fleet.toolbus().name(), names).await;
        self.ids = ids.map_err(IdsError)?;
        Ok(self)
    }
}

fn is_in_vault(written: &Secret) -> bool {
    matches!(KeyReference::parse(written), Ok(KeyReference::Vault(_)))
}

/// The token that is written, or that is where it is said to be.
async fn find_token(
    written: &Secret,
    vault: Option<&dyn CredentialSource>,
) -> Result<String, String> {
    match KeyReference::parse(written)? {
        KeyReference::Key(token) => Ok(token.expose().to_owned()),
        KeyReference::Variable(name) => match std::env::var(&name) {
            Ok(token) if !token.trim().is_empty() => Ok(token),
            _ => Err(format!("the variable {name} is not set")),
        },
        KeyReference::Vault(name) => {
            let Some(vault) = vault else {
                return Err(format!(
                    "{name} is in the vault, and there is none: set vault.key_file"
                ));
            };

            match vault.find(VAULT_PROVIDER, &name).await {
                Ok(Some(token)) => Ok(token.as_str().to_owned()),
                Ok(None) => Err(format!(
                    "the vault has no {name} of {VAULT_PROVIDER}; `agent-host vault set \
                     {VAULT_PROVIDER} {name}` puts it there"
                )),
                Err(error) => Err(format!("{name} cannot be read from the vault: {error}")),
            }
        }
    }
}

fn read_token(file: &Path) -> Result<String, String> {
    match read_secret_file(file, TOKEN_BYTES_MAX) {
        Ok(token) => Ok(token.expose().to_owned()),
        Err(error) => Err(format!("it cannot be read from {}: {error}", file.display())),
    }
}

#[cfg(test)]
mod tests;
