//! The kept inputs of a target: a file with one input in a line, in Base64.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Most inputs that are kept of a target, and their bytes: short ones first.
const INPUTS_MAX: usize = 400;
const BYTES_MAX: usize = 192 << 10;

/// Writes the inputs of a file into a folder, one file each, beside what is there.
pub(super) fn unpack(file: &Path, folder: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        read => read.with_context(|| file.display().to_string())?,
    };
    for (number, line) in text.lines().enumerate() {
        let input = STANDARD.decode(line);
        let input = input.with_context(|| format!("{}:{}", file.display(), number + 1))?;
        fs::write(folder.join(format!("kept-{number}")), input)?;
    }
    Ok(())
}

/// Writes the inputs of a folder into a file, and says how many there are.
pub(super) fn pack(folder: &Path, file: &Path) -> anyhow::Result<u64> {
    let mut inputs = BTreeSet::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let input = fs::read(entry?.path())?;
        inputs.insert((input.len(), input));
    }
    ensure!(!inputs.is_empty(), "{} has no inputs", folder.display());

    let (mut text, mut bytes, mut count) = (String::new(), 0, 0);
    for (length, input) in inputs.into_iter().take(INPUTS_MAX) {
        bytes += length;
        if bytes > BYTES_MAX {
            break;
        }
        STANDARD.encode_string(input, &mut text);
        text.push('\n');
        count += 1;
    }
    fs::write(file, text).with_context(|| file.display().to_string())?;
    Ok(count)
}
