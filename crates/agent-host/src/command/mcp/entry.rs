//! Entries of the list of MCP servers: made of what a person says, and shown without secrets.

use std::io::{BufRead as _, Write as _};

use serde_json::{Map, Value, json};
use toolbus_config::{ConfiguredAddress, MASK};
use toolbus_mcp::ServerName;
use toolbus_mcp::config::{is_credential_name, is_reference, mask_arguments};
use toolbus_runtime::service::Context;
use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_vault::{CredentialPlace, LazyVault};

use super::Failure;
use crate::arguments::McpAdd;
use crate::secret_input::{self, SecretInputError};
use crate::settings::Settings;
use crate::state;

/// Members that are shown as they are: no secret has its place there.
const SHOWN_MEMBERS: [&str; 15] = [
    "type",
    "command",
    "cwd",
    "envFile",
    "sandbox",
    "disabled",
    "allowedTools",
    "deniedTools",
    "timeout",
    "timeoutMs",
    "toolTimeoutMs",
    "startupTimeoutMs",
    "toolChanges",
    "session",
    "registeredBy",
];
/// Those of `auth`.
const SHOWN_AUTH_MEMBERS: [&str; 4] = ["type", "clientId", "scopes", "redirectPort"];
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

/// The entry of a server in one line, without what is secret.
pub(super) fn describe(entry: &Value) -> String {
    if let Some(url) = entry["url"].as_str() {
        return shown_address(url);
    }
    let words = entry["command"].as_str().map(str::to_owned).into_iter();
    words.chain(mask_arguments(&arguments_of(entry))).collect::<Vec<_>>().join(" ")
}

/// The same entry without what is secret: values of variables and headers, user info and queries of
/// addresses, credentials among arguments, what shows a server who asks, and members that are not
/// known. References to variables and credentials stay.
pub(super) fn masked(mut entry: Value) -> Value {
    let arguments = mask_arguments(&arguments_of(&entry));
    let Some(members) = entry.as_object_mut() else {
        mask(&mut entry);
        return entry;
    };
    for (name, value) in members {
        match name.as_str() {
            "env" | "headers" => mask_members(value, &[]),
            "auth" => mask_members(value, &SHOWN_AUTH_MEMBERS),
            "url" => mask_address(value),
            "args" => *value = json!(arguments),
            name if SHOWN_MEMBERS.contains(&name) => {}
            _ => mask(value),
        }
    }
    entry
}

/// The arguments of a program. What is no text is none.
fn arguments_of(entry: &Value) -> Vec<String> {
    let arguments = entry["args"].as_array().into_iter().flatten();
    arguments.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Masks all members but these. Of the address of an issuer the rest is shown.
fn mask_members(value: &mut Value, shown: &[&str]) {
    let Some(members) = value.as_object_mut() else {
        mask(value);
        return;
    };
    for (name, value) in members.iter_mut().filter(|(name, _)| !shown.contains(&name.as_str())) {
        match name.as_str() {
            "issuer" if !shown.is_empty() => mask_address(value),
            _ => mask(value),
        }
    }
}

fn mask_address(value: &mut Value) {
    match value.as_str().map(shown_address) {
        Some(shown) => *value = json!(shown),
        None => mask(value),
    }
}

fn mask(value: &mut Value) {
    let is_shown = match value {
        Value::Null | Value::Bool(_) => true,
        Value::String(text) => is_reference(text),
        _ => false,
    };
    if !is_shown {
        *value = json!(MASK);
    }
}

/// An address as it is shown. Defaults of references (`${NAME:-TEXT}`) may be anything.
fn shown_address(url: &str) -> String {
    match url.contains("${") && url.contains(":-") {
        true => MASK.to_owned(),
        false => ConfiguredAddress::from(url).to_string(),
    }
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

#[cfg(test)]
mod tests;
