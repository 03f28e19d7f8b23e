//! Which server and which of its tools a call means.
//!
//! Exact names go first, always. Then come the habits of models: another case, other separators, a
//! title instead of a name, the direct name, a call wrapped into itself. What can mean one thing
//! only is taken; otherwise nothing is guessed, and the error names what there is.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::Set;
use crate::call::{Call, CallError, those};
use crate::call_result::CallResult;
use crate::direct_name::direct_name;
use crate::nearest::{loose, nearest, only};
use crate::server::Server;

/// What an aggregator's caller is told whose arguments came as text.
const ARGUMENTS_HINT: &str =
    "Hint: 'arguments' has to be a JSON object, such as {\"name\": \"value\"}, not a text.";
/// Most times that a call is unwrapped.
const UNWRAPPED_MAX: usize = 3;

/// Where a call goes.
pub(super) struct Route {
    pub(super) server: Arc<Server>,
    /// The tool's name, where the caller called it otherwise.
    pub(super) tool: Option<String>,
}

impl Route {
    /// The tool's own name, where the caller called it `tool`.
    pub(super) fn tool<'a>(&'a self, tool: &'a str) -> &'a str {
        self.tool.as_deref().unwrap_or(tool)
    }
}

impl Set {
    pub(super) fn route(&self, server: Option<&str>, tool: &str) -> Result<Route, CallError> {
        let server = match server {
            Some(name) => self.server(name).or_else(|| self.called(name)).ok_or_else(|| {
                let servers = self.servers();
                let names = servers.iter().map(|server| server.entry.name.as_str());
                let names = nearest(name, names).into_iter().map(str::to_owned).collect();
                CallError::ServerUnknown { server: name.to_owned(), names }
            })?,
            None => match self.owner(tool) {
                Some(server) => return Ok(Route { server, tool: None }),
                None => return self.guess(tool),
            },
        };
        // What is held back is not there under another name either.
        let exact = server.lists(tool) || server.withheld(tool).is_some();
        let tool = if exact { None } else { server.called(tool) };
        Ok(Route { server, tool })
    }

    /// The server that has the tool's name.
    fn owner(&self, tool: &str) -> Option<Arc<Server>> {
        let position = self.0.shared.claims.owner(tool)?;
        self.0.servers.read().iter().find(|server| server.position == position).cloned()
    }

    /// The only server that people call so.
    fn called(&self, name: &str) -> Option<Arc<Server>> {
        let servers = self.servers();
        let wanted = loose(name);
        if wanted.is_empty() {
            return None;
        }
        let is_it = |server: &&Arc<Server>| {
            loose(server.entry.name.as_str()) == wanted || server.is_titled(&wanted)
        };
        only(servers.iter(), is_it).cloned()
    }

    /// The only tool of any server that is called so, when no server has exactly this name.
    fn guess(&self, tool: &str) -> Result<Route, CallError> {
        let servers = self.servers();
        let mut found: Vec<String> =
            servers.iter().filter_map(|server| server.called(tool)).collect();
        found.sort_unstable();
        found.dedup();
        let name = only(found.into_iter(), |_| true);
        // Of several servers that list it, the one that has the name, even if it holds it back.
        let owner = name.and_then(|name| Some((self.owner(&name)?, name)));
        let route = owner.map(|(server, name)| Route { server, tool: Some(name) });
        route.ok_or_else(|| {
            let listed: Vec<_> = servers.iter().filter_map(|server| server.listed()).collect();
            let tools = listed.iter().flat_map(|listed| listed.catalogue.tools());
            let names = nearest(tool, tools.map(|tool| tool.name.as_str()));
            let names = names.into_iter().map(str::to_owned).collect();
            CallError::ToolNotListed { tool: tool.to_owned(), names }
        })
    }

    /// Takes a call out of the calls it was wrapped into, where no server has a tool of the
    /// wrapping's name.
    pub(super) fn unwrapped(&self, mut call: Call) -> Call {
        for _ in 0..UNWRAPPED_MAX {
            if !matches!(call.tool.as_str(), "mcp_invoke_tool" | "invoke_tool") {
                break;
            }
            let is_listed = match call.server.as_deref() {
                Some(name) => self.server(name).is_some_and(|server| server.lists(&call.tool)),
                None => self.owner(&call.tool).is_some(),
            };
            if is_listed {
                let Some(arguments) = of_aggregator(&call.arguments) else { break };
                call.arguments = arguments;
            } else {
                let Some((server, tool, arguments)) = wrapped(&call.arguments) else { break };
                call = Call { server: Some(server), tool, arguments, ..call };
            }
        }
        call
    }
}

