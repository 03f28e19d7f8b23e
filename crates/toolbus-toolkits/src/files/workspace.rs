//! Where files are: the working directory and further folders, and what a path means in them.
//!
//! Invariants: every folder is open from the start, and files are opened beneath it, by the
//! kernel's own walk (`openat2`), so that no link and no exchange of one in between leads out; a
//! path that is somewhere else is denied in the same words whether anything is there or not.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use super::error::Error;
use super::settings::{self, Access, FilesSettings};

/// Longest path, in bytes.
const PATH_BYTES_MAX: usize = 4096;

/// The folders whose files may be reached: the working directory first.
#[derive(Debug)]
pub(crate) struct Workspace {
    roots: Vec<Root>,
    /// The folders in which a relative path is looked for before the working directory.
    nearer: Vec<PathBuf>,
}

/// A folder whose files may be reached.
#[derive(Debug)]
pub(crate) struct Root {
    /// Its real path.
    pub(crate) path: PathBuf,
    /// Its path as the operator wrote it, which may lead over links.
    written: PathBuf,
    pub(crate) dir: Dir,
    pub(crate) is_writable: bool,
}

/// A file or folder beneath a root.
#[derive(Debug, Clone)]
pub(crate) struct Place<'a> {
    pub(crate) root: &'a Root,
    relative: PathBuf,
}

/// What a path is to name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A file: folders of that name are passed over.
    File,
    /// A file or a folder.
    Any,
}

impl Workspace {
    /// Opens the folders. `current` is the process's own.
    ///
    /// # Errors
    /// When one of them is not there, or shows more than files.
    pub(crate) fn open(settings: &FilesSettings, current: &Path) -> io::Result<Self> {
        let working = settings.working_directory.clone().unwrap_or_else(|| current.to_path_buf());
        let mut roots = vec![Root::open(&working, settings.access == Access::ReadWrite)?];
        for path in &settings.writable_paths {
            roots.push(Root::open(path, true)?);
        }
        for path in &settings.readable_paths {
            roots.push(Root::open(path, false)?);
        }

        let mut workspace = Self { roots, nearer: Vec::new() };
        workspace.nearer = workspace.nearer_folders(current);
        Ok(workspace)
    }

    /// The working directory.
    pub(crate) fn working_directory(&self) -> &Root {
        &self.roots[0]
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.roots.iter().any(|root| root.is_writable)
    }

    /// The current folder and those above it, up to the first that holds `.git`, as far as their
    /// files may be reached.
    fn nearer_folders(&self, current: &Path) -> Vec<PathBuf> {
        let Ok(current) = current.canonicalize() else { return Vec::new() };
        let mut folders = Vec::new();
        for folder in current.ancestors().take_while(|folder| self.find_root(folder).is_some()) {
            folders.push(folder.to_path_buf());
            if folder.join(".git").exists() {
                break;
            }
        }
        folders.retain(|folder| *folder != self.working_directory().path);
        folders
    }

    /// What a path names that is to be read. One that is relative is looked for in the current
    /// folder, in those above it, and in the working directory, in this order.
    pub(crate) fn find(&self, written: &str, wanted: Wanted) -> Result<Place<'_>, Error> {
        let path = check_path(written)?;
        let folders = self.nearer.iter().chain([&self.working_directory().path]);
        let mut folder = None;
        let mut denied = None;

        // An absolute path is the same in every folder.
        for candidate in folders.map(|folder| folder.join(path)) {
            match self.resolve(&candidate, written) {
                Ok(Some(place)) if wanted == Wanted::File && place.is_folder() => {
                    folder = folder.or(Some(place));
                }
                Ok(Some(place)) => return Ok(place),
                Ok(None) => {}
                Err(error) => denied = Some(error),
            }
        }

