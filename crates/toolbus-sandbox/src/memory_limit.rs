//! What bounds a script's memory: a control group, or a look at it twenty times a second.

use std::ffi::CString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::ControlGroup;
use crate::recipe::WRITABLE;

/// How often memory is sampled.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);
/// Roughly what the kernel holds for a file in memory beside its content.
const FILE_OVERHEAD_BYTES: u64 = 1 << 10;
/// The most that one socket may buffer, which is charged to no process.
const SOCKET_BUFFER_BYTES: u64 = 208 << 10;

/// Guards the memory limit of one run.
#[derive(Debug)]
pub(crate) enum MemoryGuard {
    /// By the kernel, which accounts and kills.
    Group(ControlGroup),
    /// By sampling `/proc` from this service.
    Sampled(MemorySampler),
}

impl MemoryGuard {
    /// Measures memory and returns whether the limit is exceeded. Reads files, so call it on a
    /// thread that may block.
    pub(crate) fn check_exceeded(&mut self) -> bool {
        match self {
            Self::Group(_) => self.has_oom_killed(),
            Self::Sampled(sampler) => sampler.check_exceeded(),
        }
    }

    /// Whether memory of the script can be measured at all; asked once, right after its start.
    pub(crate) fn can_see_script(&self) -> bool {
        match self {
            Self::Group(group) => group.oom_kill_count().is_some(),
            Self::Sampled(sampler) => sampler.can_see_script(),
        }
    }

    /// Whether the kernel killed a process for exceeding the limit. Asked once more at the end: it
    /// may have done so since the last sample, and the script may have ended because of it.
    pub(crate) fn has_oom_killed(&self) -> bool {
        match self {
            Self::Group(group) => group.oom_kill_count().is_some_and(|count| count > 0),
            Self::Sampled(_) => false,
        }
    }

    /// Peak memory use in bytes, as far as it was measured.
    pub(crate) fn peak(&self) -> u64 {
        match self {
            Self::Group(group) => group.memory_peak().unwrap_or(0),
            Self::Sampled(sampler) => sampler.peak,
        }
    }
}

/// The processes whose memory is measured.
#[derive(Debug, Clone)]
pub(crate) enum MemorySubject {
    /// A process namespace and its file systems, seen through the root of its first process.
    Namespace(libc::pid_t),
    /// A process and its descendants.
    Tree(libc::pid_t),
}

/// Samples the memory of a script: its processes, files in memory and sockets.
#[derive(Debug)]
pub(crate) struct MemorySampler {
    subject: MemorySubject,
    limit: u64,
    peak: u64,
}

impl MemorySampler {
    pub(crate) fn new(subject: MemorySubject, limit: u64) -> Self {
        Self { subject, limit, peak: 0 }
    }

    fn check_exceeded(&mut self) -> bool {
        let processes = self.subject.process_folders();
        let outside = self.subject.bytes_outside_processes();
        let mut total =
            outside + processes.iter().map(|process| resident_bytes(process)).sum::<u64>();

        if total > self.limit.min(self.peak) {
            // Pages that processes share were counted for each of them: look again, more slowly.
            total =
                outside + processes.iter().map(|process| proportional_bytes(process)).sum::<u64>();
        }

        self.peak = self.peak.max(total);
        total > self.limit
    }

    /// The first process is there until it is killed from here, and never at nothing.
    fn can_see_script(&self) -> bool {
        self.subject.process_folders().iter().map(|process| resident_bytes(process)).sum::<u64>()
            > 0
    }
}

impl MemorySubject {
    /// The `/proc` folders of its processes.
    fn process_folders(&self) -> Vec<PathBuf> {
        match self {
            Self::Namespace(first) => {
                let list = PathBuf::from(format!("/proc/{first}/root/proc"));
                let entries = fs::read_dir(&list).into_iter().flatten().flatten();

                entries
                    .filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit))
                    .map(|entry| entry.path())
                    .collect()
            }
            Self::Tree(root) => descendants(*root)
                .into_iter()
                .chain([*root])
                .map(|pid| PathBuf::from(format!("/proc/{pid}")))
                .collect(),
        }
    }

    /// Memory that no process shows: files in tmpfs, and what may be buffered in sockets.
    fn bytes_outside_processes(&self) -> u64 {
        let Self::Namespace(first) = self else { return 0 };
        let files: u64 = WRITABLE
            .iter()
            .filter_map(|place| {
                tmpfs_used_bytes(&PathBuf::from(format!("/proc/{first}/root/{place}"))).ok()
            })
            .sum();
        files + count_sockets(*first).unwrap_or(0) * SOCKET_BUFFER_BYTES
    }
}

/// All descendants of a process, in no order, as far as they can be seen.
pub(crate) fn descendants(root: libc::pid_t) -> Vec<libc::pid_t> {
    /// Far above any limit on processes; stops a walk among processes that come and go.
    const DESCENDANTS_MAX: usize = 4096;

    let mut found = Vec::new();

    let mut open = vec![root];
    while let Some(pid) = open.pop()
        && found.len() < DESCENDANTS_MAX
    {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads {
            let children = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = children.split_whitespace();
            let known = found.len();
            found.extend(children.filter_map(|child| child.parse::<libc::pid_t>().ok()));
            open.extend_from_slice(&found[known..]);
        }
    }

    found
}

/// Resident memory, what it shares included. A process that is gone has none.
fn resident_bytes(process: &Path) -> u64 {
    let text = fs::read_to_string(process.join("statm")).unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * page_bytes()
}

/// Resident memory, with shared pages divided among those who share them.
fn proportional_bytes(process: &Path) -> u64 {
    let text = fs::read_to_string(process.join("smaps_rollup")).unwrap_or_default();
    let kibibytes = text.lines().find_map(|line| {
        line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok()
    });
    kibibytes.map_or_else(|| resident_bytes(process), |kibibytes| kibibytes << 10)
}

/// How many sockets there are in the network namespace of a process.
fn count_sockets(pid: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/sockstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("sockets: used ")?.trim().parse().ok())
}

/// What a file system in memory holds: blocks and files.
#[allow(unsafe_code)]
fn tmpfs_used_bytes(path: &Path) -> io::Result<u64> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut answer = MaybeUninit::<libc::statvfs>::zeroed();

    // SAFETY: the path ends with a zero byte, the answer is a live value of the right type, and all
    // zeroes is a valid one.
    let answer = unsafe {
        if libc::statvfs(path.as_ptr(), answer.as_mut_ptr()) < 0 {
            return Err(io::Error::last_os_error());
        }
        answer.assume_init()
    };

    let blocks = answer.f_blocks.saturating_sub(answer.f_bfree) * answer.f_frsize;
    let files = answer.f_files.saturating_sub(answer.f_ffree) * FILE_OVERHEAD_BYTES;

    Ok(blocks + files)
}

#[allow(unsafe_code)]
fn page_bytes() -> u64 {
    // SAFETY: takes no pointers.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}
