//! `mcp`: shows and changes the list of MCP servers, and tries them.

mod entry;
mod sync;

use serde_json::{Map, Value, json};
use toolbus_config::nearest_name;
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::{ServerFile, ServerFileError, ServerName};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_vault::VaultError;

use super::{print, print_error};
use crate::arguments::{McpAdd, McpCommand};
use crate::secret_input::SecretInputError;
use crate::settings::Settings;

/// Why nothing is shown or changed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    File(#[from] ServerFileError),
    #[error(transparent)]
    Vault(#[from] VaultError),
    #[error("{0}: {1}")]
    Input(String, SecretInputError),
    #[error("{0}")]
    Misuse(String),
    /// A signal, which says how this ends.
    #[error("cut off")]
    CutOff,
}

pub(super) async fn run(
    command: McpCommand,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let file = ServerFile::at(settings.mcp.list_file().to_owned());
    let done = match command {
        McpCommand::Sync { json } => return sync::run(&file, json, settings, context).await,
        McpCommand::List { json } => list(&file, json),
        McpCommand::Show { server } => show(&file, &server),
        McpCommand::Add(options) => add(&file, options, settings, context).await,
        McpCommand::Remove { server } => remove(&file, &server),
    };

    match done {
        Ok(text) => {
            // Names and arguments are the file's words.
            print(&text);
            Ok(Exit::SUCCESS)
        }
        Err(Failure::CutOff) => Ok(Exit::FAILURE),
        Err(failure) => {
            print_error(toolbus_config::on_one_line(&failure));
            Ok(failure.exit())
        }
    }
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Misuse(_) | Self::Input(..) => Exit::MISUSE,
            Self::File(_) | Self::Vault(_) | Self::CutOff => Exit::FAILURE,
        }
    }
}

fn list(file: &ServerFile, as_json: bool) -> Result<String, Failure> {
    let servers = file.servers()?;
    if as_json {
        let servers: Map<String, Value> =
            servers.into_iter().map(|(name, entry)| (name, entry::masked(entry))).collect();
        return Ok(format!("{:#}\n", Value::Object(servers)));
    }
    if servers.is_empty() {
        return Ok(format!("There are no servers in {}.\n", file.path().display()));
    }

    let width = servers.keys().map(String::len).max().unwrap_or_default();
    let lines = servers.iter().map(|(name, entry)| {
        let disabled = if entry["disabled"] == json!(true) { "  (disabled)" } else { "" };
        format!("{name:width$}  {}{disabled}\n", entry::describe(entry))
    });
    Ok(lines.collect())
}

fn show(file: &ServerFile, server: &str) -> Result<String, Failure> {
    let servers = file.servers()?;
    let found = servers.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(server));
    let (name, entry) = found.ok_or_else(|| no_server(file, server))?;
    Ok(format!("{:#}\n", json!({ name: entry::masked(entry) })))
}

fn remove(file: &ServerFile, server: &str) -> Result<String, Failure> {
    match file.remove(server)? {
        true => Ok(format!("removed {server} from {}\n", file.path().display())),
        false => Err(no_server(file, server)),
    }
}

async fn add(
    file: &ServerFile,
    options: McpAdd,
    settings: &Settings,
    context: &Context,
) -> Result<String, Failure> {
    let name = ServerName::parse_unreserved(&options.server);
    let name = name.map_err(|error| Failure::Misuse(error.to_string()))?;
    // Before anybody is asked for anything.
    let taken = || {
        let file = file.path().display();
        Failure::Misuse(format!("{file} has a server {name} already: remove it first"))
    };
    if file.servers()?.keys().any(|other| name.matches(other)) {
        return Err(taken());
    }

    let entry = entry::make(&name, options, settings, context).await?;
    check(&name, &entry)?;
    if !file.add(&name, entry)? {
        return Err(taken());
    }
    Ok(format!("added {name} to {}; `agent-host mcp sync` connects it\n", file.path().display()))
}

/// Reads an entry as programs do that start it.
fn check(name: &ServerName, entry: &Map<String, Value>) -> Result<(), Failure> {
    let text = json!({"mcpServers": {name.as_str(): entry}}).to_string();
    let variables = |name: &str| std::env::var(name).ok();
    let read = config::parse(&text, Variables::From(&variables));
    let read = read.map_err(|error| Failure::Misuse(toolbus_config::on_one_line(&error)))?;
    match read.mistakes.first() {
        Some(mistake) => Err(Failure::Misuse(mistake.to_string())),
        None => Ok(()),
    }
}

fn no_server(file: &ServerFile, server: &str) -> Failure {
    // The file has been read a moment ago.
    let servers = file.servers().unwrap_or_default();
    let meant = nearest_name(server, servers.keys().map(String::as_str));
    let hint = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
    Failure::Misuse(format!("{} has no server {server}{hint}", file.path().display()))
}
