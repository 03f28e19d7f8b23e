//! Notices at once that something in a folder may have changed, where the system can.
//!
//! It watches folders and not files: files are replaced by others of their name, also by way of a
//! link beside them, as Kubernetes does it. What it misses (network volumes, a folder that is
//! replaced itself, a link's target elsewhere), the caller finds by polling.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Watches a few folders.
pub(super) struct FolderWatch {
    inotify: Option<AsyncFd<OwnedFd>>,
    folders: Vec<PathBuf>,
}

impl FolderWatch {
    /// Of the folders that these files are in. Needs a tokio runtime to be running.
    pub(super) fn for_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        #[expect(deprecated, reason = "an `OwnedFd` keeps the promise that its successor asks for")]
        let inotify = inotify.map_err(std::io::Error::from).and_then(AsyncFd::new);
        let inotify = inotify.inspect_err(|error| {
            // There is a limit of these for each user.
            tracing::info!(%error, "cannot watch folders; polling files for changes instead");
        });
        let folders = files.into_iter().map(folder_of).collect();
        let watch = Self { inotify: inotify.ok(), folders };

        watch.watch_again();
        watch
    }

    /// Watches the folders that are there now; for those that are watched already it does nothing.
    pub(super) fn watch_again(&self) {
        let Some(inotify) = &self.inotify else { return };
        // Not every write: a file is looked at when its writer is done with it.
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::ONLYDIR;

        for folder in &self.folders {
            // One that is not there is looked for again later.
            let _ = inotify::add_watch(inotify.get_ref(), folder, events);
        }
    }

    /// Waits until something has changed. May be dropped at any time.
    pub(super) async fn wait_changed(&self) {
        let Some(inotify) = &self.inotify else { return std::future::pending().await };
        let Ok(mut ready) = inotify.readable().await else {
            return std::future::pending().await;
        };
        // What it was does not matter.
        let mut events = [0_u8; 4 << 10];
        while rustix::io::read(inotify.get_ref(), &mut events).is_ok_and(|length| length > 0) {}
        ready.clear_ready();
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests;
