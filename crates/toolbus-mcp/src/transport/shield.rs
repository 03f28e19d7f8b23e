//! Stdio servers behind a shield. They see this machine as the bridge's user does, but without the
//! files that hold secrets of Toolbus and without any process but their own.
//!
//! The shield starts the command under bubblewrap, as a sandbox does. The server sees the files of
//! the machine at their own paths. Folders of secrets appear empty, and files of secrets cannot be
//! opened. The server has its own process namespace, so its `/proc` does not expose the environment
//! or memory of the bridge, a supervisor or another server. It has no right to undo any of this. It
//! shares network, devices and sockets with the machine.
//!
//! Each folder above a hidden path is bound onto itself. The kernel refuses to rename a mount
//! point, so a server cannot move a hidden path to a place where its next start does not hide it.
//!
//! The shield does not use `--die-with-parent`, which ends the server together with bubblewrap:
//! bubblewrap ends at SIGTERM, but the server gets a grace period. Supervisors end the remaining
//! processes.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustix::process::geteuid;

use super::sandbox::{Options, SandboxedLaunch, finish, folders_above};
use crate::config::{Entry, Launch, Target};
use crate::small_file::{create_folder, folder_of};

/// Folders of the secrets of containers.
const RUN_SECRETS: [&str; 2] = ["/run/secrets", "/var/run/secrets"];
/// Link of a Kubernetes volume to the folder that holds its current files.
const VOLUME_DATA: &str = "..data";
/// Maximum number of files and folders that are hidden from one server.
const HIDDEN_MAX: usize = 1024;
/// Maximum number of links that are followed to find a volume, as in the kernel.
const LINKS_MAX: usize = 40;
/// Rights of root that a server keeps if the bridge is root: those over files of other users, over
/// their ids and over low ports. None of them allows it to unmount a file system or to look under a
/// mount.
const RIGHTS_OF_ROOT: [&str; 8] = [
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
];

/// Creates shields, if bubblewrap is installed and works.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shield {
    /// Folders that hold secrets. They are created before a server starts.
    secret_folders: Arc<[PathBuf]>,
    /// Files and further folders that hold secrets. They may not exist.
    secret_paths: Arc<[PathBuf]>,
    /// Environment files of the operator's servers.
    environment_files: Arc<Mutex<Vec<PathBuf>>>,
    /// Paths that were hidden from an earlier server. They stay hidden, even if a link that led to
    /// them now leads elsewhere.
    hidden_before: Arc<Mutex<BTreeSet<PathBuf>>>,
}

impl Shield {
    pub(crate) fn new(secret_folders: Vec<PathBuf>, secret_paths: Vec<PathBuf>) -> Self {
        Self {
            secret_folders: secret_folders.into(),
            secret_paths: secret_paths.into(),
            ..Self::default()
        }
    }

    /// Hides the environment files of these entries from servers that start later. Replaces the
    /// files of the previous call.
    pub(crate) fn hide_environment_files<'a>(&self, entries: impl Iterator<Item = &'a Entry>) {
        let file_of = |entry: &Entry| match &entry.target {
            Target::Launch(launch) => launch.environment_file.clone(),
            Target::Endpoint(_) | Target::Disabled => None,
        };
        let files = entries.filter_map(file_of).collect();
        *self.environment_files.lock() = files;
    }

    /// Returns true if bubblewrap can create a shield here. The first call in this process runs an
    /// empty program to try it, and blocks until that ends.
    pub(crate) fn works() -> bool {
        static WORKS: OnceLock<bool> = OnceLock::new();
        *WORKS.get_or_init(|| {
            let works = show_machine().work();
            if !works {
                tracing::warn!(
                    "bubblewrap does not work here, so MCP servers run without a shield: they can \
                     read every file of this user, and the environments of each other"
                );
            }
            works
        })
    }

    /// Wraps a command in a shield. Blocks.
    ///
    /// # Errors
    /// If the paths to hide cannot be determined, or the server would start in one of them.
    pub(crate) fn wrap(
        &self,
        launch: &Launch,
        environment: Vec<(OsString, OsString)>,
    ) -> io::Result<SandboxedLaunch> {
        let hidden = self.hidden_paths()?;
        refuse_hidden_places(launch, &hidden)?;

        let mut options = show_machine();
        for folder in folders_above(hidden.iter().map(PathBuf::as_path)) {
            options.push([&"--dev-bind", &folder, &folder]);
        }
        for path in &hidden {
            options.cover(path);
        }
        Ok(finish(launch, options, environment))
    }

    /// Returns the secrets that exist, by paths without links, and leaves out those below another
    /// hidden folder. Creates missing folders of secrets, because a running server can see a folder
    /// that is created later. Blocks.
    ///
    /// # Errors
    /// If a path cannot be determined or hidden, or there are too many.
    pub(crate) fn hidden_paths(&self) -> io::Result<Vec<PathBuf>> {
        for folder in &*self.secret_folders {
            if let Err(error) = create_folder(folder) {
                tracing::debug!(?folder, %error, "failed to create a folder that is hidden");
            }
        }

        let mut secrets = self.environment_files.lock().clone();
        secrets.retain(|path| !path.is_dir());
        secrets.extend(self.secret_folders.iter().chain(self.secret_paths.iter()).cloned());
        let mut all: Vec<PathBuf> = secrets.into_iter().map(replaced_part).collect();
        all.extend(RUN_SECRETS.map(PathBuf::from));
        all.extend(further_process_lists());
        all.extend(self.hidden_before.lock().iter().cloned());
        let hidden = existing_paths(all)?;

        let mut before = self.hidden_before.lock();
        before.extend(hidden.iter().cloned());
        if before.len() > HIDDEN_MAX {
            // The others no longer exist, or are below one of these.
            *before = hidden.iter().cloned().collect();
        }
        Ok(hidden)
    }
}

