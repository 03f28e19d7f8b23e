//! The operator's commands on pins: list the changes that wait, and accept them.
//!
//! The files are the way to a bridge that runs: it sees that one has changed, and lists again.

use super::findings::quote_name;
use super::now_ms;
use super::pin_store::{Error, Pins};
use super::pins::PinnedDefinition;
use crate::server_name::ServerName;

/// A change that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange {
    /// The server.
    pub server: ServerName,
    /// Its tool.
    pub tool: String,
    /// Whether the tool is held back until the change is accepted.
    pub is_held_back: bool,
    /// What has changed, line by line. It quotes text of the server.
    pub difference: Vec<String>,
}

/// Why nothing was accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The pins cannot be used.
    #[error("the pins cannot be used")]
    Pins(#[from] Error),
    /// Nothing is known of such a server.
    #[error("no tools of a server '{server}' are pinned{}", list_names("; there are", names))]
    UnknownServer {
        /// The server as it was named.
        server: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// No change of such a tool waits.
    #[error(
        "no change of tool '{tool}' waits on server '{server}'{}",
        list_names("; there wait", names)
    )]
    NothingWaits {
        /// The server.
        server: String,
        /// The tool as it was named.
        tool: String,
        /// Those whose changes wait.
        names: Vec<String>,
    },
}

impl Pins {
    /// The changes that wait, of one server or of all.
    ///
    /// # Errors
    /// When the pins cannot be used, or nothing is known of the server.
    pub fn pending_changes(&self, server: Option<&str>) -> Result<Vec<PendingChange>, AcceptError> {
        let servers = match server {
            Some(server) => vec![self.known_server(server)?],
            None => self.servers()?,
        };
        let mut waiting = Vec::new();

        for server in servers {
            let Some(document) = self.read(&server) else { continue };
            let before = |tool: &str| document.tools.get(tool).map(|pin| &pin.kept);
            for (tool, new) in &document.withheld {
                let lost = || vec!["what was pinned of it is not known".to_owned()];
                let difference = |old: &PinnedDefinition| old.difference(&new.definition);
                waiting.push(PendingChange {
                    server: server.clone(),
                    tool: tool.clone(),
                    is_held_back: true,
                    difference: before(tool).map_or_else(lost, difference),
                });
            }

            for (tool, pin) in &document.tools {
                let Some(changed) = &pin.changed else { continue };
                waiting.push(PendingChange {
                    server: server.clone(),
                    tool: tool.clone(),
                    is_held_back: false,
                    difference: changed.difference.clone(),
                });
            }
        }

        Ok(waiting)
    }

    /// Accepts what has changed: of one tool, or of all tools of a server. Exactly the definitions
    /// that wait now are accepted, not what the server lists by then. Answers the tools.
    ///
    /// # Errors
    /// When the pins cannot be used, or no such change waits.
    pub fn accept(&self, server: &str, tool: Option<&str>) -> Result<Vec<String>, AcceptError> {
        let server = self.known_server(server)?;
        let (accepted, _) = self.update(&server, |document, _| {
            let was_lost = document.lost;
            let accepted = document.accept(tool, now_ms());
            let edited = !accepted.is_empty() || document.lost != was_lost;
            (accepted, edited)
        })?;

        match tool {
            Some(tool) if accepted.is_empty() => Err(AcceptError::NothingWaits {
                server: server.to_string(),
                tool: tool.to_owned(),
                names: self
                    .pending_changes(Some(server.as_str()))?
                    .into_iter()
                    .map(|w| w.tool)
                    .collect(),
            }),
            _ => Ok(accepted),
        }
    }

    fn known_server(&self, name: &str) -> Result<ServerName, AcceptError> {
        let servers = self.servers()?;
        let unknown = || AcceptError::UnknownServer {
            server: name.to_owned(),
            names: servers.iter().map(ToString::to_string).collect(),
        };
        servers.iter().find(|server| server.matches(name)).cloned().ok_or_else(unknown)
    }
}

fn list_names(lead: &str, names: &[String]) -> String {
    const NAMES_MAX: usize = 10;
    if names.is_empty() {
        return String::new();
    }
    let listed: Vec<String> = names.iter().take(NAMES_MAX).map(|name| quote_name(name)).collect();
    let more = if names.len() > NAMES_MAX { ", …" } else { "" };
    format!("{lead} {}{more}", listed.join(", "))
}
