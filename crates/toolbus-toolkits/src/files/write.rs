//! Writing files: whole, at the end, and in parts.
//!
//! A file that is written whole is made beside the old one and put in its place, so that nobody
//! sees half of it and no other name of the old one changes with it. Invariant: callers hold the
//! lock of [`Files`](super::Files), so that of two changes at once none is lost.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions};
use rustix::fs::{AtFlags, Gid, Uid, chownat, fchown};
use rustix::process::geteuid;
use toolbus_wire::envelope::new_id;

use super::error::Error;
use super::open;
use super::workspace::Place;

/// The bits of a mode that a new file takes from the one in whose place it is put.
const MODE_BITS: u32 = 0o777;
/// Longest result of an edit that a fuzzer makes, in bytes.
#[cfg(feature = "fuzzing")]
const EDITED_BYTES_MAX: u64 = 1 << 20;
/// A replacement in a file's text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edit<'a> {
    pub(super) old: &'a str,
    pub(super) new: &'a str,
    /// Every occurrence; otherwise there must be exactly one.
    pub(super) all: bool,
}

/// Writes a file, in place of the one that is there, with the folders above it.
pub(super) fn write(place: &Place<'_>, content: &[u8]) -> Result<(), Error> {
    let shown = place.shown();
    let io = |error| Error::io(&shown, error);
    let path = place.relative();
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::Kind { path: shown, kind: "a directory" });
    };

    let folder = open_folders(&place.root.dir, parent).map_err(io)?;
    replace(&folder, Path::new(name), content, &shown)
}

/// Adds to the end of a file.
pub(super) fn append(place: &Place<'_>, content: &[u8]) -> Result<(), Error> {
    let shown = place.shown();
    let mut options = OpenOptions::new();
    options.append(true);
    let mut file = open::open_place(place, options)?;

    let metadata = file.metadata().map_err(|error| Error::io(&shown, error))?;
    if metadata.nlink() > 1 {
        return Err(Error::Linked(shown));
    }
    file.write_all(content).map_err(|error| Error::io(&shown, error))
}

/// Replaces text in a file; how often.
pub(super) fn edit(place: &Place<'_>, edit: Edit<'_>, max: u64) -> Result<usize, Error> {
    let shown = place.shown();
    let file = open::open_place(place, open::for_reading())?;
    let bytes = open::read_bounded(&file, max, &shown)?;
    // Exactly as it is, marks included: what is put back has all of it.
    let text = String::from_utf8(bytes).map_err(|_| Error::Binary(shown.clone()))?;

    let count = edit.count(&text).map_err(Error::Edit)?;
    let bytes = edit.bytes_after(&text, count);
    if bytes > max {
        return Err(Error::TooLarge { path: shown, bytes, max });
    }
    write(place, edit.apply(&text).as_bytes())?;
    Ok(count)
}

impl Edit<'_> {
    /// How many replacements there are to make in a text.
    fn count(self, text: &str) -> Result<usize, String> {
        let Self { old, new, all } = self;
        if old.is_empty() {
            return Err("old_string is empty; write_file writes a whole file".to_owned());
        }
        if old == new {
            return Err("old_string and new_string are the same".to_owned());
        }

        match (count_occurrences(text, old), all) {
            (0, _) => {
                let hint =
                    match text.contains("\r\n") && !old.contains("\r\n") && old.contains('\n') {
                        true => "; its lines end with \\r\\n",
                        false => "",
                    };
                Err(format!("old_string was not found{hint}"))
            }
            (1, _) => Ok(1),
            (_, true) => Ok(text.matches(old).count()),
            (count, false) => Err(format!(
                "old_string was found {count} times: add lines around it until it is unique, or set \
                 replace_all"
            )),
        }
    }

    /// How many bytes a text has after so many replacements. It is known before they are made: a
    /// long replacement of a short text can make more than fits into memory.
    fn bytes_after(self, text: &str, count: usize) -> u64 {
        let [count, text, old, new] =
            [count, text.len(), self.old.len(), self.new.len()].map(|number| number as u64);
        (text - count * old).saturating_add(count.saturating_mul(new))
    }

    /// The text with the replacements that are counted.
    fn apply(self, text: &str) -> String {
        text.replace(self.old, self.new)
    }
}

