//! Staging mounts: bind trees that only root may reach where an unprivileged child can read them.
//!
//! A service that runs as root becomes another user before it starts bubblewrap, because the
//! kernel does not count root's processes and lets root's user id open what is closed to others.
//! But root's own interpreter and cache are often below `/root`. So the spawning thread takes a
//! mount namespace of its own and binds those trees where anybody may go. Nobody else sees that.

use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr;

use crate::c_string::c_string;

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
    unshare_mounts()?;
    mount_at(None, c"/", None, libc::MS_REC | libc::MS_SLAVE, None)?;

    // Opened first, since one of them may be below the place.
    let opened = trees
        .iter()
        .map(|tree| {
            OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(tree).map_err(|error| {
                io::Error::new(error.kind(), format!("{}: {error}", tree.display()))
            })
        })
        .collect::<io::Result<Vec<File>>>()?;

    let place = c_string(STAGING_MOUNT)?;
    let options = c"mode=0755,size=1m";

    mount_at(
        Some(c"tmpfs"),
        &place,
        Some(c"tmpfs"),
        libc::MS_NOSUID | libc::MS_NODEV,
        Some(options),
    )?;

    for (index, tree) in opened.iter().enumerate() {
        let target = staged_path(index);
        if tree.metadata()?.is_dir() {
            fs::DirBuilder::new().mode(0o755).create(&target)?;
        } else {
            File::create(&target)?;
        }
        let from = c_string(format!("/proc/self/fd/{}", tree.as_raw_fd()))?;
        mount_at(Some(&from), &c_string(&target)?, None, libc::MS_BIND | libc::MS_REC, None)?;
    }

    Ok(())
}

#[allow(unsafe_code)]
fn unshare_mounts() -> io::Result<()> {
    // SAFETY: takes no pointers; it changes only the calling thread.
    match unsafe { libc::unshare(libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[allow(unsafe_code)]
fn mount_at(
    source: Option<&CStr>,
    target: &CStr,
    kind: Option<&CStr>,
    flags: libc::c_ulong,
    options: Option<&CStr>,
) -> io::Result<()> {
    let pointer = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);

    // SAFETY: every pointer is null or to a string that ends with a zero byte.
    let answer = unsafe {
        libc::mount(pointer(source), target.as_ptr(), pointer(kind), flags, pointer(options).cast())
    };
    match answer {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            Err(io::Error::new(
                error.kind(),
                format!("cannot mount {}: {error}", target.to_string_lossy()),
            ))
        }
    }
}
