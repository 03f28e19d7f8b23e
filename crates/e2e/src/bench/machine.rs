//! The machine that a benchmark ran on.

use std::fmt;
use std::fs;
use std::thread;

/// What is told of a machine beside numbers that were measured on it.
#[derive(Debug, Clone)]
pub struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    kernel: String,
    /// Load average of the last minute: whether others used the machine, too.
    load: String,
}

impl Machine {
    /// This machine, as it is now.
    #[must_use]
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let member = |text: &str, name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
                .map(|value| value.trim().to_owned())
        };

        let memory = member(&read("/proc/meminfo"), "MemTotal").unwrap_or_default();
        let memory_kib = memory.trim_end_matches(" kB").parse::<u64>().unwrap_or(0);
        Self {
            processor: member(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.div_ceil(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load: read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned(),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { processor, cores, memory_gib, kernel, load } = self;
        write!(
            f,
            "{processor}, {cores} cores, {memory_gib} GiB, Linux {kernel}, load {load} at the start"
        )
    }
}
