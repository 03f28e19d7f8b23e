//! What a process holds, as the kernel tells.

use std::fs;

use anyhow::Context as _;

/// Resident memory of a process, in MiB.
///
/// # Errors
/// When it is gone.
pub fn resident_mib(process: u32) -> anyhow::Result<f64> {
    memory_mib(process, "VmRSS:")
}

/// Most memory of a process that was resident at one time, in MiB, since [`forget_peak`].
///
/// # Errors
/// When it is gone.
pub fn peak_mib(process: u32) -> anyhow::Result<f64> {
    memory_mib(process, "VmHWM:")
}

/// Begins to look anew for the most memory that is resident.
///
/// # Errors
/// When the process is gone or somebody else's.
pub fn forget_peak(process: u32) -> anyhow::Result<()> {
    // The number is what proc(5) has for this.
    Ok(fs::write(format!("/proc/{process}/clear_refs"), "5")?)
}

fn memory_mib(process: u32, what: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let value = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(value.context("the process has no resident memory")?.parse::<f64>()? / 1024.0)
}

/// How many descriptors a process has open.
///
/// # Errors
/// When it is gone.
pub fn descriptors(process: u32) -> anyhow::Result<usize> {
    Ok(fs::read_dir(format!("/proc/{process}/fd"))?.count())
}

/// How many children a process has, zombies too.
///
/// # Errors
/// When it is gone.
pub fn children(process: u32) -> anyhow::Result<usize> {
    Ok(children_of(process)?.len())
}

/// The processes that a process started, and those that these did, without zombies.
#[must_use]
pub fn descendants(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    let mut waiting = vec![process];
    while let Some(parent) = waiting.pop() {
        // It may have ended meanwhile.
        let children = children_of(parent).unwrap_or_default();
        found.extend(children.iter().copied().filter(|child| !is_zombie(*child)));
        waiting.extend(children);
    }
    found
}

fn children_of(process: u32) -> anyhow::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end between the two looks.
        let ids = fs::read_to_string(thread?.path().join("children")).unwrap_or_default();
        children.extend(ids.split_ascii_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Ok(children)
}

fn is_zombie(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && line.contains('Z'))
}
