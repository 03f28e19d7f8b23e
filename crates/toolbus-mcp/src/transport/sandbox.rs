//! Stdio servers in a sandbox: the command is put behind bubblewrap, which has the supervisor's
//! pipes and hands them on.
//!
//! The server has namespaces of its own, no capability, the system's programs read-only, a home and
//! a `/tmp` of its own, and of the host only what its policy names. Invariants: a server that is to
//! be sandboxed is never started without; bubblewrap itself obeys no variable of the server's.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;

use crate::config::{Launch, Mount, SandboxPolicy};
use crate::small_file;

/// Where distributions put bubblewrap; permissions to make user namespaces are bound to this path.
const PROGRAM: &str = "/usr/bin/bwrap";
/// The server's home, as it sees it.
const HOME: &str = "/home/server";
/// Sizes of the file systems in memory, in bytes. A home is one where it is not kept.
const TMP_BYTES: u64 = 256 << 20;
const SHM_BYTES: u64 = 64 << 20;
const HOME_BYTES: u64 = 256 << 20;
/// Size of the in-memory file system that replaces a hidden folder, in bytes: one page.
const EMPTY_BYTES: u64 = 4096;
/// The user and the group of a server, as it sees itself.
const SERVER_ID: &str = "65534";

/// Folders of the root that are links into `/usr` on merged systems, and real elsewhere.
const USR_LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What programs read of `/etc` to find libraries, names of users, and whom to trust. The rest may
/// hold keys.
const SETTINGS: [&str; 11] = [
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust/extracted",
];
/// And to find others.
const NETWORK_SETTINGS: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// Variables by which whoever starts a program can have the C library load or write files of their
/// choice, beside all that begin with `LD_` or `MALLOC_`: those that it does not take from who
/// starts a program of another user's rights.
const LIBRARY_VARIABLES: [&str; 13] = [
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "LOCPATH",
    "NIS_PATH",
    "NLSPATH",
    "RESOLV_HOST_CONF",
    "RES_OPTIONS",
    "TMPDIR",
    "TZ",
    "TZDIR",
];
/// Variables of the bridge's that are about the host's folders.
const HOST_VARIABLES: [&str; 3] = ["HOME", "TMPDIR", "USER"];

/// Creates sandboxes, if bubblewrap is installed and works.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sandboxes {
    /// The folder that keeps the homes of the operator's servers; without, they are in memory.
    homes: Option<PathBuf>,
}

/// A command to start, with its environment.
pub(crate) struct SandboxedLaunch {
    pub(crate) launch: Launch,
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// True if the command is bubblewrap, which starts the server.
    pub(crate) is_behind_bubblewrap: bool,
}

impl SandboxedLaunch {
    /// Returns the command of the entry.
    pub(crate) fn bare(launch: Launch, environment: Vec<(OsString, OsString)>) -> Self {
        Self { launch, environment, is_behind_bubblewrap: false }
    }
}

/// The part of the host's files that a sandboxed server is given, and the part that it is not.
#[derive(Clone, Copy)]
pub(crate) struct SandboxView<'a> {
    /// The name of the server's own home folder, if it has one.
    pub(crate) home: Option<&'a str>,
    /// Paths that no mount shows.
    pub(crate) hidden: &'a [PathBuf],
}

impl Sandboxes {
    pub(crate) fn new(homes: Option<PathBuf>) -> Self {
        Self { homes }
    }

    /// Returns true if bubblewrap can create a sandbox here. The first call in this process runs an
    /// empty program to try it, and blocks until that ends.
    pub(crate) fn work() -> bool {
        static WORK: OnceLock<bool> = OnceLock::new();
        *WORK.get_or_init(|| {
            let mut options = Options::default();
            options.isolate(false);
            options.show_system(false);
            options.work()
        })
    }