/// How often a text is found, each time after the end of the one before. Where that is once, one
/// that overlaps it counts, too: to count all that overlap would take the product of both lengths.
fn count_occurrences(text: &str, part: &str) -> usize {
    let apart = text.matches(part).count();
    if apart != 1 {
        return apart;
    }
    let step = part.chars().next().map_or(1, char::len_utf8);
    let rest = text.find(part).and_then(|at| text.get(at + step..));
    1 + usize::from(rest.is_some_and(|rest| rest.contains(part)))
}

/// Opens a folder, one after the other of those above it, and makes those that are not there. Where
/// this process is root's, they belong to who has the folder above.
fn open_folders(root: &Dir, path: &Path) -> io::Result<Dir> {
    let mut folder = root.try_clone()?;
    for name in path {
        let opened = match folder.open_dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                create_folder(&folder, Path::new(name))?;
                folder.open_dir(name)
            }
            opened => opened,
        };
        folder = opened?;
    }
    Ok(folder)
}

fn create_folder(above: &Dir, name: &Path) -> io::Result<()> {
    match above.create_dir(name) {
        // Somebody else was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        created => created?,
    }
    if geteuid().is_root() {
        let (uid, gid) = owner_of(&above.dir_metadata()?);
        chownat(above, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

fn owner_of(metadata: &Metadata) -> (Uid, Gid) {
    (Uid::from_raw(metadata.uid()), Gid::from_raw(metadata.gid()))
}

/// Puts a new file in the place of `name`.
fn replace(folder: &Dir, name: &Path, content: &[u8], shown: &str) -> Result<(), Error> {
    let io = |error| Error::io(&shown, error);
    let old = match folder.symlink_metadata(name) {
        // A link here leads nowhere, else its target would be written. It is replaced.
        Ok(metadata) if metadata.is_symlink() => None,
        Ok(metadata) => {
            // Whoever may not write it may not replace it.
            let mut options = OpenOptions::new();
            options.write(true);
            open::open_beneath(folder, name, options, shown)?;
            Some(metadata)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(io(error)),
    };

    let temporary = format!(".toolbus-{}.tmp", new_id());
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let file = folder.open_with(&temporary, &options).map_err(io)?.into_std();
    let written =
        fill(file, content, old, folder).and_then(|()| folder.rename(&temporary, folder, name));
    if written.is_err() {
        // It is of no use; that it stays is no worse than the error that is told.
        let _ = folder.remove_file(&temporary);
    }
    written.map_err(io)
}

/// Writes a new file, with the mode of the old one. Where this process is root's, it belongs to who
/// had that, or has the folder: commands do not run as root.
fn fill(mut file: File, content: &[u8], old: Option<Metadata>, folder: &Dir) -> io::Result<()> {
    file.write_all(content)?;
    if geteuid().is_root() {
        let (uid, gid) = match &old {
            Some(old) => owner_of(old),
            None => owner_of(&folder.dir_metadata()?),
        };
        fchown(&file, Some(uid), Some(gid))?;
    }
    match old {
        Some(old) => file.set_permissions(Permissions::from_mode(old.mode() & MODE_BITS)),
        None => Ok(()),
    }
}

/// Replaces a text by another one. The result is as long as it was known to become.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(old: &str, new: &str, text: &str) {
    for all in [false, true] {
        let edit = Edit { old, new, all };
        let Ok(count) = edit.count(text) else { continue };
        let bytes = edit.bytes_after(text, count);
        if bytes <= EDITED_BYTES_MAX {
            assert_eq!(edit.apply(text).len() as u64, bytes);
        }
    }
}

#[cfg(test)]
mod tests;
