//! Walking a folder: its files in the order of their names, without what git would leave out.
//!
//! Invariants: no link is followed; folders are opened beneath those above, so that one which is
//! exchanged in between leads nowhere else; entries, depth and time are bounded, and what was left
//! out is told.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cap_std::fs::{Dir, DirEntry};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tokio_util::sync::CancellationToken;

use super::error::Error;
use super::open;
use super::workspace::Place;

/// Most entries of folders that one walk looks at.
const ENTRIES_MAX: usize = 200_000;
/// Deepest folder below the one where a walk begins.
const DEPTH_MAX: usize = 64;
/// How long one walk may take.
pub(super) const WALK_TIMEOUT: Duration = Duration::from_secs(20);
/// Largest file of patterns that is read, and most of them that hold at a time.
const IGNORE_FILE_BYTES_MAX: u64 = 256 << 10;
/// The files of patterns, from the weakest on, and git's own folder.
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];
const GIT_FOLDER: &str = ".git";

/// A file that a walk has come to.
pub(super) struct Found<'a> {
    /// The folder that it is in.
    pub(super) folder: &'a Dir,
    /// Its path below the folder where the walk began.
    pub(super) below: &'a Path,
}

impl Found<'_> {
    /// Its name in that folder.
    pub(super) fn name(&self) -> &Path {
        self.below.file_name().map_or(self.below, Path::new)
    }
}

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// A walk, and what it has left.
pub(super) struct Walk {
    /// The folder where it began, below the root.
    start: PathBuf,
    entries_left: usize,
    end: Instant,
    cancelled: CancellationToken,
    ignores: Vec<Gitignore>,
    unread: usize,
    notes: Vec<String>,
}

impl Walk {
    pub(super) fn new(cancelled: CancellationToken) -> Self {
        Self {
            start: PathBuf::new(),
            entries_left: ENTRIES_MAX,
            end: Instant::now() + WALK_TIMEOUT,
            cancelled,
            ignores: Vec::new(),
            unread: 0,
            notes: Vec::new(),
        }
    }

