//! The arguments of a call as their caller wrote them.
//!
//! Gates and tools see arguments as values, in which a number that no `f64` holds is another. Who
//! sends a call on sends what was written, where it means the very arguments that have passed the
//! gates.

use serde_json::{Map, Value};
use toolbus_wire::json::RawJson;

/// What a caller wrote.
#[derive(Debug, Clone)]
pub(crate) enum Written {
    /// All params of the request of an MCP client.
    Params(RawJson),
    /// The text of the arguments.
    Arguments(String),
}

/// The params of a call of this tool, with the name and the arguments that these are: an object of
/// `name`, `arguments` and what an MCP client wrote beside them.
pub(crate) fn params_of(written: Option<&Written>, tool: &str, arguments: &Value) -> RawJson {
    let nothing = || RawJson::of(&Map::new());
    let (params, outer) = match written {
        Some(Written::Params(params)) => (params.clone(), params.member("arguments")),
        Some(Written::Arguments(text)) => (nothing(), RawJson::parse(text.clone()).ok()),
        None => (nothing(), None),
    };

    // The caller calls the tool, or a tool that calls it: then the arguments are among its own.
    let inner = outer.as_ref().and_then(|outer| outer.member("arguments"));
    let mut as_written = [outer, inner].into_iter().flatten();
    let as_written = as_written.find(|as_written| as_written.means(arguments));
    let arguments = as_written.unwrap_or_else(|| RawJson::of(arguments));

    params.with_members(&[("name", Some(&RawJson::of(&tool))), ("arguments", Some(&arguments))])
}

#[cfg(test)]
mod tests;
