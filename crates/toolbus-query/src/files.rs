//! Many files as one value: what the caller writes, and a worker reads.
//!
//! A file is a name and pieces of its bytes, each after its length in four bytes; a length of zero
//! ends it. So nobody has to know how long a file is before all of it is read.

use std::io::{self, Write};

/// Longest name of a file, in bytes.
pub(crate) const FILE_NAME_BYTES_MAX: usize = 16 << 10;
/// Longest piece of a file, in bytes.
pub(crate) const PIECE_BYTES_MAX: usize = 1 << 20;

/// Writes files one after the other, as [`GrepFiles`](crate::question::GrepFiles) takes them.
#[derive(Debug)]
pub struct FilesWriter<W> {
    to: W,
}

impl<W: Write> FilesWriter<W> {
    /// Writes to a pipe, or to whatever becomes a value.
    #[must_use]
    pub fn new(to: W) -> Self {
        Self { to }
    }

    /// Begins a file; [`FilesWriter::end_file`] must follow, after its bytes.
    ///
    /// # Errors
    /// When the name is empty or longer than 16 KiB, or nobody reads any more.
    pub fn begin_file(&mut self, name: &str) -> io::Result<()> {
        if name.is_empty() || name.len() > FILE_NAME_BYTES_MAX {
            return Err(io::ErrorKind::InvalidFilename.into());
        }
        self.write_piece(name.as_bytes())
    }

    /// Writes bytes of the file.
    ///
    /// # Errors
    /// When nobody reads any more.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.chunks(PIECE_BYTES_MAX).try_for_each(|piece| self.write_piece(piece))
    }

    /// Ends the file.
    ///
    /// # Errors
    /// When nobody reads any more.
    pub fn end_file(&mut self) -> io::Result<()> {
        self.to.write_all(&0_u32.to_le_bytes())
    }

    fn write_piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.to.write_all(&length.to_le_bytes())?;
        self.to.write_all(bytes)
    }
}