    /// Visits every file below a folder. Files of patterns hold that are in the folders above it,
    /// too, up to the root.
    pub(super) fn visit_files(
        &mut self,
        place: &Place<'_>,
        visit: &mut dyn FnMut(Found<'_>) -> Result<Flow, Error>,
    ) -> Result<(), Error> {
        let io = |error| Error::io(&place.shown(), error);
        let root = &place.root.dir;
        let start = root.open_dir(place.relative()).map_err(io)?;
        self.start = place.relative().strip_prefix(".").unwrap_or(place.relative()).to_path_buf();

        let above: Vec<_> = self.start.ancestors().skip(1).collect();
        for folder in above.into_iter().rev() {
            let opened = match folder.as_os_str().is_empty() {
                true => root.try_clone(),
                false => root.open_dir(folder),
            };
            self.ignores.extend(read_ignores(&opened.map_err(io)?, folder));
        }

        self.visit_folder(&start, Path::new(""), visit).map(drop)
    }

    /// What was left out, for models.
    pub(super) fn into_notes(mut self) -> Vec<String> {
        if self.unread > 0 {
            self.notes.push(format!("{} folders could not be read", self.unread));
        }
        self.notes
    }

    fn visit_folder(
        &mut self,
        folder: &Dir,
        below: &Path,
        visit: &mut dyn FnMut(Found<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let Some(entries) = self.read_entries(folder) else { return Ok(Flow::Continue) };
        let held = self.ignores.len();
        self.ignores.extend(read_ignores(folder, &self.start.join(below)));

        let mut flow = Flow::Continue;
        for (name, entry) in entries {
            if flow == Flow::Stop || self.is_over()? {
                flow = Flow::Stop;
                break;
            }
            flow = self.visit_entry(&entry, folder, &below.join(name), visit)?;
        }

        self.ignores.truncate(held);
        Ok(flow)
    }

    fn visit_entry(
        &mut self,
        entry: &DirEntry,
        folder: &Dir,
        below: &Path,
        visit: &mut dyn FnMut(Found<'_>) -> Result<Flow, Error>,
    ) -> Result<Flow, Error> {
        let Ok(kind) = entry.file_type() else { return Ok(Flow::Continue) };
        if self.is_ignored(below, kind.is_dir()) {
            return Ok(Flow::Continue);
        }
        if kind.is_file() {
            return visit(Found { folder, below });
        }
        if !kind.is_dir() {
            return Ok(Flow::Continue);
        }

        if below.components().count() > DEPTH_MAX {
            self.note_once(format!("folders deeper than {DEPTH_MAX} were left out"));
            return Ok(Flow::Continue);
        }
        match entry.open_dir() {
            Ok(inner) => self.visit_folder(&inner, below, visit),
            Err(_) => {
                self.unread += 1;
                Ok(Flow::Continue)
            }
        }
    }

    /// The entries of a folder by their names, as many as are left.
    fn read_entries(&mut self, folder: &Dir) -> Option<Vec<(OsString, DirEntry)>> {
        let Ok(entries) = folder.entries() else {
            self.unread += 1;
            return None;
        };

        let entries = entries.flatten().map(|entry| (entry.file_name(), entry));
        let mut entries: Vec<_> = entries.take(self.entries_left + 1).collect();
        if entries.len() > self.entries_left {
            entries.truncate(self.entries_left);
            self.note_once(format!("only {ENTRIES_MAX} entries were looked at: name a folder"));
        }

        self.entries_left -= entries.len();
        entries.sort_by(|(one, _), (other, _)| one.cmp(other));
        Some(entries)
    }

    /// Whether the walk has to end.
    fn is_over(&mut self) -> Result<bool, Error> {
        if self.cancelled.is_cancelled() {
            return Err(Error::Stopped("the call was cancelled"));
        }
        let is_over = Instant::now() >= self.end;
        if is_over {
            self.note_once(format!("stopped after {} s: there is more", WALK_TIMEOUT.as_secs()));
        }
        Ok(is_over)
    }

    fn note_once(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Whether git, or a file of patterns for searches, leaves an entry out. The innermost file
    /// that says something of it decides.
    fn is_ignored(&self, below: &Path, is_folder: bool) -> bool {
        let relative = &self.start.join(below);
        if is_folder && relative.file_name().is_some_and(|name| name == GIT_FOLDER) {
            return true;
        }
        let said = self.ignores.iter().rev().map(|patterns| patterns.matched(relative, is_folder));
        let said = said.filter(|said| !said.is_none()).map(|said| matches!(said, Match::Ignore(_)));
        said.take(1).any(|is_ignored| is_ignored)
    }
}

/// The patterns of a folder. What cannot be read or understood leaves nothing out.
fn read_ignores(folder: &Dir, relative: &Path) -> Vec<Gitignore> {
    let read = |name: &str| {
        let file = open::open_beneath(folder, Path::new(name), open::for_reading(), name).ok()?;
        let bytes = open::read_bounded(&file, IGNORE_FILE_BYTES_MAX, name).ok()?;
        let mut builder = GitignoreBuilder::new(relative);
        for line in String::from_utf8_lossy(&bytes).lines() {
            // A line that is no pattern is passed over, as git does.
            let _ = builder.add_line(None, line);
        }
        builder.build().ok().filter(|patterns| !patterns.is_empty())
    };
    IGNORE_FILES.iter().filter_map(|name| read(name)).collect()
}

/// The path of what a walk found, from a folder as it is shown.
pub(super) fn path_of(folder: &str, below: &Path) -> PathBuf {
    match folder {
        "." => below.to_path_buf(),
        folder => Path::new(folder).join(below),
    }
}

/// An error of reading that is no reason to stop a walk.
pub(super) fn is_passed_over(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => source.kind() != io::ErrorKind::BrokenPipe,
        Error::NotFound(_) | Error::Kind { .. } | Error::TooLarge { .. } => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