    /// Puts a command into a sandbox. It blocks.
    ///
    /// # Errors
    /// When there can be no sandbox, or its home cannot be made.
    pub(crate) fn wrap(
        &self,
        launch: &Launch,
        policy: &SandboxPolicy,
        view: SandboxView<'_>,
        mut environment: Vec<(OsString, OsString)>,
    ) -> io::Result<SandboxedLaunch> {
        let SandboxView { home, hidden } = view;
        if !Self::work() {
            let what = format!("{PROGRAM} is not there, or may not make one");
            return Err(io::Error::other(what));
        }
        let mut options = Options::default();
        options.isolate(policy.network);
        options.show_system(policy.network);

        match self.homes.as_ref().zip(home) {
            Some((homes, name)) => {
                let home = homes.join(name.to_ascii_lowercase());
                small_file::create_folder(&home)?;
                options.push([&"--bind", &home, &HOME]);
            }
            None => options.tmpfs(HOME_BYTES, HOME),
        }

        // After the file systems in memory, which would hide what is below them.
        for mount in &policy.mounts {
            options.show_mount(mount, hidden)?;
        }
        options.push([&"--remount-ro", &"/"]);
        let folder = launch.folder.as_deref().unwrap_or(Path::new(HOME));
        options.push([&"--chdir", &folder]);

        environment.retain(|(name, _)| !HOST_VARIABLES.iter().any(|variable| name == variable));
        environment.push(("HOME".into(), HOME.into()));
        environment.push(("TMPDIR".into(), "/tmp".into()));
        let mut wrapped = finish(launch, options, environment);
        wrapped.launch.folder = None;
        Ok(wrapped)
    }
}

/// The whole command. What bubblewrap itself would obey goes to the server by an option: those
/// variables are no secrets, and others can read options.
pub(super) fn finish(
    launch: &Launch,
    mut options: Options,
    mut environment: Vec<(OsString, OsString)>,
) -> SandboxedLaunch {
    let own = launch.environment.iter();
    environment.extend(own.map(|(name, value)| (name.into(), value.expose().into())));

    for (name, value) in environment.extract_if(.., |(name, _)| is_for_the_library(name)) {
        options.push([&"--setenv", &name, &value]);
    }

    options.push([&"--", &launch.command]);
    let texts = options.0.into_iter().map(|option| option.to_string_lossy().into_owned());
    let mut wrapped = launch.clone();
    wrapped.command = PROGRAM.to_owned();
    wrapped.arguments = texts.chain(launch.arguments.iter().cloned()).collect();
    wrapped.environment.clear();
    SandboxedLaunch { launch: wrapped, environment, is_behind_bubblewrap: true }
}

/// Converts the exit status of bubblewrap into that of its server: if a signal ended the server,
/// bubblewrap exits with 128 plus the number of the signal.
pub(crate) fn status_of_server(status: ExitStatus) -> ExitStatus {
    match status.code() {
        Some(code @ 129..=192) => ExitStatus::from_raw(code - 128),
        _ => status,
    }
}

/// Returns the error with which bubblewrap failed to start the server, if its last output contains
/// one.
pub(crate) fn why_not_started(command: &str, last_words: &str) -> Option<io::Error> {
    /// Largest number of a system error.
    const NUMBER_MAX: i32 = 133;
    let words = last_words.strip_prefix("bwrap: execvp ")?;
    let why = words.strip_prefix(command)?.strip_prefix(": ")?;

    let is_it = |error: &io::Error| error.to_string().starts_with(&format!("{why} (os error"));
    let known = (1..=NUMBER_MAX).map(io::Error::from_raw_os_error).find(is_it);
    Some(known.unwrap_or_else(|| io::Error::other(why.to_owned())))
}

/// Options of bubblewrap, in order.
#[derive(Default)]
pub(super) struct Options(Vec<OsString>);

impl Options {
    pub(super) fn push<const N: usize>(&mut self, options: [&dyn AsRef<OsStr>; N]) {
        self.0.extend(options.iter().map(|option| option.as_ref().to_owned()));
    }

