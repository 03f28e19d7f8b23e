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

    let (changed, count) = edit.apply(&text).map_err(Error::Edit)?;
    if changed.len() as u64 > max {
        return Err(Error::TooLarge { path: shown, bytes: changed.len() as u64, max });
    }
    write(place, changed.as_bytes())?;
    Ok(count)
}

impl Edit<'_> {
    /// The text with the replacement, and how often it was made.
    fn apply(self, text: &str) -> Result<(String, usize), String> {
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
            (1, _) => Ok((text.replacen(old, new, 1), 1)),
            (_, true) => Ok((text.replace(old, new), text.matches(old).count())),
            (count, false) => Err(format!(
                "old_string was found {count} times: add lines around it until it is unique, or set \
                 replace_all"
            )),
        }
    }
}

/// How often a text is found, where occurrences may overlap.
fn count_occurrences(text: &str, part: &str) -> usize {
    let step = part.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    let next = || {
        let at = from + text.get(from..)?.find(part)?;
        from = at + step;
        Some(())
    };
    std::iter::from_fn(next).count()
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

#[cfg(test)]
mod tests;
