//! What bounds a script's memory: a control group, or a look at it twenty times a second.
//!
//! A look counts what processes have resident, swapped out and in page tables, and what no process
//! shows: files in memory, socket buffers, and shared memory without a file. The latter stays as
//! large as it was made while any page of it is mapped anywhere, and only the mapped pages show. So
//! the filter bounds how large one can be made, and each that shows counts as that large.

use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
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

/// The largest piece of shared memory without a file that a script can make, where memory is
/// sampled.
pub(crate) const SHARED_MAPPING_BYTES_MAX: u64 = 4 << 20;
/// What the kernel holds for one mapping of a process, about.
const MAPPING_OVERHEAD_BYTES: u64 = 256;
/// How much is read of a process's list of mappings: some ten thousand of them. A longer list is
/// over the limit, whatever it maps.
const MAPPINGS_TEXT_BYTES_MAX: u64 = 1 << 20;
/// What the kernel calls shared memory without a file.
const SHARED_MAPPING_NAME: &str = "/dev/zero (deleted)";

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

/// Samples the memory of a script: its processes, files in memory and sockets.
#[derive(Debug)]
pub(crate) struct MemorySampler {
    /// The first process of its namespace.
    first: libc::pid_t,
    limit: u64,
    peak: u64,
}

impl MemorySampler {
    pub(crate) fn new(first: libc::pid_t, limit: u64) -> Self {
        Self { first, limit, peak: 0 }
    }

    fn check_exceeded(&mut self) -> bool {
        let processes = process_folders(self.first);
        let Some(mappings) = mappings_bytes(&processes) else { return true };
        let outside = bytes_outside_processes(self.first) + mappings;

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
        process_folders(self.first).iter().map(|process| resident_bytes(process)).sum::<u64>() > 0
    }
}

/// The `/proc` folders of the processes of a namespace, seen through the root of its first one.
fn process_folders(first: libc::pid_t) -> Vec<PathBuf> {
    let list = PathBuf::from(format!("/proc/{first}/root/proc"));
    let entries = fs::read_dir(&list).into_iter().flatten().flatten();

    entries
        .filter(|entry| entry.file_name().as_bytes().iter().all(u8::is_ascii_digit))
        .map(|entry| entry.path())
        .collect()
}

/// Memory that no process shows: files in tmpfs, and what may be buffered in sockets.
fn bytes_outside_processes(first: libc::pid_t) -> u64 {
    let files: u64 =
        writable_places(first).map(|place| place.bytes + place.files * FILE_OVERHEAD_BYTES).sum();
    files + count_sockets(first).unwrap_or(0) * SOCKET_BUFFER_BYTES
}

/// What the file systems hold that a script may write, seen through the root of its first process.
pub(crate) fn writable_places(first: libc::pid_t) -> impl Iterator<Item = TmpfsUsage> {
    WRITABLE.iter().filter_map(move |place| {
        tmpfs_usage(&PathBuf::from(format!("/proc/{first}/root/{place}"))).ok()
    })
}

/// What the lines with these names in a file of the kernel say, in bytes; 0 without the file, as
/// after the end of a process.
fn sum_of_lines(path: &Path, names: &[&str]) -> Option<u64> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let kibibytes = text.lines().filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        let value = value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
        names.contains(&name).then_some(value)
    });
    kibibytes.reduce(|sum, value| sum + value).map(|sum| sum << 10)
}

/// Memory of a process, what it shares included. A process that is gone has none.
fn resident_bytes(process: &Path) -> u64 {
    sum_of_lines(&process.join("status"), &["VmRSS", "VmSwap", "VmPTE"]).unwrap_or(0)
}

/// Memory of a process, with shared pages divided among those who share them. Files in memory and
/// shared memory are counted as such.
fn proportional_bytes(process: &Path) -> u64 {
    let shared = sum_of_lines(
        &process.join("smaps_rollup"),
        // Before Linux 5.9 there is only the sum.
        &["Pss_Anon", "Pss_File", "SwapPss"],
    );
    let tables = sum_of_lines(&process.join("status"), &["VmPTE"]).unwrap_or(0);
    shared.map_or_else(|| resident_bytes(process), |shared| shared + tables)
}

/// What processes hold by their mappings: the kernel's records of them, and shared memory without
/// files, once for all who share it. `None` when a process has too many to look at.
fn mappings_bytes(processes: &[PathBuf]) -> Option<u64> {
    let mut records = 0;
    let mut pieces = HashSet::new();
    let mut larger = 0;

    for process in processes {
        let mut text = String::new();
        let Ok(file) = File::open(process.join("maps")) else { continue };
        // What cannot be read is that of a process that has ended meanwhile.
        let _ = file.take(MAPPINGS_TEXT_BYTES_MAX).read_to_string(&mut text);

        if text.len() as u64 >= MAPPINGS_TEXT_BYTES_MAX {
            return None;
        }

        records += text.lines().count() as u64 * MAPPING_OVERHEAD_BYTES;

        for line in text.lines().filter(|line| line.ends_with(SHARED_MAPPING_NAME)) {
            let Some((inode, end)) = parse_shared_mapping(line) else { continue };
            if pieces.insert(inode) {
                larger += end.saturating_sub(SHARED_MAPPING_BYTES_MAX);
            }
        }
    }

    Some(records + pieces.len() as u64 * SHARED_MAPPING_BYTES_MAX + larger)
}

/// The inode of a line of `maps`, and the end of what it maps of it:
/// `START-END ACCESS OFFSET DEVICE INODE NAME`.
fn parse_shared_mapping(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let offset = words.nth(1)?;
    let inode = words.nth(1)?.parse().ok()?;

    let number = |hexadecimal: &str| u64::from_str_radix(hexadecimal, 16).ok();
    let length = number(end)?.saturating_sub(number(start)?);
    Some((inode, number(offset)?.saturating_add(length)))
}

/// How many sockets there are in the network namespace of a process.
fn count_sockets(pid: libc::pid_t) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/net/sockstat")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("sockets: used ")?.trim().parse().ok())
}

/// What a file system in memory holds.
pub(crate) struct TmpfsUsage {
    bytes: u64,
    /// Files, folders and everything else with an inode.
    pub(crate) files: u64,
}

/// What a file system in memory holds: blocks and files.
#[allow(unsafe_code)]
fn tmpfs_usage(path: &Path) -> io::Result<TmpfsUsage> {
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

    let bytes = answer.f_blocks.saturating_sub(answer.f_bfree) * answer.f_frsize;
    let files = answer.f_files.saturating_sub(answer.f_ffree);

    Ok(TmpfsUsage { bytes, files })
}

#[cfg(test)]
mod tests;
