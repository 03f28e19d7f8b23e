//! What a tool's function returns, as the output of its call.

use serde::Serialize;
use serde_json::Value;
use toolbus_tools::{CallError, Output};
use toolbus_wire::json::RawJson;

/// A string is text; any other value is structured, and its JSON is the text.
pub(super) fn output_of<R: Serialize>(result: R) -> Result<Output, CallError> {
    let value = serde_json::to_value(result)
        .map_err(|error| CallError::execution_failed(format!("the result is not JSON: {error}")))?;

    Ok(match value {
        Value::Null => Output::default(),
        Value::String(text) => Output::text(text),
        value => {
            let text = value.to_string();
            Output { structured: Some(RawJson::of(&value)), ..Output::text(text) }
        }
    })
}
