//! Entries of the list of MCP servers: made of what a person says, and shown without secrets.

use std::io::{BufRead as _, Write as _};

use serde_json::{Map, Value, json};
use toolbus_mcp::ServerName;
use toolbus_mcp::config::is_credential_name;
use toolbus_runtime::service::Context;
use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_vault::{CredentialPlace, LazyVault};

use super::Failure;
use crate::arguments::McpAdd;
use crate::secret_input::{self, SecretInputError};
use crate::settings::Settings;
use crate::state;

/// What stands in the place of a secret.
const MASK: &str = "***";
/// What the names of secrets have in them.
const SECRET_NAMES: [&str; 4] = ["TOKEN", "KEY", "SECRET", "PASSWORD"];
/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// A value that is written into an entry, or asked for.
struct Variable {
    name: String,
    value: Option<String>,
    is_secret: bool,
    is_optional: bool,
}

/// The entry of a server in one line.
pub(super) fn describe(entry: &Value) -> String {
    if let Some(url) = entry["url"].as_str() {
        return url.to_owned();
    }
    let arguments = entry["args"].as_array().into_iter().flatten();
    let words = std::iter::once(&entry["command"]).chain(arguments);
    words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// The same entry without what is secret: values of variables with such names, all headers, and
/// what shows a server who asks. References to variables and credentials stay.
pub(super) fn masked(mut entry: Value) -> Value {
    let mask = |value: &mut Value| {
        if value.as_str().is_some_and(|text| !is_reference(text)) {
            *value = json!(MASK);
        }
    };
    let variables = entry.get_mut("env").and_then(Value::as_object_mut);
    for (_, value) in variables.into_iter().flatten().filter(|(name, _)| is_secret(name)) {
        mask(value);
    }
    let headers = entry.get_mut("headers").and_then(Value::as_object_mut);
    headers.into_iter().flatten().for_each(|(_, value)| mask(value));
    let auth = entry.get_mut("auth").and_then(Value::as_object_mut);
    let is_shown = |name: &str| matches!(name, "type" | "issuer" | "clientId" | "scopes");
    for (_, value) in auth.into_iter().flatten().filter(|(name, _)| !is_shown(name)) {
        mask(value);
    }
    entry
}

/// Makes an entry of what a person says, and asks for what is missing. Values that are asked for
/// and secret go to the vault, where there is one.
pub(super) async fn make(
    server: &ServerName,
    options: McpAdd,
    settings: &Settings,
    context: &Context,
) -> Result<Map<String, Value>, Failure> {
    let store = state::store(settings);
    let vault = store.as_ref().and_then(|store| state::vault(settings, store));
    let entry = fill(server, options, vault.as_ref(), context).await;
    if let Some(store) = store {
        store.close().await;
    }
    entry
}

async fn fill(
    server: &ServerName,
    options: McpAdd,
    vault: Option<&LazyVault>,
    context: &Context,
) -> Result<Map<String, Value>, Failure> {
    let mut entry = Map::new();
    let (member, variables) = match options.url {
        Some(url) => {
            if let Some(transport) = options.transport {
                entry.insert("type".to_owned(), json!(transport));
            }
            entry.insert("url".to_owned(), json!(url));
            let headers = options.header.iter();
            ("headers", headers.map(|text| Variable::header(text)).collect::<Vec<_>>())
        }
        None => {
            let (program, arguments) = options.program.split_first().ok_or_else(|| {
                Failure::Misuse("a server needs --url, or a program behind --".to_owned())
            })?;
            entry.insert("command".to_owned(), json!(program));
            if !arguments.is_empty() {
                entry.insert("args".to_owned(), json!(arguments));
            }
            let required = options.env.iter().map(|text| Variable::of_program(text));
            let optional = options
                .optional_env
                .iter()
                .map(|text| Variable { is_optional: true, ..Variable::of_program(text) });
            ("env", required.chain(optional).collect())
        }
    };

    let mut values = Map::new();
    for variable in variables {
        let name = variable.name.clone();
        if let Some(value) = variable.settle(server, vault, context).await? {
            values.insert(name, json!(value));
        }
    }
    if !values.is_empty() {
        entry.insert(member.to_owned(), Value::Object(values));
    }
    Ok(entry)
}

impl Variable {
    fn header(text: &str) -> Self {
        Self { is_secret: true, ..Self::of_program(text) }
    }

    fn of_program(text: &str) -> Self {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        Self { name: name.to_owned(), value, is_secret: is_secret(name), is_optional: false }
    }

    /// What is written into the entry. `None`: it is left out.
    async fn settle(
        self,
        server: &ServerName,
        vault: Option<&LazyVault>,
        context: &Context,
    ) -> Result<Option<String>, Failure> {
        if let Some(value) = self.value {
            return Ok(Some(value));
        }
        let stop = context.shutdown.requested();
        let asked = stop.run_until_cancelled(ask(&self, server)).await.ok_or(Failure::CutOff)?;
        let value = match asked {
            Ok(value) => value,
            Err(SecretInputError::Empty) if self.is_optional => return Ok(None),
            Err(error) => return Err(Failure::Input(self.name, error)),
        };

        match vault.filter(|_| self.is_secret && is_credential_name(&self.name)) {
            Some(vault) => {
                let provider = server.as_str().to_ascii_lowercase();
                let provider = format!("{SERVER_PROVIDER_PREFIX}{provider}");
                let place = CredentialPlace::new(provider, self.name.clone());
                vault.open().await?.put(place, &value).await?;
                Ok(Some(format!("${{vault:{}}}", self.name)))
            }
            None if value.contains("${") => {
                let what =
                    format!("the value of {} has `${{`, which begins a reference", self.name);
                Err(Failure::Misuse(what))
            }
            None => Ok(Some(value.to_string())),
        }
    }
}

async fn ask(
    variable: &Variable,
    server: &ServerName,
) -> Result<zeroize::Zeroizing<String>, SecretInputError> {
    let optional = if variable.is_optional { " (optional)" } else { "" };
    let prompt = format!("{} of {server}{optional}: ", variable.name);
    if variable.is_secret {
        return secret_input::read_line(&prompt).await;
    }

    let read = tokio::task::spawn_blocking(move || -> Result<String, SecretInputError> {
        let _ = write!(std::io::stderr(), "{prompt}");
        let mut line = String::new();
        let mut input = std::io::Read::take(std::io::stdin().lock(), LINE_BYTES_MAX);
        input.read_line(&mut line)?;
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() { Err(SecretInputError::Empty) } else { Ok(line.to_owned()) }
    });
    Ok(read.await.map_err(std::io::Error::other)??.into())
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// Whether a value is one reference to what stands elsewhere.
fn is_reference(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.contains(['{', '}']) && !name.contains(":-"))
}

#[cfg(test)]
mod tests;
