//! References among arguments, and what they stand for.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_json::{Limits, count_values};
use toolbus_tools::artifact::{ReadReferences, find_references, replace_references};
use toolbus_tools::call::{ARGUMENTS_BYTES_MAX, ARGUMENTS_LIMITS};
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::{CallError, Scope};

use crate::{Artifacts, Error, media};

/// References in the arguments of one call.
const REFERENCES_MAX: usize = 1_000;

/// Replaces the references in the arguments of a call by what they stand for: JSON becomes a value
/// where the tool takes one, other text a string, and other bytes base64. A reference that is not
/// the caller's stays as it is, and so do those that are asked about.
pub struct ResolveReferences {
    artifacts: Artifacts,
}

/// What a reference stands for.
struct Resolved {
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
        let found = find_references(arguments, REFERENCES_MAX + 1);
        if found.len() > REFERENCES_MAX {
            return Err(CallError::invalid_arguments(format!(
                "there are more than {REFERENCES_MAX} references to artifacts among the arguments"
            )));
        }

        let (mut resolved, mut unknown) = (Vec::new(), Vec::new());
        let mut left = ARGUMENTS_BYTES_MAX as u64;
        let mut limits = ARGUMENTS_LIMITS;
        for text in found {
            match self.read(scope, text, left).await {
                Ok((bytes, media_type)) => {
                    left -= bytes.len() as u64;
                    resolved.push(Some(resolve_bytes(&bytes, &media_type, &mut limits)));
                }
                Err(Error::Unknown(text)) => {
                    resolved.push(None);
                    unknown.push(text);
                }
                Err(error) => return Err(failure(text, &error)),
            }
        }
        for reference in &unknown {
            tracing::warn!(reference, tool = tool.tool.name, "a reference stands for nothing");
        }

        replace(tool, arguments, resolved).map_err(|error| match unknown.is_empty() {
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

/// Puts what was resolved, of each reference in their order, among the arguments: as the values
/// that they are, and where those do not fit the schema, as text.
fn replace(
    tool: &ToolEntry,
    arguments: &mut Value,
    mut resolved: Vec<Option<Resolved>>,
) -> Result<(), CallError> {
    let has_values = resolved.iter().flatten().any(|one| one.value.is_some());
    let referring = has_values.then(|| arguments.clone());
    put(arguments, &mut resolved);
    let checked = tool.check_arguments(arguments);

    match referring {
        Some(referring) if checked.is_err() => {
            *arguments = referring;
            put(arguments, &mut resolved);
            // What is wrong with the values is what their tool has to say.
            tool.check_arguments(arguments).or(checked)
        }
        _ => checked,
    }
}

/// Puts the values, which are then gone, and the text of what has none.
fn put(arguments: &mut Value, resolved: &mut [Option<Resolved>]) {
    let mut resolved = resolved.iter_mut();
    replace_references(arguments, &mut |_: &str| {
        let Resolved { value, text } = resolved.next()?.as_mut()?;
        Some(value.take().unwrap_or_else(|| Value::String(text.clone())))
    });
}

/// What has more values than there may still be is text.
fn resolve_bytes(bytes: &Bytes, media_type: &str, limits: &mut Limits) -> Resolved {
    let text = match media::is_text(media_type).then(|| std::str::from_utf8(bytes)) {
        Some(Ok(text)) => text.to_owned(),
        _ => STANDARD.encode(bytes),
    };

    let read = || toolbus_json::from_str(&text, limits).ok();
    let value: Option<Value> = media::is_json(media_type).then(read).flatten();
    if value.is_some() {
        limits.values -= count_values(text.as_bytes()).min(limits.values);
    }
    Resolved { value, text }
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
