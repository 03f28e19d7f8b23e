//! Opening files: regular ones alone, without waiting for anybody, and reading within a bound.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use cap_std::fs::{Dir, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use rustix::fs::{FileType, OFlags};

use super::error::Error;
use super::workspace::Place;

/// What is kept free for a file that says nothing of its size.
const BUFFER_BYTES: u64 = 64 << 10;

/// Options for reading.
pub(super) fn for_reading() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options
}

/// Opens the file of a place.
pub(super) fn open_place(place: &Place<'_>, options: OpenOptions) -> Result<File, Error> {
    open_beneath(&place.root.dir, place.relative(), options, &place.shown())
}

/// Opens a regular file beneath a folder. Others are looked at and not opened, for opening some of
/// them has effects; what is put in the file's place meanwhile is opened without waiting, and let
/// go.
pub(super) fn open_beneath(
    dir: &Dir,
    path: &Path,
    mut options: OpenOptions,
    shown: &str,
) -> Result<File, Error> {
    let io = |error| Error::io(&shown, error);
    check_kind(dir.metadata(path).map_err(io)?.mode(), shown)?;

    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    options.custom_flags(flags.bits().cast_signed());
    let file = dir.open_with(path, &options).map_err(io)?.into_std();
    check_kind(file.metadata().map_err(io)?.mode(), shown)?;
    Ok(file)
}

fn check_kind(mode: u32, shown: &str) -> Result<(), Error> {
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a directory",
        FileType::Fifo => "a pipe (FIFO), not a file",
        FileType::Socket => "a socket, not a file",
        _ => "a device, not a file",
    };
    Err(Error::Kind { path: shown.to_owned(), kind })
}

/// Reads all of a file, which may have at most `max` bytes. It may grow while it is read.
pub(super) fn read_bounded(mut file: &File, max: u64, shown: &str) -> Result<Vec<u8>, Error> {
    let io = |error| Error::io(&shown, error);
    let too_large = |bytes| Error::TooLarge { path: shown.to_owned(), bytes, max };
    let bytes = file.metadata().map_err(io)?.len();
    if bytes > max {
        return Err(too_large(bytes));
    }

    let room = usize::try_from(bytes.max(BUFFER_BYTES)).unwrap_or_default();
    let mut content = Vec::with_capacity(room + 1);
    (&mut file).take(max.saturating_add(1)).read_to_end(&mut content).map_err(io)?;
    match content.len() as u64 {
        bytes if bytes > max => Err(too_large(bytes)),
        _ => Ok(content),
    }
}
