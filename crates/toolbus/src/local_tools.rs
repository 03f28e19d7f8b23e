//! The tools that the embedding program brings: what their names must be, and how they are
//! registered.

use std::sync::Arc;

use toolbus_tools::Registry;
use toolbus_tools::registry::{self, Offer, Provider};

use crate::error::Error;

/// Longest name of a tool of the embedding program, in bytes: what every model's API takes.
pub const TOOL_NAME_BYTES_MAX: usize = 64;
/// Who provides such tools, as the registry knows it.
const PROVIDER: &str = "local";

/// Checks the names of tools among themselves, before anything is started.
pub(crate) fn check_names(tools: &[Offer]) -> Result<(), Error> {
    for (place, offer) in tools.iter().enumerate() {
        let name = &offer.tool.name;
        if !is_tool_name(name) {
            return Err(Error::ToolName(name.clone()));
        }

        // The registry would take the second for a new version of the first.
        if let Some(first) = tools[..place].iter().find(|first| first.tool.name == *name) {
            return Err(Error::Tool(registry::Error::Duplicate {
                name: name.clone(),
                taken_by: first.tool.source.to_string(),
                source_name: offer.tool.source.to_string(),
            }));
        }
    }
    Ok(())
}

/// Registers tools, for as long as the provider is kept.
pub(crate) fn register_tools(
    registry: &Arc<Registry>,
    tools: Vec<Offer>,
) -> Result<Provider, Error> {
    let provider = registry.provider(PROVIDER);
    match provider.publish(tools).into_iter().next() {
        Some((_, error)) => Err(Error::Tool(error)),
        None => Ok(provider),
    }
}

/// Whether models can call a tool by this name.
fn is_tool_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}
