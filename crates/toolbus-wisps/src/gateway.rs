//! What a step gives to its tool: the arguments, with templates filled in and the input added.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolbus_tools::call::ARGUMENTS_LIMITS;

use crate::definition::{SCRIPT_SOURCE, Step, Work};
use crate::report::{Category, StepFailure};
use crate::template::Filler;

/// The longest that a script may ask for.
const SCRIPT_TIMEOUT_MAX: Duration = Duration::from_secs(300);

/// The call that a step makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolRequest {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Map<String, Value>,
}

/// The call of a step that is no completion; `input` is what it takes of an earlier one. A message
/// to another agent has it in its text already.
pub(crate) fn request_of(
    step: &Step,
    filler: &mut Filler<'_>,
    input: Option<&str>,
) -> Result<Option<ToolRequest>, StepFailure> {
    let Some(tool) = step.work.gateway_tool() else { return Ok(None) };
    let arguments = match &step.work {
        Work::Mcp { server, tool, params } => {
            let mut arguments = filler.fill_object(params)?;
            if let Some(input) = input {
                add_object(&mut arguments, input)?;
            }
            json!({"server_name": server, "tool_name": tool, "arguments": arguments})
        }
        Work::Script { params } => Value::Object(script_arguments(step, params, filler, input)?),
        Work::Web { main, params, .. } => {
            let mut arguments = filler.fill_object(params)?;
            if let Some(input) = input {
                let text = Value::String(input.trim().to_owned());
                arguments.entry((*main).to_owned()).or_insert(text);
            }
            Value::Object(arguments)
        }
        Work::Agent { agent, skill, message } => {
            let message = match input {
                Some(input) => format!("{}\n\n{input}", filler.fill_text(message)?),
                None => filler.fill_text(message)?,
            };
            let mut arguments = json!({"agent_name": agent, "skill": skill, "message": message});
            if let Some(timeout) = step.timeout {
                arguments["timeout_minutes"] = json!(timeout.as_secs().div_ceil(60).max(1));
            }
            arguments
        }
        Work::Complete { .. } => return Ok(None),
    };

    let Value::Object(arguments) = arguments else { return Ok(None) };
    Ok(Some(ToolRequest { tool, arguments }))
}

/// The arguments of a script: its source as it was written, and the input as its input data.
fn script_arguments(
    step: &Step,
    params: &Map<String, Value>,
    filler: &mut Filler<'_>,
    input: Option<&str>,
) -> Result<Map<String, Value>, StepFailure> {
    let mut others = params.clone();
    let source = others.remove(SCRIPT_SOURCE).unwrap_or_default();
    let mut arguments = filler.fill_object(&others)?;
    arguments.insert(SCRIPT_SOURCE.to_owned(), source);

    if let Some(input) = input {
        let input = Value::String(input.to_owned());
        arguments.entry("input_data".to_owned()).or_insert(input);
    }
    if let Some(timeout) = step.timeout {
        let seconds = timeout.min(SCRIPT_TIMEOUT_MAX).as_secs().max(1);
        arguments.entry("timeout_seconds".to_owned()).or_insert(json!(seconds));
    }
    Ok(arguments)
}

/// Adds the members of an object that is given as text. Those that are there stay.
fn add_object(arguments: &mut Map<String, Value>, input: &str) -> Result<(), StepFailure> {
    let Ok(Value::Object(members)) = toolbus_json::from_str(input, &ARGUMENTS_LIMITS) else {
        let text = "the input is not a JSON object, so it cannot be the tool's arguments: put a \
                    template into params instead";
        return Err(StepFailure::new(Category::Data, text));
    };
    for (name, value) in members {
        arguments.entry(name).or_insert(value);
    }
    Ok(())
}
