//! Control groups (cgroups): exact memory accounting by the kernel, where this service may create
//! them.
//!
//! Version 2 needs a delegated subtree whose controllers can be switched on; version 1 needs root.
//! Nothing is moved that is not ours: a group that holds other processes is left as it is.
//!
//! Invariant: every group made here is removed when its run ends, and those of a service that was
//! killed when the next one starts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::config::Limits;
use crate::nonce;

const PREFIX: &str = "toolbus-sandbox";
/// Attempts to remove the last groups when a service ends.
const LAST_ATTEMPTS: usize = 20;
/// Between two of these attempts.
const LAST_ATTEMPTS_BACKOFF: Duration = Duration::from_millis(10);
/// The sandbox's own processes, which the script's limit does not count.
const SANDBOX_PROCESSES: u32 = 8;

/// The cgroup hierarchy below which a group is created for each run.
#[derive(Debug)]
pub(crate) struct CgroupHierarchy {
    version: CgroupVersion,
    memory: PathBuf,
    /// The folder of the `pids` controller, which is another one in version 1 only.
    processes: Option<PathBuf>,
    memory_bytes: u64,
    processes_max: u32,
    /// Folders of groups whose removal failed and is retried.
    leftovers: Mutex<Vec<PathBuf>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CgroupVersion {
    V1,
    V2,
}

impl CgroupVersion {
    fn memory_limit_file(self) -> &'static str {
        match self {
            Self::V1 => "memory.limit_in_bytes",
            Self::V2 => "memory.max",
        }
    }

    fn events_file(self) -> &'static str {
        match self {
            Self::V1 => "memory.oom_control",
            Self::V2 => "memory.events",
        }
    }
}

impl CgroupHierarchy {
    /// Finds a hierarchy to create groups in, proves it by creating one, and removes the groups
    /// that an earlier service left.
    pub(crate) fn find_writable(limits: &Limits) -> Option<Arc<Self>> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;

        let (version, memory, processes) = match locate_own_group(&groups, &mounts, "memory") {
            Some(memory) => {
                (CgroupVersion::V1, memory, Some(locate_own_group(&groups, &mounts, "pids")?))
            }
            None => (
                CgroupVersion::V2,
                enable_controllers(locate_own_group(&groups, &mounts, "")?)?,
                None,
            ),
        };

        let hierarchy = Self {
            version,
            memory,
            processes,
            memory_bytes: limits.memory_bytes,
            processes_max: limits.processes + SANDBOX_PROCESSES,
            leftovers: Mutex::default(),
        };

        hierarchy.remove_orphaned();

        let hierarchy = Arc::new(hierarchy);
        let works = hierarchy.create_group().ok()?.oom_kill_count().is_some();

        works.then_some(hierarchy)
    }

    /// Creates a group with the limits of one script.
    pub(crate) fn create_group(self: &Arc<Self>) -> io::Result<ControlGroup> {
        let name = nonce::unique_name(PREFIX);
        let group = ControlGroup {
            memory: self.memory.join(&name),
            processes: self.processes.as_ref().map(|folder| folder.join(&name)),
            hierarchy: Arc::clone(self),
        };

        for folder in group.folders() {
            fs::create_dir(folder)?;
        }

        let memory = self.memory_bytes.to_string();
        write_file(&group.memory, self.version.memory_limit_file(), &memory)?;

        // Kernels without swap, or without its accounting, lack these.
        let _ = match self.version {
            CgroupVersion::V1 => write_file(&group.memory, "memory.memsw.limit_in_bytes", &memory),
            CgroupVersion::V2 => write_file(&group.memory, "memory.swap.max", "0"),
        };

        let processes = group.processes.as_deref().unwrap_or(&group.memory);
        write_file(processes, "pids.max", &self.processes_max.to_string())?;

        Ok(group)
    }

    /// Removes a group whose processes are gone.
    fn remove_group(&self, group: &ControlGroup) {
        let mut leftovers = self.leftovers.lock();
        leftovers.extend(group.folders().cloned());
        // The kernel may need a moment after the last process: the next call tries again.
        remove_folders(&mut leftovers);
    }

    /// Removes orphaned groups: those of services that no longer run.
    fn remove_orphaned(&self) {
        for parent in [Some(&self.memory), self.processes.as_ref()].into_iter().flatten() {
            let entries = fs::read_dir(parent).into_iter().flatten().flatten();
            for entry in entries {
                let name = entry.file_name();
                let maker = name.to_str().and_then(|name| nonce::maker_pid(name, PREFIX));
                // A group that is in use after all cannot be removed.
                if maker.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }
}

/// Removes what was left last, for which no next call comes.
impl Drop for CgroupHierarchy {
    fn drop(&mut self) {
        let leftovers = self.leftovers.get_mut();
        for _ in 0..LAST_ATTEMPTS {
            remove_folders(leftovers);
            if leftovers.is_empty() {
                return;
            }
            std::thread::sleep(LAST_ATTEMPTS_BACKOFF);
        }
    }
}

/// Removes folders of groups, and keeps those in the list that cannot be removed yet.
fn remove_folders(folders: &mut Vec<PathBuf>) {
    folders.retain(|folder| {
        fs::remove_dir(folder).is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
    });
}

/// The files through which a thread enters a control group and leaves it again.
#[derive(Debug)]
pub(crate) struct GroupHandle {
    enter: PathBuf,
    leave: PathBuf,
}

impl GroupHandle {
    /// Moves the calling thread in.
    pub(crate) fn enter_group(&self) -> io::Result<()> {
        fs::write(&self.enter, "0")
    }

    /// Moves the calling thread back to where the service is.
    pub(crate) fn leave_group(&self) -> io::Result<()> {
        fs::write(&self.leave, "0")
    }
}

/// The groups of one run: one folder, or two in version 1. Removed when dropped.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    hierarchy: Arc<CgroupHierarchy>,
    memory: PathBuf,
    processes: Option<PathBuf>,
}