/// Returns the paths that exist and may hold secrets, without links, and leaves out those below
/// another.
fn existing_paths(all: Vec<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let mut found = BTreeSet::new();
    for path in all {
        match fs::canonicalize(&path) {
            Ok(path) if path.to_str().is_none() => {
                let what = format!("the path {path:?} is not UTF-8, so it cannot be hidden");
                return Err(io::Error::other(what));
            }
            Ok(path) if may_hold_secrets(&path) => _ = found.insert(path),
            Ok(_) => {}
            Err(error) if is_out_of_reach(&path, &error) => {}
            Err(error) => {
                let what = format!("the path {path:?} cannot be hidden: {error}");
                return Err(io::Error::new(error.kind(), what));
            }
        }
    }

    // Sorted by path, so the content of a folder follows the folder.
    let mut hidden: Vec<PathBuf> = Vec::new();
    for path in found {
        if !hidden.last().is_some_and(|folder| path.starts_with(folder)) {
            hidden.push(path);
        }
    }
    if hidden.len() > HIDDEN_MAX {
        let what = format!("there are more than {HIDDEN_MAX} files and folders to hide");
        return Err(io::Error::other(what));
    }
    Ok(hidden)
}

/// Mounts the whole machine, with a process namespace and without rights over mounts.
fn show_machine() -> Options {
    let mut options = Options::default();
    options.push([&"--dev-bind", &"/", &"/", &"--unshare-pid", &"--proc", &"/proc"]);
    options.push([&"--cap-drop", &"ALL"]);
    if geteuid().is_root() {
        for right in RIGHTS_OF_ROOT {
            options.push([&"--cap-add", &right]);
        }
    }
    options
}

/// Returns the path to hide so that a file or folder stays hidden. A volume of Kubernetes replaces
/// its files together with the folder that they link into, so the whole volume is hidden. Links may
/// lead into it from other folders.
fn replaced_part(mut path: PathBuf) -> PathBuf {
    let is_of_volume = |part: &Path| {
        part.ends_with(VOLUME_DATA)
            || fs::read_link(part).is_ok_and(|target| target.starts_with(VOLUME_DATA))
    };

    for _ in 0..LINKS_MAX {
        if let Some(link) = path.ancestors().find(|part| is_of_volume(part)) {
            return folder_of(link).to_owned();
        }
        let Some(next) = without_last_link(&path) else { break };
        path = next;
    }
    path
}

/// Replaces the last link in a path by its target, if the path contains a link.
fn without_last_link(path: &Path) -> Option<PathBuf> {
    let mut parts = path.ancestors();
    let (link, target) = parts.find_map(|part| Some((part, fs::read_link(part).ok()?)))?;

    let rest = path.strip_prefix(link).ok()?;
    // The target may begin with `..`.
    let place = fs::canonicalize(folder_of(link)).ok()?.join(target);
    // Without this, a link to a file would become a path with a slash at the end.
    Some(if rest.as_os_str().is_empty() { place } else { place.join(rest) })
}

/// Returns true for folders and regular files, and false for pipes and devices: `/dev/null` as the
/// path of a settings file means "no file".
fn may_hold_secrets(path: &Path) -> bool {
    !path.starts_with("/proc") && (path.is_dir() || path.is_file())
}

/// Returns true if an error means that this user, and so a server, cannot reach a path.
fn is_out_of_reach(path: &Path, error: &io::Error) -> bool {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => true,
        io::ErrorKind::PermissionDenied => !is_closed_by_owner(path),
        _ => false,
    }
}

/// Returns true if the folder that denies access to a path belongs to this user: a server could
/// close it before its restart and open it afterwards.
fn is_closed_by_owner(path: &Path) -> bool {
    const SEARCH_BY_OWNER: u32 = 0o100;
    let reached = path.ancestors().find_map(|folder| fs::metadata(folder).ok());
    reached.is_some_and(|folder| {
        folder.uid() == geteuid().as_raw() && folder.mode() & SEARCH_BY_OWNER == 0
    })
}

/// Refuses a server whose folder or program would be hidden.
fn refuse_hidden_places(launch: &Launch, hidden: &[PathBuf]) -> io::Result<()> {
    // If the bridge's own folder is gone, the server starts elsewhere.
    let folder = launch.folder.clone().or_else(|| env::current_dir().ok()).unwrap_or_default();
    let program = launch.command.contains('/').then(|| folder.join(&launch.command));
    let places = [("folder", Some(folder)), ("program", program)];

    for (what, place) in places {
        let Some(place) = place.and_then(|place| fs::canonicalize(place).ok()) else { continue };
        if let Some(secret) = hidden.iter().find(|secret| place.starts_with(secret)) {
            let text = format!(
                "its {what} {place:?} is in {secret:?}, which holds secrets of Toolbus and is \
                 hidden from servers; move it, or write \"sandbox\": \"off\" into its entry"
            );
            return Err(io::Error::other(text));
        }
    }
    Ok(())
}

/// Returns mounts other than `/proc` that show the processes of this machine.
fn further_process_lists() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(further_process_list).collect()
}

/// Returns the path of such a mount, if a line of `mountinfo` describes one.
fn further_process_list(line: &str) -> Option<PathBuf> {
    const ESCAPES: [(&str, &str); 4] =
        [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let (mount, file_system) = line.split_once(" - ")?;
    let path = mount.split(' ').nth(4)?;
    if !file_system.starts_with("proc ") || Path::new(path).starts_with("/proc") {
        return None;
    }

    let unescape = |path: String, (escape, text): &(&str, &str)| path.replace(*escape, text);
    Some(ESCAPES.iter().fold(path.to_owned(), unescape).into())
}

#[cfg(test)]
mod tests;
