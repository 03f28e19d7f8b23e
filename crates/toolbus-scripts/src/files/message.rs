//! Files as members of messages.
//!
//! Invariant: an answer that would be too large for one message goes without its files, and without
//! some of its output, and says so.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::responder::Reply;
use toolbus_wire::message::script::{RefusedFile, ScriptFile, ScriptInvokeResponse, ScriptReason};

use super::{FILES_BYTES_MAX, FILES_MAX, File, FileName, Produced, Refused, mime_type};

/// How much is kept of each text of an answer that is too large without its files.
const LONG_OUTPUT_BYTES_MAX: usize = 512 << 10;

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

    if let Some(files) = response.files.take() {
        let refused = files.into_iter().map(|file| RefusedFile {
            name: file.name,
            reason: "with what the script printed the answer would be too large".to_owned(),
        });
        response.files_refused.get_or_insert_default().extend(refused);
    }

    let without_files = reply(&response);
    if without_files.body.len() <= BODY_BYTES_MAX {
        return without_files;
    }

    shorten_output(&mut response);
    reply(&response)
}

/// Cuts what the script printed so that it is not too large whatever it consists of: a control
/// character takes six bytes in JSON.
fn shorten_output(response: &mut ScriptInvokeResponse) {
    let mut is_cut = false;
    let mut shorten = |text: &mut String| {
        let end = text.floor_char_boundary(LONG_OUTPUT_BYTES_MAX);
        let is_longer = end < text.len();
        text.truncate(end);
        is_cut |= is_longer;
        is_longer
    };

    if let Some(output) = &mut response.output {
        shorten(output);
    }
    if let Some(streams) = &mut response.streams {
        streams.stdout_truncated |= shorten(&mut streams.stdout);
        streams.stderr_truncated |= shorten(&mut streams.stderr);
    }
    if is_cut {
        response.reason.get_or_insert(ScriptReason::OutputTruncated);
    }
}
