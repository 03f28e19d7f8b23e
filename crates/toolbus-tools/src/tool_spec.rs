//! Definitions of tools in the form that every dialect of a model's API is written from.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::tool::Tool;
use crate::tool_kind::ToolKind;

/// What a provider of models is told of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ToolSpec {
    /// A function, in the words of each dialect.
    Function(FunctionSpec),
    /// A definition of the provider's own, sent as it is.
    Provider(ProviderSpec),
}

/// A function that a model may call.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FunctionSpec {
    /// The tool's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub parameters: Value,
    /// Whether it is found by a search only. It is the tool's `defer`, and has no other home.
    pub defer_loading: bool,
    /// Whether arguments are to be held to the schema while they are written, where that can be.
    pub strict: bool,
}

/// A tool in the words of one provider.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProviderSpec {
    /// The tool's name here.
    pub name: String,
    /// The provider.
    pub provider: String,
    /// The definition, which is sent as it is.
    pub spec: Value,
}

/// What this provider is told of a tool. `None` of one that the provider does not know: it is left
/// out with a warning, and nothing half is sent in its place.
#[must_use]
pub fn spec_of(tool: &Tool, provider: &str) -> Option<ToolSpec> {
    let specs = match &tool.kind {
        ToolKind::Local => {
            return Some(ToolSpec::Function(FunctionSpec {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
                defer_loading: tool.defer,
                strict: true,
            }));
        }
        ToolKind::ProviderHosted(specs) | ToolKind::ProviderDefined { specs, .. } => specs,
    };

    let Some(spec) = specs.of(provider) else {
        tracing::warn!(tool = tool.name, provider, "left out a tool that the provider lacks");
        return None;
    };
    Some(ToolSpec::Provider(ProviderSpec {
        name: tool.name.clone(),
        provider: provider.to_owned(),
        spec: spec.clone(),
    }))
}

/// The schema of a local tool as lists have it, without a mark.
pub(crate) fn function_schema(tool: &Tool) -> Map<String, Value> {
    let members = [
        ("name", json!(tool.name)),
        ("description", json!(tool.description)),
        ("parameters", tool.parameters.clone()),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
