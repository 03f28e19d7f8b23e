//! The value at standard input: a file, or a pipe.

use std::io::{self, Read};

use rustix::fs::{FileType, fstat};
use rustix::io::{pread, read, retry_on_intr};
use rustix::stdio::stdin;

/// What is read at a time to get past something.
const SKIP_BYTES: usize = 64 << 10;

/// Reads the value from its start to its end. A file is read by positions of our own: others may
/// have the same open file.
#[derive(Debug, Clone)]
pub(super) struct Source {
    is_file: bool,
    size: Option<u64>,
    position: u64,
}

impl Source {
    /// Looks what there is at standard input; `size` is what the caller knows.
    pub(super) fn open(size: Option<u64>) -> io::Result<Self> {
        let status = fstat(stdin())?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::RegularFile => {
                let size = u64::try_from(status.st_size).unwrap_or_default();
                Ok(Self { is_file: true, size: Some(size), position: 0 })
            }
            FileType::Fifo | FileType::Socket => Ok(Self { is_file: false, size, position: 0 }),
            _ => Err(io::Error::other("the value is neither a file nor a stream")),
        }
    }

    /// The size of the value, if that is known.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The size of the value, if it is a file.
    pub(super) fn file_size(&self) -> Option<u64> {
        self.size.filter(|_| self.is_file)
    }

    /// How many bytes have been read or passed.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Goes on to a later position; whether the value reaches that far.
    pub(super) fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        if let Some(size) = self.file_size() {
            self.position = position.min(size);
            return Ok(position <= size);
        }

        let mut passed = [0; SKIP_BYTES];
        while self.position < position {
            let left = usize::try_from(position - self.position).unwrap_or(usize::MAX);
            if self.read(&mut passed[..left.min(SKIP_BYTES)])? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads until the buffer is full or the value ends; how many bytes that were.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 => break,
                length => filled += length,
            }
        }
        Ok(filled)
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = if self.is_file {
            retry_on_intr(|| pread(stdin(), &mut *buffer, self.position))?
        } else {
            retry_on_intr(|| read(stdin(), &mut *buffer))?
        };
        self.position += length as u64;
        Ok(length)
    }
}
