//! Forgives what models do to definitions, before they are checked: one where a list is asked for,
//! JSON as text, other names of members, and null or nothing for what is not given.
//!
//! What cannot be forgiven stays as it is, for the check to tell of it.

use serde_json::{Map, Value, json};
use toolbus_tools::call::ARGUMENTS_LIMITS;

use crate::WispsConfig;
use crate::measure::measure;

/// Other names of `params`.
const PARAMS_ALIASES: [&str; 2] = ["input", "arguments"];

/// Forgives the arguments of a call.
pub(crate) fn coerce(arguments: &mut Map<String, Value>, config: &WispsConfig) {
    // A definition in the place of the arguments.
    if !arguments.contains_key("definitions") && arguments.contains_key("steps") {
        let definition = std::mem::take(arguments);
        arguments.insert("definitions".to_owned(), Value::Object(definition));
    }
    let Some(definitions) = arguments.get_mut("definitions") else { return };
    if is_too_large(definitions, config) {
        return;
    }

    unwrap_json(definitions);
    if !definitions.is_array() {
        *definitions = json!([definitions.take()]);
    }
    for definition in definitions.as_array_mut().into_iter().flatten() {
        unwrap_json(definition);
        if let Value::Object(definition) = definition {
            coerce_definition(definition);
        }
    }
}

/// Whether definitions are too large to be looked at.
fn is_too_large(definitions: &Value, config: &WispsConfig) -> bool {
    let size = measure(definitions);
    size.bytes > config.definitions_bytes_max
        || size.values > config.definitions_values_max
        || size.depth > config.definitions_depth_max
}

/// Puts a value into the place of its JSON text, where it is a list or an object.
fn unwrap_json(value: &mut Value) {
    let Value::String(text) = value else { return };
    if !text.trim_start().starts_with(['[', '{']) {
        return;
    }
    if let Ok(parsed) = toolbus_json::from_str::<Value>(text, &ARGUMENTS_LIMITS) {
        *value = parsed;
    }
}

fn coerce_definition(definition: &mut Map<String, Value>) {
    remove_absent(definition);
    if let Some(tools) = definition.get_mut("tools") {
        unwrap_json(tools);
        if let Value::String(text) = tools {
            *tools = text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
        }
    }

    let Some(steps) = definition.get_mut("steps") else { return };
    unwrap_json(steps);
    if steps.is_object() {
        *steps = json!([steps.take()]);
    }
    for step in steps.as_array_mut().into_iter().flatten() {
        unwrap_json(step);
        if let Value::Object(step) = step {
            coerce_step(step);
        }
    }
}

fn coerce_step(step: &mut Map<String, Value>) {
    remove_absent(step);
    for alias in PARAMS_ALIASES {
        if !step.contains_key("params")
            && let Some(params) = step.remove(alias)
        {
            step.insert("params".to_owned(), params);
        }
    }

    if let Some(input) = step.get_mut("input_from") {
        unwrap_json(input);
        if input.is_object() && !step.contains_key("params") {
            let params = step.remove("input_from").unwrap_or_default();
            step.insert("params".to_owned(), params);
        }
    }
    if let Some(params) = step.get_mut("params") {
        unwrap_json(params);
    }

    if let Some(on_failure) = step.get_mut("on_failure") {
        unwrap_json(on_failure);
        if let Value::String(action) = on_failure {
            *on_failure = json!({"action": action});
        }
        if let Value::Object(on_failure) = on_failure {
            remove_absent(on_failure);
        }
    }
    if let Some(minutes) = step.get_mut("timeout_minutes")
        && let Some(number) = minutes.as_str().and_then(|text| text.trim().parse::<f64>().ok())
        && let Some(number) = serde_json::Number::from_f64(number)
    {
        *minutes = Value::Number(number);
    }
}

/// Takes away what stands for nothing.
fn remove_absent(members: &mut Map<String, Value>) {
    members.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        _ => true,
    });
}

#[cfg(test)]
mod tests;
