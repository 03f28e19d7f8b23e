//! Files that a script is given, and files that it gives back.
//!
//! A script finds what it is given in [`INPUT_FOLDER`] and leaves what is to come back in
//! [`OUTPUT_FOLDER`], both below the folder that it starts in. Every runner keeps these rules; how
//! the bytes get in and out is its own.
//!
//! Invariants: a name is one plain name, so that a file written under it stays in its folder; what
//! is kept is bounded in count and bytes, whatever a script leaves; each file that is not kept is
//! reported with a reason, and the report is bounded, too.

use std::fmt;

use bytes::Bytes;

mod media_type;
pub(crate) mod message;

pub use media_type::mime_type;

/// The folder of the files that a script is given. It is there only when there are some.
pub const INPUT_FOLDER: &str = "input";
/// The folder whose regular files come back when the script ends by itself. It is always there.
pub const OUTPUT_FOLDER: &str = "output";
/// Most files, each way.
pub const FILES_MAX: usize = 32;
/// Most bytes of all files together, each way. In base64, and with all that a script may print, an
/// answer stays below what one message of the bus may have.
pub const FILES_BYTES_MAX: usize = 4 << 20;
/// Longest name, in bytes.
pub const NAME_BYTES_MAX: usize = 128;
/// Most entries of the output folder that a runner reads.
pub const ENTRIES_MAX: usize = 256;
/// Most refused files that are reported by name.
const REFUSED_MAX: usize = 16;
const REASON_BYTES_MAX: usize = 200;

/// The name of a file: no folder in it, nothing that a terminal or a shell would take for more
/// than a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileName(String);

/// Why a text is not the name of a file; follows "its name".
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its name {0}")]
pub struct NameError(&'static str);

impl FileName {
    /// Checks a name.
    ///
    /// # Errors
    /// When it is empty or longer than [`NAME_BYTES_MAX`], has a path in it or a control character,
    /// begins with `.` or `-`, or begins or ends with a blank.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() {
            return Err(NameError("is empty"));
        }

        if text.len() > NAME_BYTES_MAX {
            return Err(NameError("is longer than 128 bytes"));
        }

        if text.contains(['/', '\\']) {
            return Err(NameError("is a path"));
        }

        if text.starts_with(['.', '-']) {
            return Err(NameError("begins with `.` or `-`"));
        }

        if text.chars().any(char::is_control) {
            return Err(NameError("has control characters in it"));
        }

        if text.trim() != text {
            return Err(NameError("begins or ends with a blank"));
        }

        Ok(Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// A file on its way to a script or back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name in its folder.
    pub name: FileName,
    /// Its bytes.
    pub content: Bytes,
}

/// An output file that is refused: it does not come back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its name, as far as it can be printed.
    pub name: String,
    /// Why, as a fragment such as `it is a link`.
    pub reason: String,
}

/// The output files of a script, in the order of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Produced {
    /// What comes back.
    pub files: Vec<File>,
    /// What does not.
    pub refused: Vec<Refused>,
}

/// Checks the files that a script is given.
///
/// # Errors
/// A text for the caller, when they are too many or too large, or two have one name.
pub fn check_inputs(files: &[File]) -> Result<(), String> {
    if files.len() > FILES_MAX {
        return Err(format!("{} files are over the limit of {FILES_MAX}", files.len()));
    }

    let bytes: usize = files.iter().map(|file| file.content.len()).sum();
    if bytes > FILES_BYTES_MAX {
        return Err(format!("files of {bytes} bytes are over the limit of {FILES_BYTES_MAX}"));
    }

    let mut names: Vec<&FileName> = files.iter().map(|file| &file.name).collect();
    names.sort();

    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("two files have the name {}", pair[0])),
        None => Ok(()),
    }
}

/// Collects the output files of a script, within the limits.
#[derive(Debug, Default)]
pub struct Collector {
    produced: Produced,
    bytes: usize,
    /// Number of refused files beyond those that are reported by name.
    unnamed: usize,
}

impl Collector {
    /// Admits a file of this name and size, or records its refusal and returns `None`.
    pub fn admit(&mut self, name: &str, bytes: u64) -> Option<FileName> {
        let parsed = match FileName::parse(name) {
            Ok(parsed) => parsed,
            Err(error) => {
                self.refuse(name, &error.to_string());
                return None;
            }
        };

        let room = FILES_BYTES_MAX - self.bytes;

        if self.produced.files.len() == FILES_MAX {
            self.refuse(name, &format!("only {FILES_MAX} files come back"));
        } else if usize::try_from(bytes).is_ok_and(|bytes| bytes <= room) {
            return Some(parsed);
        } else {
            let limit = format!("all files together may have {FILES_BYTES_MAX}");
            self.refuse(name, &format!("it has {bytes} bytes, and {limit}"));
        }

        None
    }

    /// Takes a file that was admitted. One that has more bytes than there is room for is refused
    /// all the same.
    pub fn keep(&mut self, name: FileName, content: Vec<u8>) {
        if content.len() > FILES_BYTES_MAX - self.bytes || self.produced.files.len() == FILES_MAX {
            return self.refuse(name.as_str(), "it was larger than it said");
        }
        self.bytes += content.len();
        self.produced.files.push(File { name, content: content.into() });
    }

    /// Records a refused file, and why.
    pub fn refuse(&mut self, name: &str, reason: &str) {
        if self.produced.refused.len() == REFUSED_MAX {
            self.unnamed += 1;
            return;
        }

        let mut name: String = name.escape_debug().collect();
        if name.len() > NAME_BYTES_MAX {
            name.truncate(name.floor_char_boundary(NAME_BYTES_MAX));
            name.push('…');
        }

        let reason = &reason[..reason.floor_char_boundary(REASON_BYTES_MAX)];
        self.produced.refused.push(Refused { name, reason: reason.to_owned() });
    }

    /// Returns the files that were kept and those that were refused.
    #[must_use]
    pub fn finish(mut self) -> Produced {
        self.produced.files.sort_by(|one, other| one.name.cmp(&other.name));
        if self.unnamed > 0 {
            let name = format!("{} more", self.unnamed);
            self.produced.refused.push(Refused { name, reason: "as the others".to_owned() });
        }
        self.produced
    }
}

#[cfg(test)]
mod tests;