    pub(super) fn tmpfs(&mut self, bytes: u64, path: impl AsRef<OsStr>) {
        self.push([&"--size", &bytes.to_string(), &"--tmpfs", &path]);
    }

    /// Hides an existing file or folder.
    pub(super) fn cover(&mut self, path: &Path) {
        if path.is_dir() {
            self.tmpfs(EMPTY_BYTES, path);
            self.push([&"--remount-ro", &path]);
        } else {
            // A device that cannot be opened on this mount.
            self.push([&"--ro-bind", &"/dev/null", &path]);
        }
    }

    /// Shows a file or folder of the host, and covers the hidden paths in it. The folders above
    /// them become mount points, so that a server cannot move a hidden path out of its place.
    fn show_mount(&mut self, mount: &Mount, hidden: &[PathBuf]) -> io::Result<()> {
        let option = if mount.is_writable { "--bind" } else { "--ro-bind" };
        self.push([&option, &mount.path, &mount.path]);
        // Bubblewrap reports a mount that does not exist.
        let Ok(real) = fs::canonicalize(&mount.path) else { return Ok(()) };
        if let Some(secret) = hidden.iter().find(|secret| real.starts_with(secret)) {
            let what = format!(
                "its mount {:?} is in {secret:?}, which holds secrets and is hidden from servers",
                mount.path
            );
            return Err(io::Error::other(what));
        }

        let inside = hidden.iter().filter_map(|secret| secret.strip_prefix(&real).ok());
        for folder in folders_above(inside.clone()) {
            let folder = mount.path.join(folder);
            self.push([&option, &folder, &folder]);
        }
        for secret in inside {
            self.cover(&mount.path.join(secret));
        }
        Ok(())
    }

    /// Returns true if bubblewrap can do all of this here with a program that does nothing.
    pub(super) fn work(self) -> bool {
        let trial = Command::new(PROGRAM)
            .args(self.0)
            .args(["--", "/usr/bin/env"])
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        trial.is_ok_and(|status| status.success())
    }

    /// Namespaces, and no rights in them.
    fn isolate(&mut self, network: bool) {
        self.push([&"--unshare-all", &"--unshare-user", &"--disable-userns"]);
        if network {
            self.push([&"--share-net"]);
        }
        self.push([&"--die-with-parent", &"--new-session", &"--cap-drop", &"ALL"]);
        self.push([&"--uid", &SERVER_ID, &"--gid", &SERVER_ID, &"--hostname", &"sandbox"]);
    }

    /// The system's programs, and what they need, read-only.
    fn show_system(&mut self, network: bool) {
        self.push([&"--ro-bind", &"/usr", &"/usr"]);
        for name in USR_LINKS {
            let path = Path::new("/").join(name);
            match fs::read_link(&path) {
                Ok(target) => self.push([&"--symlink", &target, &path]),
                Err(_) => self.push([&"--ro-bind-try", &path, &path]),
            }
        }

        let network_settings: &[&str] = if network { &NETWORK_SETTINGS } else { &[] };
        for path in SETTINGS.iter().chain(network_settings) {
            self.push([&"--ro-bind-try", path, path]);
        }

        self.push([&"--proc", &"/proc", &"--dev", &"/dev"]);
        self.tmpfs(SHM_BYTES, "/dev/shm");
        self.push([&"--remount-ro", &"/dev"]);
        self.tmpfs(TMP_BYTES, "/tmp");
    }
}

/// Returns the folders above these paths, without the root. Outer folders come first.
pub(super) fn folders_above<'a>(paths: impl Iterator<Item = &'a Path>) -> BTreeSet<&'a Path> {
    let folders = paths.flat_map(|path| path.ancestors().skip(1));
    folders.filter(|folder| folder.parent().is_some()).collect()
}

fn is_for_the_library(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with("LD_") || name.starts_with("MALLOC_") || LIBRARY_VARIABLES.contains(&&*name)
}

#[cfg(test)]
mod tests;
