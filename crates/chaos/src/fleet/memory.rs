//! How much memory each process has had at the most, looked at while it runs.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::judge::MemoryPeak;

/// The kernel keeps the peak, so what is missed is only what comes right before a process's end.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// Looks at processes. Clones are the same; it ends with the last.
#[derive(Debug, Clone)]
pub(super) struct MemoryWatch {
    watched: Arc<Mutex<BTreeMap<u32, Watched>>>,
    _stop: Arc<DropGuard>,
}

#[derive(Debug)]
struct Watched {
    name: String,
    limit_mib: u64,
    peak_kib: u64,
}

impl MemoryWatch {
    pub(super) fn start() -> Self {
        let watched = Arc::new(Mutex::new(BTreeMap::new()));
        let stop = CancellationToken::new();
        let look = look_until(Arc::clone(&watched), stop.clone());
        TaskTracker::new().spawn(look);
        Self { watched, _stop: Arc::new(stop.drop_guard()) }
    }

    /// Looks at one more process.
    pub(super) fn add(&self, process: u32, name: &str, limit_mib: u64) {
        let watched = Watched { name: name.to_owned(), limit_mib, peak_kib: 0 };
        self.watched.lock().insert(process, watched);
    }

    pub(super) fn read_peaks(&self) -> Vec<MemoryPeak> {
        let watched = self.watched.lock();
        let peaks = watched.values().map(|process| MemoryPeak {
            process: process.name.clone(),
            peak_mib: process.peak_kib / 1024,
            limit_mib: process.limit_mib,
        });
        peaks.collect()
    }
}

async fn look_until(watched: Arc<Mutex<BTreeMap<u32, Watched>>>, stop: CancellationToken) {
    while tokio::time::timeout(LOOK_INTERVAL, stop.cancelled()).await.is_err() {
        for (process, watched) in watched.lock().iter_mut() {
            watched.peak_kib = watched.peak_kib.max(read_peak_kib(*process).unwrap_or(0));
        }
    }
}

/// The most resident memory that a process has had, or `None` when it has ended.
fn read_peak_kib(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().trim_end_matches(" kB").parse().ok()
}
