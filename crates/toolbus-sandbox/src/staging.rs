//! Staging mounts: bind trees that only root may reach where an unprivileged child can read them.
//!
//! A service that runs as root becomes another user before it starts bubblewrap, because the
//! kernel does not count root's processes and lets root's user id open what is closed to others.
//! But root's own interpreter and cache are often below `/root`. So the spawning thread takes a
//! mount namespace of its own and binds those trees where anybody may go. Nobody else sees that.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Where the trees are bound: a folder that exists everywhere, hidden by a file system of our own
/// in that one namespace.
const STAGING_MOUNT: &str = "/tmp";

/// Where the tree of this index is bound.
pub(crate) fn staged_path(index: usize) -> PathBuf {
    Path::new(STAGING_MOUNT).join(index.to_string())
}

/// Gives the calling thread, and the processes that it will start, a mount namespace in which
/// `trees` can be reached under [`staged_path`].
pub(crate) fn mount_trees(trees: &[PathBuf]) -> io::Result<()> {
    let named = |what: &Path, error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", what.display()))
    };

    unshare_mounts()?;
    mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;

    // Opened first, since one of them may be below the place.
    let open = |tree: &PathBuf| {
        let flags = OFlags::PATH.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(tree);
        opened.map_err(|error| named(tree, error))
    };
    let opened = trees.iter().map(open).collect::<io::Result<Vec<File>>>()?;

    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", STAGING_MOUNT, "tmpfs", flags, c"mode=0755,size=1m")
        .map_err(|error| named(Path::new(STAGING_MOUNT), error.into()))?;

    for (index, tree) in opened.iter().enumerate() {
        let target = staged_path(index);
        if tree.metadata()?.is_dir() {
            fs::DirBuilder::new().mode(0o755).create(&target)?;
        } else {
            File::create(&target)?;
        }
        let source = format!("/proc/self/fd/{}", tree.as_raw_fd());
        mount_bind_recursive(source, &target).map_err(|error| named(&target, error.into()))?;
    }

    Ok(())
}

#[allow(unsafe_code)]
fn unshare_mounts() -> io::Result<()> {
    // SAFETY: it changes the calling thread alone, whose descriptors stay shared with the others.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
}
