use serde_json::Value;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::registry::{Offer, Registry};
use toolbus_tools::{CallError, ProviderSpecs, Tool};

use super::*;

mod anthropic;
mod lists;
mod properties;
mod schemas;
mod strict_mode;
mod vendors;

fn nothing(_: Invocation) -> std::future::Ready<Result<Output, CallError>> {
    std::future::ready(Ok(Output::default()))
}

/// The entries of tools that a registry accepts.
fn entries(tools: impl IntoIterator<Item = Tool>) -> Vec<Arc<ToolEntry>> {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let offer = |tool: Tool| match tool.kind.is_local() {
        true => Offer::new(tool, nothing),
        false => Offer::hosted(tool),
    };
    assert!(provider.publish(tools.into_iter().map(offer).collect()).is_empty());
    // The provider withdraws them when it goes; the entries stay whole.
    registry.snapshot().tools().to_vec()
}

fn tool(name: &str) -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {"q": {"type": "string", "description": "What to look for"}},
        "required": ["q"]
    });
    Tool::new(name, format!("Does {name}."), "test").with_parameters(parameters)
}

fn lower_all(dialect: Dialect, tools: impl IntoIterator<Item = Tool>) -> LoweredTools {
    lower(dialect, &entries(tools), &Listing::default())
}

/// The definition of one tool with this schema.
fn define(dialect: Dialect, parameters: Value) -> Value {
    let lowered = lower_all(dialect, [tool("a").with_parameters(parameters)]);
    lowered.definitions()[0].clone()
}

/// The name of a definition, of any dialect.
fn name_of(definition: &Value) -> &str {
    let name = definition.get("name").or(definition["function"].get("name"));
    name.or(definition.get("type")).and_then(Value::as_str).unwrap_or_default()
}

fn names(lowered: &LoweredTools) -> Vec<&str> {
    lowered.definitions().iter().map(name_of).collect()
}
