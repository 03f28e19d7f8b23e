//! Text as the system's calls take it.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// Makes a C string; text from outside may hold zero bytes, which no argument can carry.
pub(crate) fn c_string(text: impl AsRef<OsStr>) -> io::Result<CString> {
    CString::new(text.as_ref().as_bytes())
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a zero byte in an argument"))
}
