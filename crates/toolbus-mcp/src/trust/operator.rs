//! The operator's commands on pins: list the changes that wait, and accept them.
//!
//! The files are the way to a bridge that runs: it sees that one has changed, and lists again.

use super::findings::quote_name;
use super::now_ms;
use super::pin_store::{Error, Pins};
use super::pinned_item::PinnedItem;
use super::pins::PinDocument;
use crate::server_name::ServerName;

/// A change that waits for a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingChange {
    /// The server.
    pub server: ServerName,
    /// What of it has changed.
    pub item: PinnedItem,
    /// Whether it is held back until the change is accepted.
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
    #[error("nothing of a server '{server}' is pinned{}", list_names("; there are", names))]
    UnknownServer {
        /// The server as it was named.
        server: String,
        /// Those that there are.
        names: Vec<String>,
    },
    /// No such change waits.
    #[error("no change of {item} waits on server '{server}'{}", list_items(items))]
    NothingWaits {
        /// The server.
        server: String,
        /// What was named.
        item: PinnedItem,
        /// Those whose changes wait.
        items: Vec<PinnedItem>,
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
            let changes = document_changes(&document);
            waiting.extend(changes.into_iter().map(|(item, is_held_back, difference)| {
                PendingChange { server: server.clone(), item, is_held_back, difference }
            }));
        }

        Ok(waiting)
    }

    /// Accepts what has changed: one item, or all of a server. Exactly the definitions that wait
    /// now are accepted, not what the server lists by then. Answers the items.
    ///
    /// # Errors
    /// When the pins cannot be used, or no such change waits.
    pub fn accept(
        &self,
        server: &str,
        item: Option<&PinnedItem>,
    ) -> Result<Vec<PinnedItem>, AcceptError> {
        let server = self.known_server(server)?;
        let (accepted, _) = self.update(&server, self.owner_of(&server), |document, _| {
            let was_lost = document.lost;
            let accepted = document.accept(item, now_ms());
            let edited = !accepted.is_empty() || document.lost != was_lost;
            (accepted, edited)
        })?;

        match item {
            Some(item) if accepted.is_empty() => {
                let waiting = self.pending_changes(Some(server.as_str()))?;
                Err(AcceptError::NothingWaits {
                    server: server.to_string(),
                    item: item.clone(),
                    items: waiting.into_iter().map(|change| change.item).collect(),
                })
            }
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

/// What has changed, whether it is held back, and the difference.
fn document_changes(document: &PinDocument) -> Vec<(PinnedItem, bool, Vec<String>)> {
    let mut changes = Vec::new();
    for (group, item_of) in document.groups() {
        for (name, new) in &group.withheld {
            let difference = match group.pins.get(name) {
                Some(pin) => pin.kept.difference(&new.definition),
                None if document.lost => vec!["what was pinned of it is not known".to_owned()],
                None => new.as_new(),
            };
            changes.push((item_of(name), true, difference));
        }

        for (name, pin) in &group.pins {
            let Some(changed) = &pin.changed else { continue };
            changes.push((item_of(name), false, changed.difference.clone()));
        }
    }
    changes
}

/// The items as the end of a sentence, where there are any.
fn list_items(items: &[PinnedItem]) -> String {
    const ITEMS_MAX: usize = 10;
    if items.is_empty() {
        return String::new();
    }
    let listed: Vec<String> = items.iter().take(ITEMS_MAX).map(ToString::to_string).collect();
    let more = if items.len() > ITEMS_MAX { ", …" } else { "" };
    format!("; there wait {}{more}", listed.join(", "))
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
