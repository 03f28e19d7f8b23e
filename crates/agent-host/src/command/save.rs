//! Files among the blocks of an outcome: told of, or saved.
//!
//! Invariants: nothing is written outside of the folder that was named, and no file that is there
//! is overwritten, since a tool, not its user, chooses the names.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use toolbus_scripts::files::FileName;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

/// Attempts to find a name that is free.
const NAMES_MAX: usize = 1000;

/// A block that is a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FilePart {
    pub(super) name: FileName,
    pub(super) kind: String,
    pub(super) content: Vec<u8>,
}

/// The blocks that hold bytes, or text that stands somewhere; text to read is none.
pub(super) fn file_parts(blocks: &[ContentBlock]) -> Vec<FilePart> {
    let parts = blocks.iter().enumerate().filter_map(|(index, block)| {
        let content = match (&block.data, &block.text, &block.kind) {
            (Some(data), ..) => STANDARD.decode(data).ok()?,
            (None, Some(text), ContentKind::Resource) => text.clone().into_bytes(),
            _ => return None,
        };
        let kind = block.mime_type.as_deref().unwrap_or("application/octet-stream");
        let uri = block.uri.as_deref().unwrap_or_default();
        let name = name_of(uri).unwrap_or_else(|| made_up(index + 1, kind));
        Some(FilePart { name, kind: kind.to_owned(), content })
    });
    parts.collect()
}

/// Says on standard error which files there are.
pub(super) fn print_names(parts: &[FilePart]) {
    for FilePart { name, kind, content } in parts {
        let bytes = content.len();
        let _ = writeln!(io::stderr(), "file: {name} ({kind}, {bytes} bytes; --save keeps it)");
    }
}

/// Writes the files into a folder, which is made where it is missing, and says where each is.
pub(super) fn write_files(folder: &Path, parts: &[FilePart]) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    for part in parts {
        let (mut file, path) = create_new(folder, part.name.as_str())?;
        file.write_all(&part.content)?;
        let _ = writeln!(io::stderr(), "file: {}", path.display());
    }
    Ok(())
}

/// A new file under this name, or under one that begins with it where that is taken.
fn create_new(folder: &Path, name: &str) -> io::Result<(File, PathBuf)> {
    let (stem, ending) = match name.rsplit_once('.') {
        Some((stem, ending)) => (stem, format!(".{ending}")),
        None => (name, String::new()),
    };
    for number in 0..NAMES_MAX {
        let path = match number {
            0 => folder.join(name),
            number => folder.join(format!("{stem}-{number}{ending}")),
        };
        match File::create_new(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|file| (file, path)),
        }
    }
    let taken = format!("{name} and {NAMES_MAX} names like it are taken");
    Err(io::Error::new(io::ErrorKind::AlreadyExists, taken))
}

/// The last part of an address, where it is the name of a file.
fn name_of(uri: &str) -> Option<FileName> {
    let (_, last) = uri.rsplit_once('/')?;
    let decoded = percent_decode_str(last).decode_utf8().ok()?;
    FileName::parse(&decoded).ok()
}

fn made_up(number: usize, kind: &str) -> FileName {
    let ending = toolbus_artifacts::file_ending(kind);
    let name = format!("file-{number}.{ending}");
    FileName::parse(&name).expect("letters, digits, a dash and a dot")
}

#[cfg(test)]
mod tests;
