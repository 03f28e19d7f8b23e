//! `vault`: shows and changes the credentials in the vault. No value is ever shown.

use std::fmt::Write as _;

use serde_json::{Value, json};
use toolbus_http::tool_api;
use toolbus_mcp::ServerName;
use toolbus_policy::{owner_text, principal_text};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_store::LazyStore;
use toolbus_tools::credentials::ERASED_LENGTH_MIN;
use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_vault::{CredentialPlace, KeySource, LazyVault, StoredCredential, VaultError};
use toolbus_wire::clock::unix_now;
use toolbus_wire::name::AgentName;

use super::{misuse, print, print_error, print_warning};
use crate::arguments::{ChangeKey, CredentialName, Vault, VaultCommand};
use crate::secret_input::{self, SecretInputError};
use crate::settings::Settings;
use crate::state;

/// Why nothing is shown or changed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("there is no credential {0}")]
    Missing(CredentialPlace),
    #[error(transparent)]
    Input(#[from] SecretInputError),
    #[error("{0}")]
    Misuse(String),
    /// A signal, which says how this ends.
    #[error("cut off")]
    CutOff,
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Vault(VaultError::Place(_) | VaultError::TooLong)
            | Self::Input(_)
            | Self::Misuse(_) => Exit::MISUSE,
            Self::Vault(_) | Self::Missing(_) | Self::CutOff => Exit::FAILURE,
        }
    }
}

pub(super) async fn run(
    options: Vault,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let store = state::store(settings);
    let vault = store.as_ref().and_then(|store| state::vault(settings, store));
    let (Some(store), Some(vault)) = (store, vault) else {
        return Ok(misuse("there is no vault: set `vault.key_file` or `vault.key_command`"));
    };

    let agent = AgentName::parse(&settings.name)?;
    let command = for_current_owner(options.command, &store, &agent).await;
    let done = match command {
        Ok(command) => execute(command, &vault, context).await,
        Err(failure) => Err(failure),
    };
    store.close().await;
    match done {
        Ok(text) => {
            // Names may be anybody's words.
            print(&text);
            Ok(Exit::SUCCESS)
        }
        Err(Failure::CutOff) => Ok(Exit::FAILURE),
        Err(failure) => {
            print_error(&failure);
            Ok(failure.exit())
        }
    }
}

/// Resolves the caller of a `set` command to the key or client that has this name now, and adds its
/// id. Other commands stay as they are: `remove` takes a caller as `list` shows it, so it also
/// removes a credential of a revoked key.
async fn for_current_owner(
    command: VaultCommand,
    store: &LazyStore,
    agent: &AgentName,
) -> Result<VaultCommand, Failure> {
    let VaultCommand::Set(CredentialName { user: Some(named), .. }) = &command else {
        return Ok(command);
    };
    let written = principal_text(named);
    let current = tool_api::current_owner(store, agent, named.clone()).await;
    let Some(owner) = current.map_err(VaultError::from)? else {
        let what = format!("no key or client has the name {written} now");
        return Err(Failure::Misuse(what));
    };

    Ok(match command {
        VaultCommand::Set(name) => VaultCommand::Set(CredentialName { user: Some(owner), ..name }),
        other => other,
    })
}

/// Does what the command says, and returns what is printed.
async fn execute(
    command: VaultCommand,
    vault: &LazyVault,
    context: &Context,
) -> Result<String, Failure> {
    match command {
        VaultCommand::Set(name) => set(place_of(name)?, vault, context).await,
        VaultCommand::List { json } => {
            // A look makes no file.
            let listed = match vault.may_hold_something() {
                true => vault.open().await?.list().await?,
                false => Vec::new(),
            };
            Ok(if json { list_json(&listed) } else { list_text(&listed) })
        }
        VaultCommand::Remove(name) => {
            let place = place_of(name)?;

            let is_removed =
                vault.may_hold_something() && vault.open().await?.remove(place.clone()).await?;
            if !is_removed {
                return Err(Failure::Missing(place));
            }
            Ok(format!("removed {place}\n"))
        }
        VaultCommand::ChangeKey(options) => change_key(options, vault).await,
    }
}

