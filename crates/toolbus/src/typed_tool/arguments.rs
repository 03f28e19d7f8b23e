//! Arguments as the type that a tool's function takes.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use toolbus_tools::CallError;

use crate::tool_failure::truncate;

/// Reads arguments. The schema has let them through, so what is wrong with them now is what the
/// type asks for beyond its schema.
pub(super) fn read_arguments<A: DeserializeOwned>(
    arguments: Map<String, Value>,
) -> Result<A, CallError> {
    serde_path_to_error::deserialize(Value::Object(arguments)).map_err(|error| {
        let member = error.path().to_string();
        let what = error.into_inner();
        // The path of the arguments themselves.
        let text = if member == "." { what.to_string() } else { format!("{member}: {what}") };
        CallError::invalid_arguments(truncate(text))
    })
}
