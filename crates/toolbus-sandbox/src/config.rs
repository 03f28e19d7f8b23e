//! What the operator may set.

use std::env;
use std::path::PathBuf;
use std::time::Duration;

use toolbus_scripts::supervisor::seccomp::Network;

/// Settings of the local runner. The services map their own configuration to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where bubblewrap is when it is not `/usr/bin/bwrap`. That path always comes first, because
    /// distributions bind their permission to create user namespaces to it.
    pub bwrap: Option<PathBuf>,
    /// The Python interpreter; `None` takes the `python3` that `PATH` finds.
    pub python: Option<PathBuf>,
    /// Further trees that scripts may read, each under its own path. Nothing secret may be in them.
    pub read_only_paths: Vec<PathBuf>,
    /// A folder that scripts share with the host, beside the work folder of their own.
    pub workspace: Option<Workspace>,
    /// Whether scripts reach the network, and with it the services of this machine.
    pub network: Network,
    /// What one script may use.
    pub limits: Limits,
    /// Most scripts that run at one time; at least 1.
    pub max_concurrent: usize,
    /// Most scripts that wait for their turn. One more is refused as busy.
    pub max_waiting: usize,
    /// How long a sandbox may take until the script itself starts.
    pub start_timeout: Duration,
    /// Whether a sandbox is started ahead for the next script. It takes some ten mebibytes.
    pub keep_ready: bool,
    /// How memory is measured and bounded.
    pub memory_accounting: MemoryAccounting,
    /// The user and group id that a service running as root becomes for its scripts: never 0.
    pub unprivileged_id: u32,
    /// How packages are resolved and kept.
    pub packages: PackagesConfig,
}

/// A folder of the host that scripts see under its own path. What they leave in it stays, and takes
/// up the host's disk: no limit but that of single files counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    /// Its real path: absolute, without links. Nothing that a sandbox is made of may be in it.
    pub path: PathBuf,
    /// Whether scripts may write there, with the rights of the user that they run as.
    pub is_writable: bool,
}

/// What one script may use. A limit in bytes or a count; none may be switched off.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all its processes and files together.
    pub memory_bytes: u64,
    /// Address space of each process. Far above the memory, because threads and libraries reserve
    /// much more than they use; it stops a single allocation that outruns the measuring.
    pub address_space_bytes: u64,
    /// Processes and threads.
    pub processes: u32,
    /// Open descriptors of each process.
    pub open_files: u32,
    /// The largest file that it may write.
    pub file_bytes: u64,
    /// Files and folders in all places that it may write, together. Counted twenty times a second.
    pub files: u32,
    /// Locks on files of all its processes together. Counted four times a second.
    pub file_locks: u32,
    /// Room in its work folder.
    pub work_bytes: u64,
    /// Room in `/tmp`.
    pub tmp_bytes: u64,
    /// Room in `/dev/shm`.
    pub shm_bytes: u64,
}

/// How memory is measured and bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAccounting {
    /// By the kernel, in a control group, where this service may make one; else sampled.
    Automatic,
    /// By looking at the script's processes and files twenty times a second. It overshoots by what
    /// a script can take in that time. Shared memory without a file is refused in pieces of more
    /// than 4 MiB, and each piece counts as that much. Data in pipes is not seen: it is bounded by
    /// the kernel's limit for a user (`fs.pipe-user-pages-soft`).
    Sampled,
}

/// How packages are resolved and kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackagesConfig {
    /// Where installed sets are kept, one folder for each; `None` refuses all packages. It is made
    /// for its owner alone.
    pub directory: Option<PathBuf>,
    /// What all sets may take up together, in bytes; the longest unused go first. While those in
    /// use take up all of it nothing is installed, so `max_concurrent` sets may exceed it, no more.
    pub cache_bytes: u64,
    /// What one set may take up, in bytes.
    pub set_bytes: u64,
    /// How long one installation may take.
    pub install_timeout: Duration,
    /// Most installations at one time.
    pub max_concurrent: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bwrap: None,
            python: None,
            read_only_paths: Vec::new(),
            workspace: None,
            network: Network::Denied,
            limits: Limits::default(),
            max_concurrent: 4,
            max_waiting: 16,
            start_timeout: Duration::from_secs(10),
            keep_ready: true,
            memory_accounting: MemoryAccounting::Automatic,
            unprivileged_id: 65534,
            packages: PackagesConfig::default(),
        }
    }
}

impl Default for Limits {
    /// The memory is that of a script's pod.
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            address_space_bytes: 4 << 30,
            processes: 64,
            open_files: 256,
            file_bytes: 64 << 20,
            files: 16_384,
            file_locks: 4096,
            work_bytes: 64 << 20,
            tmp_bytes: 64 << 20,
            shm_bytes: 16 << 20,
        }
    }
}

impl Default for PackagesConfig {
    /// Sets are kept in the user's cache folder (`XDG_CACHE_HOME`, else `~/.cache`).
    fn default() -> Self {
        let cache = env::var_os("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .or_else(|| env::home_dir().map(|home| home.join(".cache")));
        Self {
            directory: cache.map(|cache| cache.join("toolbus").join("packages")),
            cache_bytes: 4 << 30,
            set_bytes: 1 << 30,
            install_timeout: Duration::from_secs(120),
            max_concurrent: 2,
        }
    }
}
