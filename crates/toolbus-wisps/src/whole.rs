//! The whole text of an output: what was too large for a caller is kept as an artifact, and steps
//! hand results to each other as they are.

use std::borrow::Cow;

use toolbus_artifacts::{Artifacts, Error};
use toolbus_tools::{ArtifactInfo, Output, Scope};

use crate::texts;

/// What the media type of a text begins with.
const TEXT: &str = "text/";
const JSON: &str = "application/json";

/// The text of an output, or else its value; at most so many bytes of it, and a note where there
/// are more.
pub(crate) async fn read_whole(
    output: &Output,
    artifacts: Option<&Artifacts>,
    scope: &Scope,
    bytes_max: usize,
) -> String {
    let text = output.to_text();
    let is_empty = text.trim().is_empty();
    if let (Some(artifacts), Some(info)) = (artifacts, &output.artifact)
        // A value that is kept is told as text, too, where there is one.
        && (info.media_type.starts_with(TEXT) || (info.media_type.starts_with(JSON) && is_empty))
    {
        match read_artifact(artifacts, info, scope, bytes_max).await {
            Ok(whole) => return whole,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not read a large result of a step");
            }
        }
    }

    match &output.structured {
        Some(value) if is_empty => texts::cut(Cow::Borrowed(value.text()), bytes_max),
        _ => texts::cut(text, bytes_max),
    }
}

async fn read_artifact(
    artifacts: &Artifacts,
    info: &ArtifactInfo,
    scope: &Scope,
    bytes_max: usize,
) -> Result<String, Error> {
    let artifact = artifacts.find_in(scope, info.reference.as_str()).await?;
    let bytes = artifact.read(0..bytes_max as u64).await?;
    let omitted = info.bytes.saturating_sub(bytes.len() as u64);
    if omitted == 0 {
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }

    // The last character may be cut off.
    let end = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    };
    let text = String::from_utf8_lossy(&bytes[..end]);
    let reference = &info.reference;
    Ok(format!("{text}\n[result truncated — all of its {} bytes are in {reference}]", info.bytes))
}
