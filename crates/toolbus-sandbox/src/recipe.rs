//! What a sandboxed process is: which namespaces, which mounts, which environment.
//!
//! Everything that a script can see is listed here. Invariants: only trusted trees are bound, all
//! of them read-only but the workspace; every other writable place is a file system in memory with
//! a size; nothing is mounted within the workspace, where scripts could have put links; the
//! environment of bubblewrap itself is empty, because the first process of the sandbox would show
//! it.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use toolbus_scripts::supervisor::Place;
use toolbus_scripts::supervisor::seccomp::Network;

use crate::cgroup::ControlGroup;
use crate::config::{Limits, Workspace};
use crate::interpreter::{self, Interpreter};

/// Where the packages of a run are mounted.
const PACKAGES: &str = "/packages";
/// Where a script starts, and its home.
pub(crate) const WORK: &str = "/work";
/// The file systems that a script may write.
pub(crate) const WRITABLE: [&str; 3] = ["/dev/shm", "/tmp", WORK];
/// The user and the group of scripts, as they see themselves.
const SCRIPT_ID: u32 = 65534;
/// The largest piece of shared memory without a file that a script can make, where memory is
/// sampled; the supervisor counts each piece as that large.
const SHARED_MAPPING_BYTES_MAX: u64 = 4 << 20;

/// Folders of the root that are links into `/usr` on merged systems, and real elsewhere.
const USR_LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];
/// What the dynamic linker and libraries for text in images read; nothing else of `/etc` is shown.
const LIBRARY_SETTINGS: [&str; 3] = ["/etc/ld.so.cache", "/etc/alternatives", "/etc/fonts"];

/// What name resolution and certificates need of `/etc`.
pub(crate) const NETWORK_SETTINGS: [&str; 9] = [
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls",
    "/etc/pki/ca-trust",
];

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

    /// After all other trees, so that nothing is mounted within it.
    pub(crate) fn bind_workspace(&mut self, workspace: &Workspace, source: &Path) -> &mut Self {
        let option = if workspace.is_writable { "--bind" } else { "--ro-bind" };
        self.push([&option, &source, &workspace.path])
    }

    fn tmpfs(&mut self, size: u64, path: &str) -> &mut Self {
        self.push([&"--size", &size.to_string(), &"--tmpfs", &path])
    }
}

/// The sandbox, as its supervisor has to know it. Control groups count all of a piece of shared
/// memory, whatever shows of it; where memory is sampled its size has to be bounded.
pub(crate) fn place(network: Network, is_sampled: bool) -> Place<'static> {
    Place {
        work: WORK,
        temporary: "/tmp",
        writable: &WRITABLE,
        outlives_input: false,
        network,
        shared_bytes_max: is_sampled.then_some(SHARED_MAPPING_BYTES_MAX),
    }
}

/// The options that every sandbox of a kind has: namespaces, file systems, and the trees of the
/// host.
pub(crate) fn base_options(
    network: Network,
    interpreter: &Interpreter,
    trees: &[HostTree],
    limits: &Limits,
) -> BwrapOptions {
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
        .tmpfs(limits.tmp_bytes, "/tmp")
        .tmpfs(limits.work_bytes, WORK)
        // Of the supervisor; that of scripts it sets itself.
        .push([&"--setenv", &"PATH", &interpreter::search_path(interpreter)])
        .push([&"--setenv", &"LANG", &"C.UTF-8", &"--setenv", &"MALLOC_ARENA_MAX", &"1"])
        .bind_trees(trees);

    if network == Network::Allowed {
        options.push([&"--share-net"]);
    }

    options
}

/// The options of one script: the base, its packages, and its control group, where its supervisor
/// finds it as in a container.
pub(crate) fn script_options(
    base: &BwrapOptions,
    packages: Option<&Path>,
    group: Option<&ControlGroup>,
) -> BwrapOptions {
    let mut options = base.clone();
    if let Some(group) = group {
        let (folder, place) = group.accounts();
        options.push([&"--ro-bind", &folder, &place]);
    }
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

#[cfg(test)]
mod tests;