impl ControlGroup {
    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        [Some(&self.memory), self.processes.as_ref()].into_iter().flatten()
    }

    /// The files by which a thread enters the group before it starts a process, and goes back
    /// afterwards. A thread that moves itself moves at once, while moving a process waits for all
    /// processors; but only version 1 lets threads of one process be in several groups.
    pub(crate) fn group_handles(&self) -> Vec<GroupHandle> {
        let handle = |folder: &PathBuf| GroupHandle {
            enter: folder.join("tasks"),
            leave: folder.with_file_name("tasks"),
        };
        match self.hierarchy.version {
            CgroupVersion::V1 => self.folders().map(handle).collect(),
            CgroupVersion::V2 => Vec::new(),
        }
    }

    /// Puts processes, and all that they will start, under the limits, where they are not yet.
    pub(crate) async fn attach_processes(&self, pids: Vec<u32>) -> io::Result<()> {
        if self.hierarchy.version == CgroupVersion::V1 {
            return Ok(());
        }

        let folder = self.memory.clone();
        // Waits for all processors.
        let attach = move || {
            pids.iter().try_for_each(|pid| write_file(&folder, "cgroup.procs", &pid.to_string()))
        };
        tokio::task::spawn_blocking(attach).await.map_err(io::Error::other)?
    }

    /// The number of processes that the kernel's OOM killer ended; `None` when it does not say.
    pub(crate) fn oom_kill_count(&self) -> Option<u64> {
        let events =
            fs::read_to_string(self.memory.join(self.hierarchy.version.events_file())).ok()?;
        events.lines().find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok())
    }

    /// Whether that has happened.
    pub(crate) fn has_oom_killed(&self) -> bool {
        self.oom_kill_count().is_some_and(|count| count > 0)
    }

    /// The group's folder, and where it stands in a container: there its supervisor reads it.
    pub(crate) fn accounts(&self) -> (&Path, &'static str) {
        let place = match self.hierarchy.version {
            CgroupVersion::V1 => "/sys/fs/cgroup/memory",
            CgroupVersion::V2 => "/sys/fs/cgroup",
        };
        (&self.memory, place)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        self.hierarchy.remove_group(self);
    }
}

fn write_file(folder: &Path, file: &str, text: &str) -> io::Result<()> {
    fs::write(folder.join(file), text)
}

/// The folder of this process's own group for a controller; for version 2 with an empty name.
fn locate_own_group(groups: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;

        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    mounts.lines().find_map(|line| {
        let (mount, system) = line.split_once(" - ")?;
        let mut system = system.split(' ');
        let kind = system.next()?;
        let options = system.nth(1)?;
        let wanted = if controller.is_empty() {
            kind == "cgroup2"
        } else {
            kind == "cgroup" && options.split(',').any(|option| option == controller)
        };

        let mut mount = mount.split(' ').skip(3);
        let root = mount.next()?;
        let point = mount.next()?;
        let below = Path::new(own).strip_prefix(root).ok()?;

        wanted.then(|| Path::new(point).join(below))
    })
}

/// Switches the controllers on for groups below `own`. A group that has some may hold no process
/// itself, so this one moves into a group beside them; only when it is alone, as the main process
/// of a container or of a unit that systemd delegated is.
fn enable_controllers(own: PathBuf) -> Option<PathBuf> {
    let read = |file: &str| fs::read_to_string(own.join(file)).ok();
    let has = |file: &str| {
        let names = read(file)?;
        let names: Vec<&str> = names.split_whitespace().collect();
        Some(["memory", "pids"].iter().all(|name| names.contains(name)))
    };

    if has("cgroup.subtree_control")? {
        return Some(own);
    }

    let myself = process::id().to_string();
    let is_alone = read("cgroup.procs")?.trim() == myself;
    if !has("cgroup.controllers")? || !is_alone || (is_unit(&own) && !is_delegated(&own)) {
        return None;
    }

    let service = own.join(format!("{PREFIX}-service"));

    fs::create_dir(&service)
        .or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Ok(()),
            _ => Err(error),
        })
        .ok()?;

    write_file(&service, "cgroup.procs", &myself).ok()?;
    write_file(&own, "cgroup.subtree_control", "+memory +pids").ok()?;

    Some(own)
}

/// Whether a folder is that of a systemd unit, which is systemd's own unless it was delegated.
fn is_unit(folder: &Path) -> bool {
    let kind = folder.extension().and_then(|kind| kind.to_str());
    matches!(kind, Some("service" | "scope" | "slice"))
}

/// Whether systemd says that it gave the folder away.
fn is_delegated(folder: &Path) -> bool {
    let mut value = [0_u8; 1];
    let found = rustix::fs::getxattr(folder, "user.delegate", &mut value);
    found == Ok(1) && value == *b"1"
}

#[cfg(test)]
mod tests;