        match (folder, denied) {
            (Some(folder), _) => Ok(folder),
            (None, Some(denied)) => Err(denied),
            (None, None) => Err(Error::NotFound(written.to_owned())),
        }
    }

    /// What a path names that is to be written: there or not yet. One that is relative is in the
    /// working directory.
    pub(crate) fn find_for_writing(&self, written: &str) -> Result<Place<'_>, Error> {
        let path = normalize(&self.working_directory().path.join(check_path(written)?));
        let mut missing = Vec::new();
        let mut denied = None;

        // The root at the latest is there.
        for folder in path.ancestors() {
            match self.resolve(folder, written) {
                Ok(Some(place)) => return place.with_missing(missing, denied, written),
                Ok(None) => {}
                // Below a link that leads to one of the folders, what is not there is not known to
                // be inside: the link decides.
                Err(error @ Error::Outside(_)) => denied = Some(error),
                Err(error) => return Err(error),
            }
            missing.extend(folder.file_name());
        }
        Err(Error::Outside(written.to_owned()))
    }

    /// The real place of an absolute path; `None` where nothing is there.
    fn resolve(&self, path: &Path, written: &str) -> Result<Option<Place<'_>>, Error> {
        let path = normalize(path);
        let outside = || Error::Outside(written.to_owned());
        let Some((root, relative)) = self.find_root(&path) else {
            // It may come here by links of the host.
            let real = path.canonicalize().ok();
            return real.and_then(|real| self.place_of(&real)).map(Some).ok_or_else(outside);
        };

        match root.dir.canonicalize(or_dot(&relative)) {
            // Its answer for the folder itself is `.`.
            Ok(relative) => Ok(Some(Place { root, relative: normalize(&relative) })),
            Err(error) if is_escape(&error) => {
                // A link with an absolute path may still lead to one of the folders.
                let real = root.path.join(&relative).canonicalize().ok();
                real.and_then(|real| self.place_of(&real)).map(Some).ok_or_else(outside)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Io { path: written.to_owned(), source }),
        }
    }

    fn place_of(&self, real: &Path) -> Option<Place<'_>> {
        self.find_root(real).map(|(root, relative)| Place { root, relative })
    }

    /// The innermost root of a path, and the path beneath it: by whole components.
    fn find_root(&self, path: &Path) -> Option<(&Root, PathBuf)> {
        let beneath = |root: &'_ Root| {
            let stripped = path.strip_prefix(&root.path);
            stripped.or_else(|_| path.strip_prefix(&root.written)).ok().map(Path::to_path_buf)
        };
        let roots = self.roots.iter().filter_map(|root| Some((root, beneath(root)?)));
        roots.min_by_key(|(_, relative)| relative.components().count())
    }

    /// A path as models are shown it, which finds the same place again: relative to the working
    /// directory where that cannot mean another.
    pub(crate) fn show(&self, place: &Place<'_>) -> String {
        let is_here = std::ptr::eq(place.root, self.working_directory());
        let shown = if is_here && self.nearer.is_empty() {
            or_dot(&place.relative).to_path_buf()
        } else {
            place.path()
        };
        shown.to_string_lossy().into_owned()
    }
}

impl Root {
    fn open(path: &Path, is_writable: bool) -> io::Result<Self> {
        let named =
            |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let real = path.canonicalize().map_err(named)?;
        settings::check_folder(&real)
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidInput, reason))?;

        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(named)?;
        Ok(Self { path: real, written: path.to_path_buf(), dir, is_writable })
    }
}

impl Place<'_> {
    /// Its path beneath the root.
    pub(crate) fn relative(&self) -> &Path {
        or_dot(&self.relative)
    }

    /// Its real path on this machine.
    pub(crate) fn path(&self) -> PathBuf {
        self.root.path.join(&self.relative)
    }

    /// Its real path, for models.
    pub(crate) fn shown(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    /// What is to be written below it: these names, the last one first, which are not there. Where
    /// what they name was denied, the first of them must be no link that leads there.
    fn with_missing(
        self,
        missing: Vec<&OsStr>,
        denied: Option<Error>,
        written: &str,
    ) -> Result<Self, Error> {
        let mut names = missing.into_iter().rev().peekable();
        if let (Some(denied), Some(name)) = (denied, names.peek()) {
            let first = self.root.dir.symlink_metadata(self.relative.join(name));
            if !first.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
                return Err(denied);
            }
        }
        if !self.root.is_writable {
            return Err(Error::ReadOnly(written.to_owned()));
        }

        let relative = names.fold(self.relative, |path, name| path.join(name));
        Ok(Self { relative, ..self })
    }

    /// Whether it is a folder now.
    pub(crate) fn is_folder(&self) -> bool {
        self.root.dir.metadata(self.relative()).is_ok_and(|metadata| metadata.is_dir())
    }
}

fn check_path(written: &str) -> Result<&Path, Error> {
    if written.is_empty() {
        return Err(Error::Path("is empty"));
    }
    if written.len() > PATH_BYTES_MAX {
        return Err(Error::Path("is longer than 4096 bytes"));
    }
    if written.contains('\0') {
        return Err(Error::Path("has a zero byte in it"));
    }
    Ok(Path::new(written))
}

/// The path without `.` and `..`, by its text alone.
fn normalize(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => _ = normal.pop(),
            component => normal.push(component),
        }
    }
    normal
}

/// Whether a path led out of its folder. The kernel's own refusals have a number.
fn is_escape(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

#[cfg(test)]
mod tests;
