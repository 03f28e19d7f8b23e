//! Why a file is not read, written or found. The texts are for models.

use std::io;

/// Why a file is not read, written or found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// Whether it is there is not told.
    #[error("Access denied: path '{0}' is outside working directory")]
    Outside(String),
    #[error("Access denied: path '{0}' may be read and not written")]
    ReadOnly(String),
    #[error("the path {0}")]
    Path(&'static str),
    #[error("file does not exist: {0}")]
    NotFound(String),
    #[error("{path} is {kind}")]
    Kind { path: String, kind: &'static str },
    #[error(
        "{path} has {bytes} bytes, and at most {max} are read: look for what you need with grep"
    )]
    TooLarge { path: String, bytes: u64, max: u64 },
    #[error("{0} is binary, or text that is not UTF-8")]
    Binary(String),
    #[error("{path} cannot be read as a .docx document: {reason}")]
    Document { path: String, reason: String },
    #[error(
        "{0} has another name elsewhere (a hard link), which would change with it: write it anew \
         with write_file"
    )]
    Linked(String),
    #[error("the file was not changed: {0}")]
    Edit(String),
    #[error("the pattern cannot be used: {0}")]
    Pattern(String),
    #[error("{path}: {source}")]
    Io { path: String, source: io::Error },
    #[error(transparent)]
    Query(#[from] toolbus_query::Error),
    #[error("{0}")]
    Stopped(&'static str),
}

impl Error {
    pub(crate) fn io(path: &impl ToString, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_string()),
            _ => Self::Io { path: path.to_string(), source },
        }
    }
}
