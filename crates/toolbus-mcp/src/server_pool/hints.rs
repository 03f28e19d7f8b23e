//! Hints for the model that are added to the outcome of a call, so that its next call is better.

use serde_json::Value;

use crate::call::{Call, CallError, name_list};
use crate::call_result::CallResult;
use crate::nearest::nearest_names;
use crate::server::Server;

/// The note for a caller of an aggregator whose arguments came as text.
const ARGUMENTS_HINT: &str =
    "Hint: 'arguments' has to be a JSON object, such as {\"name\": \"value\"}, not a text.";

/// Adds to an outcome what helps to make a better call.
pub(super) fn add_hints(
    server: &Server,
    call: &Call,
    outcome: Result<CallResult, CallError>,
) -> Result<CallResult, CallError> {
    let is_listed = || server.catalogue.lists_tool(&call.tool);

    match outcome {
        Ok(mut result) if result.is_error => {
            let has_text_arguments = call.arguments.get("arguments").is_some_and(Value::is_string);
            if call.tool == "invoke_tool" && has_text_arguments {
                result.add_note(ARGUMENTS_HINT);
            }
            Ok(result)
        }
        Err(CallError::ToolUnknown { server: name, tool, message, server_error })
            if !is_listed() =>
        {
            let message = message + &nearest_tools(server, &call.tool).unwrap_or_default();
            Err(CallError::ToolUnknown { server: name, tool, message, server_error })
        }
        outcome => outcome,
    }
}

/// The tools of a server whose names are nearest to this one, as the end of a sentence.
fn nearest_tools(server: &Server, tool: &str) -> Option<String> {
    let listing = server.catalogue.latest()?;
    let tools = listing.catalogue.tools().map(|tool| tool.name.as_str());
    let names: Vec<_> = nearest_names(tool, tools).into_iter().map(str::to_owned).collect();
    Some(name_list("Tools", &names))
}
