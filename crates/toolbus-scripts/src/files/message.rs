//! Files as members of messages.
//!
//! Invariant: an answer that would be too large for one message goes without its files, and says
//! so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::responder::Reply;
use toolbus_wire::message::script::{RefusedFile, ScriptFile, ScriptInvokeResponse};

use super::{FILES_BYTES_MAX, FILES_MAX, File, FileName, Produced, Refused, mime_type};

/// The files of a request.
///
/// # Errors
/// A text for the caller, when one has no such name or no such content, or they are too many.
pub(crate) fn decode_files(files: Vec<ScriptFile>) -> Result<Vec<File>, String> {
    let base64: usize = files.iter().map(|file| file.data.len()).sum();

    // Before anything is decoded: four characters stand for three bytes.
    if files.len() > FILES_MAX || base64 / 4 > FILES_BYTES_MAX / 3 + files.len() {
        return Err(format!(
            "{} files of about {} bytes are over the limits of {FILES_MAX} and {FILES_BYTES_MAX}",
            files.len(),
            base64 / 4 * 3
        ));
    }

    files.into_iter().map(decode_file).collect()
}

fn decode_file(file: ScriptFile) -> Result<File, String> {
    let ScriptFile { name, data, .. } = file;
    let wrong = |reason: String| format!("the file {name:?} cannot be taken: {reason}");
    let parsed = FileName::parse(&name).map_err(|error| wrong(error.to_string()))?;
    let content = STANDARD.decode(data).map_err(|_| wrong("its data is not base64".to_owned()))?;
    Ok(File { name: parsed, content: content.into() })
}

/// What a script left, as the members of its answer: absent when there is nothing.
pub(crate) fn encode_produced(
    produced: Produced,
) -> (Option<Vec<ScriptFile>>, Option<Vec<RefusedFile>>) {
    let Produced { files, refused } = produced;
    let files = files.into_iter().map(|file| ScriptFile {
        mime_type: Some(mime_type(file.name.as_str(), &file.content).to_owned()),
        data: STANDARD.encode(&file.content),
        name: file.name.0,
    });

    let files: Vec<ScriptFile> = files.collect();
    let refused: Vec<RefusedFile> = refused.into_iter().map(refused_to_wire).collect();

    (
        Some(files).filter(|files| !files.is_empty()),
        Some(refused).filter(|refused| !refused.is_empty()),
    )
}

fn refused_to_wire(refused: Refused) -> RefusedFile {
    RefusedFile { name: refused.name, reason: refused.reason }
}

/// The answer as a message, made by `reply`.
pub(crate) fn within_limit(
    mut response: ScriptInvokeResponse,
    reply: impl Fn(&ScriptInvokeResponse) -> Reply,
) -> Reply {
    let whole = reply(&response);
    if whole.body.len() <= BODY_BYTES_MAX {
        return whole;
    }

    let Some(files) = response.files.take() else { return whole };
    let refused = files.into_iter().map(|file| RefusedFile {
        name: file.name,
        reason: "with what the script printed the answer would be too large".to_owned(),
    });
    response.files_refused.get_or_insert_default().extend(refused);
    reply(&response)
}
