//! Routing of calls: which server and which of its tools a call means.
//!
//! Exact names go first, always. Then come the habits of models: another case, other separators, a
//! tool's title instead of its name, the direct name, a call wrapped into itself. What can mean one
//! thing only is taken; otherwise nothing is guessed, and the error names what there is.
//!
//! A server is found by its configured name alone. What it calls itself is its own choice, and
//! would have it take calls that are meant for another.

use std::sync::Arc;

use serde_json::{Map, Value};
use toolbus_tools::call::ARGUMENTS_LIMITS;

use super::roster::ServerRoster;
use crate::call::{Call, CallError, Naming};
use crate::catalogue::Tool;
use crate::claims::Claims;
use crate::direct_name::direct_name;
use crate::lookup::Lookup;
use crate::nearest::{loose_form, nearest_names, only_match};
use crate::server::{Server, ServerListing};

/// Most times that a call is unwrapped.
const UNWRAPPED_MAX: usize = 3;

/// The server and the tool that a call means.
pub(super) struct ToolRoute {
    pub(super) server: Arc<Server>,
    /// The tool's name, where the caller called it otherwise.
    pub(super) tool: Option<String>,
}

impl ToolRoute {
    /// The tool's own name, where the caller called it `tool`.
    pub(super) fn tool_name<'a>(&'a self, tool: &'a str) -> &'a str {
        self.tool.as_deref().unwrap_or(tool)
    }
}

/// Finds the server that a call means, among those of a pool.
pub(super) struct ToolRouter<'a> {
    pub(super) roster: &'a ServerRoster,
    pub(super) claims: &'a Claims,
}

/// A call that was the argument of another.
#[derive(Debug, PartialEq)]
struct WrappedCall {
    server: String,
    tool: String,
    arguments: Map<String, Value>,
}

impl ToolRouter<'_> {
    /// The route of a call, by its exact names where it says that they are.
    pub(super) fn find_route_of(&self, call: &Call) -> Result<ToolRoute, CallError> {
        match (call.naming, call.server.as_deref()) {
            (Naming::Exact, Some(name)) => {
                Ok(ToolRoute { server: self.find_exact_server(name)?, tool: None })
            }
            (_, server) => self.find_route(server, &call.tool),
        }
    }

    /// The route of a call of `tool`, on the server that is named, or on the one that has the name.
    pub(super) fn find_route(
        &self,
        server: Option<&str>,
        tool: &str,
    ) -> Result<ToolRoute, CallError> {
        let server = match server {
            Some(name) => self.find_server(name)?,
            None => match self.owner_of(tool) {
                Some(server) => return Ok(ToolRoute { server, tool: None }),
                None => return self.guess_route(tool),
            },
        };

        // What is held back is not there under another name either.
        let catalogue = &server.catalogue;
        let is_exact = catalogue.lists_tool(tool) || catalogue.find_withheld(tool).is_some();
        let tool = if is_exact { None } else { find_similar_tool(&server, tool) };
        Ok(ToolRoute { server, tool })
    }

    /// The server that something is to be read of, by its exact name where the lookup says that it
    /// is.
    pub(super) fn find_read_server(&self, lookup: &Lookup) -> Result<Arc<Server>, CallError> {
        match lookup.naming {
            Naming::Exact => self.find_exact_server(&lookup.server),
            Naming::Forgiving => self.find_server(&lookup.server),
        }
    }

    fn find_exact_server(&self, name: &str) -> Result<Arc<Server>, CallError> {
        self.roster.find(name).ok_or_else(|| self.server_unknown(name))
    }

    pub(super) fn find_server(&self, name: &str) -> Result<Arc<Server>, CallError> {
        let server = self.roster.find(name).or_else(|| self.find_similar_server(name));
        server.ok_or_else(|| self.server_unknown(name))
    }

    fn server_unknown(&self, name: &str) -> CallError {
        let servers = self.roster.list();
        let configured = || servers.iter().map(|server| server.entry.name.as_str());
        let mut names = nearest_names(name, configured());

        // A hint, after the others: nothing is called by what a server calls itself.
        let wanted = loose_form(name);
        let titled = servers.iter().filter(|server| has_title(server, &wanted));
        let titled = titled.map(|server| server.entry.name.as_str());
        let unnamed: Vec<_> = titled.filter(|titled| !names.contains(titled)).collect();
        names.extend(unnamed);

        let names = names.into_iter().map(str::to_owned).collect();
        CallError::ServerUnknown { server: name.to_owned(), names }
    }

    /// The server that has the tool's name.
    fn owner_of(&self, tool: &str) -> Option<Arc<Server>> {
        self.roster.find_by_position(self.claims.owner(tool)?)
    }

    /// The only server whose name is spelled so but for punctuation.
    fn find_similar_server(&self, name: &str) -> Option<Arc<Server>> {
        let servers = self.roster.list();
        let wanted = loose_form(name);
        if wanted.is_empty() {
            return None;
        }

        let is_similar = |server: &&Arc<Server>| loose_form(server.entry.name.as_str()) == wanted;
        only_match(servers.iter(), is_similar).cloned()
    }

    /// The only tool of any server that may be meant, when no server has exactly this name.
    fn guess_route(&self, tool: &str) -> Result<ToolRoute, CallError> {
        let servers = self.roster.list();
        let similar = servers.iter().filter_map(|server| find_similar_tool(server, tool));
        let mut similar: Vec<String> = similar.collect();
        similar.sort_unstable();
        similar.dedup();

        // Of several servers that list it, the one that has the name, even if it holds it back.
        let name = only_match(similar.into_iter(), |_| true);
        let route = name.and_then(|name| {
            let server = self.owner_of(&name)?;
            Some(ToolRoute { server, tool: Some(name) })
        });

        route.ok_or_else(|| {
            let listings = servers.iter().filter_map(|server| server.catalogue.latest());
            let listings: Vec<Arc<ServerListing>> = listings.collect();
            let tools = listings.iter().flat_map(|listing| listing.catalogue.tools());
            let names = nearest_names(tool, tools.map(|tool| tool.name.as_str()));
            let names = names.into_iter().map(str::to_owned).collect();
            CallError::ToolNotListed { tool: tool.to_owned(), names }
        })
    }

    /// Takes a call out of the calls it was wrapped into, where no server has a tool of the
    /// wrapping's name.
    pub(super) fn unwrap_call(&self, mut call: Call) -> Call {
        for _ in 0..UNWRAPPED_MAX {
            if !matches!(call.tool.as_str(), "mcp_invoke_tool" | "invoke_tool") {
                break;
            }

            let is_listed = match call.server.as_deref() {
                Some(name) => {
                    let server = self.roster.find(name);
                    server.is_some_and(|server| server.catalogue.lists_tool(&call.tool))
                }
                None => self.owner_of(&call.tool).is_some(),
            };

            if is_listed {
                let Some(arguments) = parse_self_call(&call.arguments) else { break };
                call = Call { arguments, params: None, ..call };
            } else {
                let Some(wrapped) = parse_wrapped_call(&call.arguments) else { break };
                let WrappedCall { server, tool, arguments } = wrapped;
                call = Call { server: Some(server), tool, arguments, params: None, ..call };
            }
        }
        call
    }
}

