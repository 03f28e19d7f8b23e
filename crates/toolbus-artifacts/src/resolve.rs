//! References among arguments, and what they stand for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_json::Limits;
use toolbus_tools::artifact::{ReadReferences, find_references};
use toolbus_tools::call::{ARGUMENTS_BYTES_MAX, ARGUMENTS_VALUES_MAX};
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::{CallError, Scope};

use crate::{Artifacts, Error, media};

/// References in the arguments of one call.
const REFERENCES_MAX: usize = 1_000;
/// What a value may have that is put among the arguments.
const VALUE_LIMITS: Limits =
    Limits::of_bytes(ARGUMENTS_BYTES_MAX).with_values(ARGUMENTS_VALUES_MAX);

/// Replaces the references in the arguments of a call by what they stand for: JSON becomes a value
/// where the tool takes one, other text a string, and other bytes base64. A reference that is not
/// the caller's stays as it is, and so do those that are asked about.
pub struct ResolveReferences {
    artifacts: Artifacts,
}

/// One reference and what it stands for.
struct Resolved {
    pointer: String,
    /// As JSON, where it is that.
    value: Option<Value>,
    text: String,
}

impl ResolveReferences {
    /// Reads from these artifacts.
    #[must_use]
    pub fn new(artifacts: Artifacts) -> Self {
        Self { artifacts }
    }

    async fn resolve(
        &self,
        scope: &Scope,
        tool: &ToolEntry,
        arguments: &mut Value,
    ) -> Result<(), CallError> {
        let found = find_references(arguments);
        if found.len() > REFERENCES_MAX {
            return Err(CallError::invalid_arguments(format!(
                "{} references to artifacts are over the limit of {REFERENCES_MAX}",
                found.len()
            )));
        }

        let (mut resolved, mut unknown) = (Vec::new(), Vec::new());
        let mut left = ARGUMENTS_BYTES_MAX as u64;
        for (pointer, text) in found {
            match self.read(scope, &text, left).await {
                Ok((bytes, media_type)) => {
                    left -= bytes.len() as u64;
                    resolved.push(resolve_bytes(pointer, bytes, &media_type));
                }
                Err(Error::Unknown(_)) => unknown.push(text),
                Err(error) => return Err(failure(&text, &error)),
            }
        }
        for reference in &unknown {
            tracing::warn!(reference, tool = tool.tool.name, "a reference stands for nothing");
        }

        replace(tool, arguments, &mut resolved).map_err(|error| match unknown.is_empty() {
            true => error,
            false => {
                let missing = Error::Unknown(unknown.join("', '"));
                CallError::invalid_arguments(format!("{}; {missing}", error.message))
            }
        })
    }

    async fn read(&self, scope: &Scope, text: &str, left: u64) -> Result<(Bytes, String), Error> {
        let artifact = self.artifacts.find_in(scope, text).await?;
        let bytes = artifact.read_all(left).await?;
        Ok((bytes, artifact.info.media_type))
    }
}

impl ReadReferences for ResolveReferences {
    /// The tools that query artifacts read references themselves.
    fn keeps_references(&self, tool: &ToolEntry) -> bool {
        crate::tools::TOOL_NAMES.contains(&tool.tool.name.as_str())
    }

    fn replace<'a>(
        &'a self,
        scope: &'a Scope,
        tool: &'a ToolEntry,
        arguments: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        Box::pin(self.resolve(scope, tool, arguments))
    }
}

/// Puts what was resolved among the arguments: as the values that they are, and where those do not
/// fit the schema, as text.
fn replace(
    tool: &ToolEntry,
    arguments: &mut Value,
    resolved: &mut [Resolved],
) -> Result<(), CallError> {
    put(arguments, resolved);
    let checked = tool.check_arguments(arguments);

    let has_values = resolved.iter().any(|one| one.value.is_some());
    if checked.is_err() && has_values {
        resolved.iter_mut().for_each(|one| one.value = None);
        put(arguments, resolved);
        // What is wrong with the values is what their tool has to say.
        return tool.check_arguments(arguments).or(checked);
    }
    checked
}

fn put(arguments: &mut Value, resolved: &[Resolved]) {
    for Resolved { pointer, value, text } in resolved {
        if let Some(place) = arguments.pointer_mut(pointer) {
            *place = value.clone().unwrap_or_else(|| Value::String(text.clone()));
        }
    }
}

fn resolve_bytes(pointer: String, bytes: Bytes, media_type: &str) -> Resolved {
    let text = match media::is_text(media_type).then(|| std::str::from_utf8(&bytes)) {
        Some(Ok(text)) => text.to_owned(),
        _ => STANDARD.encode(&bytes),
    };
    let read = || toolbus_json::from_str(&text, &VALUE_LIMITS).ok();
    let value = media::is_json(media_type).then(read).flatten();
    Resolved { pointer, value, text }
}

fn failure(reference: &str, error: &Error) -> CallError {
    match error {
        Error::TooLarge { .. } => CallError::invalid_arguments(format!(
            "the artifacts among the arguments have more than {ARGUMENTS_BYTES_MAX} bytes together: \
             give the tool a part of them, or have a script read them"
        )),
        Error::Damaged(_) => CallError::invalid_arguments(error.to_string()),
        error => {
            tracing::warn!(
                error = error as &dyn std::error::Error,
                reference,
                "cannot read an artifact"
            );
            CallError::execution_failed(format!(
                "the artifact '{reference}' cannot be read: {error}"
            ))
        }
    }
}
