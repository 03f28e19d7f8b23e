//! The work folder of a script, and reading its output folder after the last process has exited.
//!
//! The folder that a script starts in is held open from the script's start: a file system in memory
//! lives on while somebody does so, though nothing can reach it any more. So nobody changes what is
//! read here, and the script has no way to point it elsewhere.
//!
//! Invariants: nothing is read but regular files with one name, right below the output folder;
//! links are never followed and special files never opened; what is read is bounded.

use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use toolbus_scripts::files::{Collector, ENTRIES_MAX, OUTPUT_FOLDER, Produced};

/// The folder that a script starts in, held open.
#[derive(Debug)]
pub(crate) struct WorkFolder(File);

impl WorkFolder {
    /// Opens the folder, which keeps its file system alive after the script.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        open_no_follow(path, libc::O_PATH | libc::O_DIRECTORY).map(Self)
    }

    /// Collects the output files. Call it after the script's last process has exited, on a thread
    /// that may block; it takes milliseconds.
    pub(crate) fn collect_output(&self) -> Produced {
        let mut collector = Collector::default();

        match open_no_follow(&path_below(&self.0, OUTPUT_FOLDER.as_ref()), libc::O_DIRECTORY) {
            Ok(folder) => {
                if let Err(error) = collect_entries(&folder, &mut collector) {
                    collector.refuse("*", &error.to_string());
                }
            }
            // The script removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => collector.refuse("*", "the folder cannot be read"),
        }

        collector.finish()
    }
}

fn collect_entries(folder: &File, collector: &mut Collector) -> io::Result<()> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path_below(folder, OsStr::new("")))?.take(ENTRIES_MAX + 1) {
        names.push(entry?.file_name());
    }

    if names.len() > ENTRIES_MAX {
        names.truncate(ENTRIES_MAX);
        collector.refuse("*", &format!("the folder has more than {ENTRIES_MAX} entries"));
    }

    names.sort();

    for name in names {
        let printable = name.to_string_lossy();
        if let Err(error) = take_file(folder, &name, collector) {
            collector.refuse(&printable, &error.to_string());
        }
    }

    Ok(())
}

fn take_file(folder: &File, name: &OsStr, collector: &mut Collector) -> io::Result<()> {
    let path = path_below(folder, name);
    let Some(text) = name.to_str() else {
        return Err(io::Error::other("its name is not UTF-8"));
    };
    check_regular(&fs::symlink_metadata(&path)?)?;

    let file = open_no_follow(&path, libc::O_NONBLOCK)?;

    // Again, of what was opened: a script without a sandbox may have survivors.
    let metadata = file.metadata()?;
    check_regular(&metadata)?;

    if let Some(name) = collector.admit(text, metadata.len()) {
        let mut content = Vec::new();
        file.take(metadata.len()).read_to_end(&mut content)?;
        collector.keep(name, content);
    }

    Ok(())
}

/// Refuses anything but a regular file without further hard links.
fn check_regular(metadata: &Metadata) -> io::Result<()> {
    let kind = metadata.file_type();
    let reason = if kind.is_symlink() {
        "it is a link"
    } else if kind.is_dir() {
        "it is a folder"
    } else if !kind.is_file() {
        "it is not a regular file"
    } else if metadata.nlink() > 1 {
        "it has other names, too (hard links)"
    } else {
        return Ok(());
    };

    Err(io::Error::other(reason))
}

/// The path of an entry directly below an open folder.
fn path_below(folder: &File, name: &OsStr) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name)
}

fn open_no_follow(path: &Path, flags: libc::c_int) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(flags | libc::O_NOFOLLOW).open(path)
}