/// The name of the only tool of a server that this may mean, where none has exactly this name.
///
/// No name is taken apart for it: every tool is asked whether it is called so.
fn find_similar_tool(server: &Server, name: &str) -> Option<String> {
    let listing = server.catalogue.latest()?;
    let tools = || listing.catalogue.tools().map(|tool| tool.name.as_str());
    if let Some(tool) = only_match(tools(), |tool| tool.eq_ignore_ascii_case(name)) {
        return Some(tool.to_owned());
    }

    let wanted = loose_form(name);
    if wanted.is_empty() {
        return None;
    }

    let server_name = server.entry.name.as_str();
    let lead = name.get(..server_name.len());
    let is_prefixed = lead.is_some_and(|lead| lead.eq_ignore_ascii_case(server_name));
    let prefix = if is_prefixed { loose_form(server_name) } else { String::new() };
    let is_similar = |tool: &&str| {
        let similar = loose_form(tool);
        similar == wanted
            || (is_prefixed && wanted.strip_prefix(&prefix) == Some(&similar))
            || (is_prefixed && direct_name(&server.entry.name, tool) == name)
    };
    let find_by_title = || {
        let is_titled =
            |tool: &&Tool| tool.title.as_deref().is_some_and(|title| loose_form(title) == wanted);
        only_match(listing.catalogue.tools(), is_titled).map(|tool| tool.name.as_str())
    };

    only_match(tools(), is_similar).or_else(find_by_title).map(str::to_owned)
}

/// Whether the server lists a title or a name of its own that is this, loosely.
fn has_title(server: &Server, wanted: &str) -> bool {
    let Some(listing) = server.catalogue.latest() else { return false };
    let texts = [&listing.identity.title, &listing.identity.name];
    let is_wanted = |text: &String| !wanted.is_empty() && loose_form(text) == wanted;
    texts.into_iter().flatten().any(is_wanted)
}

/// Reads the call inside a call of `mcp_invoke_tool`.
fn parse_wrapped_call(arguments: &Map<String, Value>) -> Option<WrappedCall> {
    let text = |names: [&str; 2]| {
        names.into_iter().find_map(|name| arguments.get(name)?.as_str()).map(str::to_owned)
    };

    Some(WrappedCall {
        server: text(["server_name", "serverName"])?,
        tool: text(["tool_name", "toolName"])?,
        arguments: parse_object(arguments.get("arguments"))?,
    })
}

/// Reads the arguments inside, where an aggregator's own `invoke_tool` is asked to call itself.
fn parse_self_call(arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();

    let calls_itself = text("serverName").to_lowercase().contains("aggregator")
        && text("toolName") == "invoke_tool";
    if calls_itself { parse_object(Some(arguments.get("arguments")?)) } else { None }
}

/// Reads an object, also one that came as text; no value stands for an empty one.
fn parse_object(value: Option<&Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(object)) => Some(object.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Map::new()),
        Some(Value::String(text)) => toolbus_json::from_str(text, &ARGUMENTS_LIMITS).ok(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