impl Server {
    /// Adds to an outcome what helps to make a better call.
    pub(super) fn with_hints(
        &self,
        call: &Call,
        outcome: Result<CallResult, CallError>,
    ) -> Result<CallResult, CallError> {
        let names = || {
            let listed = self.listed()?;
            let tools = listed.catalogue.tools().map(|tool| tool.name.as_str());
            let names: Vec<_> = nearest(&call.tool, tools).into_iter().map(str::to_owned).collect();
            Some(those("Tools", &names))
        };
        match outcome {
            Ok(mut result) if result.is_error => {
                if call.tool == "invoke_tool"
                    && call.arguments.get("arguments").is_some_and(Value::is_string)
                {
                    result.add_note(ARGUMENTS_HINT);
                }
                if !self.lists(&call.tool)
                    && let Some(names) = names()
                {
                    let (server, tool) = (&self.entry.name, &call.tool);
                    result
                        .add_note(&format!("MCP server '{server}' lists no tool '{tool}'{names}"));
                }
                Ok(result)
            }
            Err(CallError::ToolUnknown { server, tool, message }) if !self.lists(&call.tool) => {
                let message = message + &names().unwrap_or_default();
                Err(CallError::ToolUnknown { server, tool, message })
            }
            outcome => outcome,
        }
    }

    /// Lets other servers have its tools' names.
    pub(super) fn give_up_names(&self) {
        self.shared.claims.release(self.position);
    }

    /// The name of the only tool that somebody may mean with this, where none has exactly this
    /// name. Nothing is taken apart for it: every tool is asked whether it is called so.
    fn called(&self, name: &str) -> Option<String> {
        let listed = self.listed()?;
        let tools = || listed.catalogue.tools().map(|tool| tool.name.as_str());
        if let Some(tool) = only(tools(), |tool| tool.eq_ignore_ascii_case(name)) {
            return Some(tool.to_owned());
        }
        let wanted = loose(name);
        if wanted.is_empty() {
            return None;
        }
        let server = self.entry.name.as_str();
        let prefixed =
            name.get(..server.len()).is_some_and(|lead| lead.eq_ignore_ascii_case(server));
        let prefix = if prefixed { loose(server) } else { String::new() };
        let is_it = |tool: &&str| {
            let called = loose(tool);
            called == wanted
                || (prefixed && wanted.strip_prefix(&prefix) == Some(&called))
                || (prefixed && direct_name(&self.entry.name, tool) == name)
        };
        let by_title = || {
            let titled = |tool: &&crate::catalogue::Tool| {
                tool.title.as_deref().is_some_and(|title| loose(title) == wanted)
            };
            only(listed.catalogue.tools(), titled).map(|tool| tool.name.as_str())
        };
        only(tools(), is_it).or_else(by_title).map(str::to_owned)
    }

    /// Whether the server tells a title or a name of its own that is this, loosely.
    fn is_titled(&self, wanted: &str) -> bool {
        let Some(listed) = self.listed() else { return false };
        let texts = [&listed.identity.title, &listed.identity.name];
        texts.into_iter().flatten().any(|text| loose(text) == wanted)
    }
}

/// The call inside a call of `mcp_invoke_tool`.
fn wrapped(arguments: &Map<String, Value>) -> Option<(String, String, Map<String, Value>)> {
    let text = |names: [&str; 2]| {
        names.into_iter().find_map(|name| arguments.get(name)?.as_str()).map(str::to_owned)
    };
    let server = text(["server_name", "serverName"])?;
    let tool = text(["tool_name", "toolName"])?;
    Some((server, tool, object(arguments.get("arguments"))?))
}

/// The arguments inside, where an aggregator's own `invoke_tool` is told to call itself.
fn of_aggregator(arguments: &Map<String, Value>) -> Option<Map<String, Value>> {
    let text = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default();
    let itself = text("serverName").to_lowercase().contains("aggregator")
        && text("toolName") == "invoke_tool";
    if itself { object(Some(arguments.get("arguments")?)) } else { None }
}

/// An object, also one that came as text; nothing stands for an empty one.
fn object(value: Option<&Value>) -> Option<Map<String, Value>> {
    match value {
        None | Some(Value::Null) => Some(Map::new()),
        Some(Value::Object(object)) => Some(object.clone()),
        Some(Value::String(text)) if text.trim().is_empty() => Some(Map::new()),
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests;
