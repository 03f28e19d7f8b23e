//! Files in the words of models: arguments in, content blocks out.
//!
//! Invariant: the text of an output is the contract's, whatever files there are; those stand in
//! blocks beside it, the text first.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};
use toolbus_tools::call::{ARGUMENTS_LIMITS, CallError, Output};
use toolbus_wire::message::script::{RefusedFile, ScriptFile};
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

use crate::files::{FileName, OUTPUT_FOLDER};

/// Where a file that came back stands in a resource's address.
const RESOURCE_URI_PREFIX: &str = "script:///output/";
/// All that an address takes as it is.
const URI_UNRESERVED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Pictures that models can look at.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The schema of the argument `input_files`.
pub(super) fn schema() -> Value {
    json!({
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "name": {
                    "type": "string",
                    "description": "Its name, without a folder"
                },
                "text": {"type": "string", "description": "Its content, when that is text"},
                "data": {"type": "string", "description": "Its content in base64, when it is not"}
            },
            "required": ["name"],
            "additionalProperties": false
        },
        "description": "Files that the script finds in the folder `input` of its working folder, \
                        such as [{\"name\": \"table.csv\", \"text\": \"a,b\\n1,2\\n\"}] for \
                        input/table.csv; 32 files of 4 MiB together"
    })
}

/// Text that holds a list becomes the list.
pub(super) fn coerce_list(value: &mut Value) {
    let Value::String(text) = value else { return };
    if let Ok(list @ Value::Array(_)) = toolbus_json::from_str(text, &ARGUMENTS_LIMITS) {
        *value = list;
    }
}

/// The argument `input_files`, which the schema has let pass.
pub(super) fn take_input_files(
    arguments: &mut Map<String, Value>,
) -> Result<Option<Vec<ScriptFile>>, CallError> {
    let Some(Value::Array(list)) = arguments.remove("input_files") else { return Ok(None) };

    let files: Vec<ScriptFile> =
        list.into_iter().map(parse_input_file).collect::<Result<_, _>>()?;
    Ok(Some(files).filter(|files| !files.is_empty()))
}

fn parse_input_file(mut file: Value) -> Result<ScriptFile, CallError> {
    let mut take = |member: &str| match file.get_mut(member).map(Value::take) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let name = take("name").unwrap_or_default();
    let refused = |reason: &str| {
        CallError::invalid_arguments(format!("The file {name:?} cannot be taken: {reason}"))
    };

    FileName::parse(&name).map_err(|error| refused(&error.to_string()))?;

    let data = match (take("text"), take("data")) {
        (Some(text), None) => STANDARD.encode(text),
        (None, Some(data)) if STANDARD.decode(&data).is_ok() => data,
        (None, Some(_)) => return Err(refused("its `data` is not base64")),
        _ => return Err(refused("it needs either `text` or `data`")),
    };

    Ok(ScriptFile { name, data, mime_type: None })
}

/// The output with files beside its text.
pub(super) fn append_files(mut output: Output, files: Vec<ScriptFile>) -> Output {
    if files.is_empty() {
        return output;
    }
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    let names = format!("Files from the folder {OUTPUT_FOLDER}: {}", names.join(", "));
    let texts = [output.content.clone().unwrap_or_default(), names];
    output.blocks = texts.into_iter().map(text_block).collect();
    output.blocks.extend(files.into_iter().map(file_block));
    output
}

/// Says of files that do not come back why, each on a line of its own.
pub(super) fn refusal_notes(refused: &[RefusedFile]) -> String {
    let lines = refused.iter().map(|file| {
        format!("\n[{OUTPUT_FOLDER}/{} does not come back: {}]", file.name, file.reason)
    });
    lines.collect()
}

fn text_block(text: String) -> ContentBlock {
    ContentBlock {
        kind: ContentKind::Text,
        text: Some(text),
        data: None,
        mime_type: None,
        uri: None,
    }
}

fn file_block(file: ScriptFile) -> ContentBlock {
    let ScriptFile { name, data, mime_type } = file;
    let uri = format!("{RESOURCE_URI_PREFIX}{}", utf8_percent_encode(&name, URI_UNRESERVED));

    let kind = mime_type.as_deref().unwrap_or_default();

    if IMAGE_TYPES.contains(&kind) {
        let kind = ContentKind::Image;
        return ContentBlock { kind, text: None, data: Some(data), mime_type, uri: Some(uri) };
    }

    // What is said to be text and is not goes as it came.
    let is_bytes = kind == "application/octet-stream";
    let decoded = (!is_bytes).then(|| STANDARD.decode(&data).ok()).flatten();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let data = text.is_none().then_some(data);

    ContentBlock { kind: ContentKind::Resource, text, data, mime_type, uri: Some(uri) }
}

#[cfg(test)]
mod tests;