async fn set(
    place: CredentialPlace,
    vault: &LazyVault,
    context: &Context,
) -> Result<String, Failure> {
    // Before anybody is asked for anything.
    let opened = vault.open().await?;
    let prompt = format!("Value of {place}: ");
    let stop = context.shutdown.requested();
    let read = stop.run_until_cancelled(secret_input::read(&prompt)).await;
    let value = read.ok_or(Failure::CutOff)??;

    opened.put(place.clone(), &value).await?;
    if value.len() < ERASED_LENGTH_MIN {
        let what = "values of less than six bytes are not erased from what tools say";
        print_warning(what, context);
    }
    Ok(format!("set {place}\n"))
}

async fn change_key(options: ChangeKey, vault: &LazyVault) -> Result<String, Failure> {
    let (source, setting) = match (options.new_key_file, options.new_key_command) {
        (Some(file), _) => (KeySource::File(file), "vault.key_file"),
        (None, command) => (KeySource::Command(command.unwrap_or_default()), "vault.key_command"),
    };
    if !vault.may_hold_something() {
        return Err(Failure::Misuse("the vault is empty: it takes the key of the settings".into()));
    }

    let key = source.fetch().await?;
    let name = key.name().to_owned();
    vault.open().await?.change_key(key).await?;
    Ok(format!("every credential is sealed with the key {name} now: name it in {setting}\n"))
}

/// The place that is named, as far as something can be there.
fn place_of(name: CredentialName) -> Result<CredentialPlace, Failure> {
    let CredentialName { provider, credential, tool, user } = name;
    if let Some(server) = provider.strip_prefix(SERVER_PROVIDER_PREFIX) {
        check_server(server, &credential).map_err(Failure::Misuse)?;
        if tool.is_some() || user.is_some() {
            let what = "an MCP server is connected once for all tools and callers: its credentials \
                        have neither --tool nor --user";
            return Err(Failure::Misuse(what.to_owned()));
        }
    }

    let mut place = CredentialPlace::new(provider, credential);
    if let Some(tool) = tool {
        place = place.for_tool(tool);
    }
    if let Some(user) = user {
        place = place.for_user(owner_text(&user));
    }
    Ok(place)
}

/// Checks that an entry of `mcp.json` can ask for it.
fn check_server(server: &str, credential: &str) -> Result<(), String> {
    ServerName::parse(server).map_err(|error| error.to_string())?;
    if !toolbus_mcp::config::is_credential_name(credential) {
        return Err(
            "the name of an MCP server's credential has letters, digits, `_`, `.` and `-`, \
                    at most 128"
                .to_owned(),
        );
    }
    Ok(())
}

fn list_text(listed: &[StoredCredential]) -> String {
    let mut text = String::new();
    for StoredCredential { place, written_ms } in listed {
        let _ = writeln!(text, "{place}, set {} ago", age(*written_ms));
    }
    text
}

fn list_json(listed: &[StoredCredential]) -> String {
    let row = |StoredCredential { place, written_ms }: &StoredCredential| {
        json!({
            "provider": place.provider,
            "tool": place.tool,
            "user": place.user,
            "name": place.name,
            "writtenMs": written_ms,
        })
    };
    let rows: Vec<Value> = listed.iter().map(row).collect();
    format!("{:#}\n", Value::from(rows))
}

/// How long ago that was, by the clock of this host, in its largest unit.
fn age(ms: i64) -> String {
    let now = i64::try_from(unix_now().as_millis()).unwrap_or(i64::MAX);
    let seconds = now.saturating_sub(ms).max(0) / 1_000;
    match seconds {
        ..=119 => format!("{seconds}s"),
        120..=7_199 => format!("{}m", seconds / 60),
        7_200..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}
