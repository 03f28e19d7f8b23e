//! What a sandboxed process is: which namespaces, which mounts, which environment.
//!
//! Everything that a script can see is listed here. Invariants: only trusted trees are bound, all
//! of them read-only; every writable place is a file system in memory with a size; the environment
//! of bubblewrap itself is empty, because the first process of the sandbox would show it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::Limits;
use crate::interpreter::{self, Interpreter};

/// Where the packages of a run are mounted.
pub(crate) const PACKAGES: &str = "/packages";
/// Where a script starts, and its home.
pub(crate) const WORK: &str = "/work";
/// The file systems that a script may write, below its root.
pub(crate) const WRITABLE: [&str; 3] = ["dev/shm", "tmp", "work"];
/// The user and the group of scripts, as they see themselves.
pub(crate) const SCRIPT_ID: u32 = 65534;

/// Folders of the root that are links into `/usr` on merged systems, and real elsewhere.
const USR_LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What the dynamic linker and libraries for text in images read; nothing else of `/etc` is shown.
const LIBRARY_SETTINGS: [&str; 3] = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"];

/// A tree of the host and where bubblewrap finds it, which differs when the service is root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostTree {
    /// Its path in the sandbox, the host's own.
    pub(crate) path: PathBuf,
    /// What to bind.
    pub(crate) source: PathBuf,
}

/// Options of bubblewrap, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct BwrapOptions(pub(crate) Vec<OsString>);

impl BwrapOptions {
    pub(crate) fn push<const N: usize>(&mut self, options: [&dyn AsRef<OsStr>; N]) -> &mut Self {
        self.0.extend(options.iter().map(|option| option.as_ref().to_owned()));
        self
    }

    /// After the file systems in memory, which would hide trees below them.
    fn bind_trees(&mut self, trees: &[HostTree]) -> &mut Self {
        for tree in trees {
            self.push([&"--ro-bind", &tree.source, &tree.path]);
        }
        self
    }

    fn tmpfs(&mut self, size: u64, path: &str) -> &mut Self {
        self.push([&"--size", &size.to_string(), &"--tmpfs", &path])
    }
}

/// The base options of every script.
pub(crate) fn script_base(trees: &[HostTree], limits: &Limits) -> BwrapOptions {
    let mut options = common_options(limits);
    options.tmpfs(limits.work_bytes, WORK).bind_trees(trees);
    options
}

/// The base options of every installer, which include the network.
pub(crate) fn installer_base(trees: &[HostTree], limits: &Limits) -> BwrapOptions {
    let mut options = common_options(limits);
    options.push([&"--share-net"]).bind_trees(trees);
    options
}

/// The namespaces and file systems common to scripts and installers.
fn common_options(limits: &Limits) -> BwrapOptions {
    let id = SCRIPT_ID.to_string();
    let mut options = BwrapOptions::default();

    options
        .push([&"--unshare-all", &"--unshare-user", &"--disable-userns"])
        .push([&"--die-with-parent", &"--new-session", &"--as-pid-1"])
        .push([&"--cap-drop", &"ALL", &"--clearenv"])
        .push([&"--uid", &id, &"--gid", &id, &"--hostname", &"sandbox"])
        .push([&"--ro-bind", &"/usr", &"/usr"]);

    for name in USR_LINKS {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => options.push([&"--symlink", &target, &path]),
            Err(_) => options.push([&"--ro-bind-try", &path, &path]),
        };
    }

    for path in LIBRARY_SETTINGS {
        options.push([&"--ro-bind-try", &path, &path]);
    }

    options
        .push([&"--proc", &"/proc", &"--dev", &"/dev"])
        // Zeros to read from a device that cannot be mapped: a shared mapping of the usual one is
        // memory that its length does not show.
        .push([&"--dev-bind", &"/dev/full", &"/dev/zero"])
        .tmpfs(limits.shm_bytes, "/dev/shm")
        .push([&"--remount-ro", &"/dev"])
        .tmpfs(limits.tmp_bytes, "/tmp");

    options
}

/// The options of one script: the base and its packages.
pub(crate) fn script_options(base: &BwrapOptions, packages: Option<&Path>) -> BwrapOptions {
    let mut options = base.clone();
    if let Some(packages) = packages {
        options.push([&"--ro-bind", &packages, &PACKAGES]);
    }

    options.push([&"--remount-ro", &"/", &"--chdir", &WORK]);
    options
}

/// The options of one installer: the base and a writable folder.
pub(crate) fn installer_options(base: &BwrapOptions, target: &HostTree) -> BwrapOptions {
    let mut options = base.clone();
    options.push([&"--bind", &target.source, &target.path]).push([
        &"--remount-ro",
        &"/",
        &"--chdir",
        &target.path,
    ]);
    options
}

/// The environment of a script, but for its input, which is set inside the interpreter.
pub(crate) fn script_environment(
    interpreter: &Interpreter,
    packages: Option<&Path>,
) -> Vec<(&'static str, OsString)> {
    let mut environment: Vec<(&'static str, OsString)> = vec![
        ("PATH", interpreter::search_path(interpreter)),
        ("HOME", WORK.into()),
        ("TMPDIR", "/tmp".into()),
        ("LANG", "C.UTF-8".into()),
        ("USER", "sandbox".into()),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        // Both reserve address space for every processor there is.
        ("MALLOC_ARENA_MAX", "1".into()),
        ("OPENBLAS_NUM_THREADS", "1".into()),
    ];

    if let Some(packages) = packages {
        // For children; the interpreter itself is told by the bootstrap.
        environment.push(("PYTHONPATH", packages.into()));
    }

    environment
}

#[cfg(test)]
mod tests;
