//! The section `http` of the settings.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{KeyReference, ListenAddress, Mistakes, Secret};
use toolbus_http::ApiSettings;
use toolbus_http::tool_api::Plan;
use toolbus_runtime::http::visitors;

use crate::http_clients::HttpClients;
use crate::tool_api_settings::ToolApiSettings;

/// Shortest token, in bytes: what is shorter can be guessed.
const TOKEN_BYTES_MIN: usize = 16;
/// What else there is to do about an address that asks nobody for a token.
pub(crate) const TOKENS_ADVICE: &str = "give clients tokens (http.tokens, http.token_files)";

/// The agent for programs, over HTTP, while it serves.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where turns of the agent are taken at `/v1/turns`, such as `127.0.0.1:8810`. Everything that
    /// is served there needs a token where `http.tokens` or `http.token_files` name clients. Not
    /// taken when not set.
    pub address: Option<ListenAddress>,
    /// Whether clients need no token at an address that other machines can reach: whoever reaches
    /// it has turns, and uses every tool that the agent may. Without tokens, such an address is
    /// refused unless this says so. What tools for programs need a key for,
    /// `http.tool_api.anonymous` says.
    pub anonymous: bool,
    /// Names that clients may reach this machine by, with or without a port; a request for another
    /// one is refused. `localhost`, `127.0.0.1` and `[::1]` always may, from this machine. Needed
    /// where the address is not one of those.
    #[schemars(length(max = 64))]
    pub allowed_hosts: Vec<String>,
    /// Web pages that may speak to the agent, by their origins, such as `https://chat.example.com`;
    /// a request from another one is refused. Those of this machine always may.
    #[schemars(length(max = 64))]
    pub allowed_origins: Vec<String>,
    /// The clients, each by its name with its token of at least 16 characters: `${NAME}` for a
    /// variable of the environment, `${vault:NAME}` for a credential of `http:tokens` in the vault,
    /// or the token itself. They are read at the start. With any, everything that is served here
    /// needs `Authorization: Bearer TOKEN`, and so does the MCP endpoint, wherever it is; only the
    /// health of the interface, its description and the agent's card are for everybody. Rules know
    /// a client as `token:http/NAME`.
    pub tokens: BTreeMap<String, Secret>,
    /// The same in files: each client by its name with the file that its token is in.
    pub token_files: BTreeMap<String, PathBuf>,
    /// Tools for programs: finding them, calling them, jobs, and keys.
    pub tool_api: ToolApiSettings,
    /// Plans of clients of tools by name, beside `free` (10 requests a minute, 1,000 a month) and
    /// `pro` (100 a minute, 100,000 a month), which can be replaced.
    pub plans: BTreeMap<String, Plan>,
}

impl HttpSettings {
    /// The same, as the interface takes them, with the clients that have tokens.
    pub(crate) fn api_settings(&self, clients: &HttpClients) -> ApiSettings {
        ApiSettings {
            allowed_hosts: self.allowed_hosts.clone(),
            allowed_origins: self.allowed_origins.clone(),
            tokens: clients.tokens.clone(),
            client_ids: clients.ids.clone(),
        }
    }

    /// Whether clients have tokens.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty() || !self.token_files.is_empty()
    }

    /// Tells what is wrong with them, under the key that they have. Tokens that are elsewhere are
    /// looked for when they are needed: other commands share these settings.
    pub(crate) fn check(&self, key: &str, has_model: bool, mistakes: &mut Mistakes<'_>) {
        let Self { address, anonymous, allowed_hosts, allowed_origins, tokens, .. } = self;
        visitors::check(key, address.as_ref(), allowed_hosts, allowed_origins, mistakes);
        if *anonymous && self.has_tokens() {
            let what = "clients have tokens, and everybody needs one then: leave out this or those";
            mistakes.add(&format!("{key}.anonymous"), what);
        } else if !anonymous && !self.has_tokens() {
            visitors::check_open(key, address.as_ref(), Some(TOKENS_ADVICE), mistakes);
        }
        if address.is_some() && !has_model && !self.tool_api.enabled {
            let what = "nothing is served there: name a model in the section models, or set \
                        http.tool_api.enabled";
            mistakes.add(&format!("{key}.address"), what);
        }

        let names = tokens.keys().chain(self.token_files.keys());
        let names: Vec<_> = names.map(String::as_str).collect();
        self.tool_api.check(key, &self.plans, &names, mistakes);
        self.check_tokens(key, mistakes);
    }

    fn check_tokens(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        for (name, written) in &self.tokens {
            let checked = match KeyReference::parse(written) {
                Ok(KeyReference::Key(token)) => check_token(token.expose().trim()),
                Ok(KeyReference::Variable(_) | KeyReference::Vault(_)) => Ok(()),
                Err(problem) => Err(problem.to_owned()),
            };
            if let Err(what) = checked {
                mistakes.add(&format!("{key}.tokens.{name}"), what);
            }
        }
        for name in self.token_files.keys().filter(|name| self.tokens.contains_key(*name)) {
            let what = format!("{key}.tokens.{name} is set too, and only one of them can hold");
            mistakes.add(&format!("{key}.token_files.{name}"), what);
        }
    }
}

/// Says what is wrong with a token, without a word of it.
pub(crate) fn check_token(token: &str) -> Result<(), String> {
    if token.len() < TOKEN_BYTES_MIN {
        return Err(format!("a token has at least {TOKEN_BYTES_MIN} characters"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
