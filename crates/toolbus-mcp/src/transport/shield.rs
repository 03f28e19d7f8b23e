//! Stdio servers behind a shield: they have this machine as the bridge's user has it, without the
//! files that hold secrets of Toolbus and without any process but their own.
//!
//! The command is put behind bubblewrap, as that of a sandbox is. The server sees the files of the
//! machine at their own paths, folders of secrets as empty ones, and files of secrets as ones that
//! cannot be opened. It has a process namespace of its own, so no environment and no memory of the
//! bridge, of a supervisor or of another server is in its `/proc`; and no right to take any of that
//! off again. Network, devices and sockets are the machine's.
//!
//! Nothing here ends the server with bubblewrap, as `--die-with-parent` would: bubblewrap ends at
//! SIGTERM, and the server is to have its time. Supervisors end what is left.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::process::geteuid;

use super::sandbox::{Options, SandboxedLaunch, finish};
use crate::config::Launch;
use crate::small_file::folder_of;

/// The folder in which containers have their secrets.
const RUN_SECRETS: &str = "/run/secrets";
/// Most files and folders that are hidden from one server.
const HIDDEN_MAX: usize = 1024;
/// The size of the file system in memory that stands for a hidden folder, in bytes: one page.
const EMPTY_BYTES: u64 = 4096;
/// The rights of root that a server keeps where the bridge is root: those over files of other
/// users, their ids and low ports. None of them takes a mount away or looks below one.
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

/// Makes shields, where bubblewrap is there and works.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shield {
    /// The files and folders that hold secrets, whether they are there or not.
    secret_paths: Arc<[PathBuf]>,
}

impl Shield {
    pub(crate) fn new(secret_paths: Vec<PathBuf>) -> Self {
        Self { secret_paths: secret_paths.into() }
    }

    /// Returns true if bubblewrap can make a shield here. The first time that this process asks, it
    /// is tried, which blocks for as long as an empty program takes.
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

    /// Puts a command behind a shield. It blocks.
    ///
    /// # Errors
    /// When what is to be hidden cannot be found out, or the server would start within it.
    pub(crate) fn wrap(
        &self,
        launch: &Launch,
        environment: Vec<(OsString, OsString)>,
    ) -> io::Result<SandboxedLaunch> {
        let hidden = self.hidden_paths()?;
        refuse_hidden_places(launch, &hidden)?;

        let mut options = show_machine();
        for path in &hidden {
            if path.is_dir() {
                options.tmpfs(EMPTY_BYTES, path);
                options.push([&"--remount-ro", path]);
            } else {
                // A device that nobody may open where it is.
                options.push([&"--ro-bind", &"/dev/null", path]);
            }
        }
        Ok(finish(launch, options, environment))
    }

    /// The secrets that exist, by paths without links, and without those in a folder that is hidden
    /// itself.
    fn hidden_paths(&self) -> io::Result<Vec<PathBuf>> {
        let secrets = self.secret_paths.iter().map(|path| replaced_part(path).to_owned());
        let all = secrets.chain([RUN_SECRETS.into()]).chain(further_process_lists());

        let mut found = BTreeSet::new();
        for path in all {
            match fs::canonicalize(&path) {
                Ok(path) if path.to_str().is_none() => {
                    let what = format!("the path {path:?} is not UTF-8, so it cannot be hidden");
                    return Err(io::Error::other(what));
                }
                Ok(path) if may_hold_secrets(&path) => _ = found.insert(path),
                Ok(_) => {}
                Err(error) if is_out_of_reach(&error) => {}
                Err(error) => {
                    let what = format!("the path {path:?} cannot be hidden: {error}");
                    return Err(io::Error::new(error.kind(), what));
                }
            }
        }

        // In the order of paths, what is in a folder follows it.
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
}

/// The machine as it is, with a process namespace and no rights over mounts.
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

/// The path that has to be hidden for a file to stay hidden. A volume of Kubernetes replaces its
/// files with the folder that they are links into, so there it is the volume.
fn replaced_part(path: &Path) -> &Path {
    let is_of_volume = fs::read_link(path).is_ok_and(|target| target.starts_with("..data"));
    if is_of_volume { folder_of(path) } else { path }
}

/// Returns true for folders and regular files, and false for pipes and devices: `/dev/null` as the
/// path of a settings file means that there is none.
fn may_hold_secrets(path: &Path) -> bool {
    !path.starts_with("/proc") && (path.is_dir() || path.is_file())
}

/// Returns true for errors that mean that this user finds nothing at a path.
fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// Refuses a server whose folder or program would not be there.
fn refuse_hidden_places(launch: &Launch, hidden: &[PathBuf]) -> io::Result<()> {
    // Where the bridge's own folder is gone, the server starts elsewhere.
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

/// Places other than `/proc` that show the processes of this machine.
fn further_process_lists() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().filter_map(further_process_list).collect()
}

/// The path of such a place, if a line of `mountinfo` is about one.
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
