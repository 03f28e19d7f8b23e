//! What a benchmark started, it ends, also when it is broken off: processes, and what else it says
//! is to be put away.

use std::io::Read as _;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::benchmark::tell;
use super::process::descendants;

/// Set by whoever holds the standard input of a benchmark open for as long as it is to run.
const LIFELINE: &str = "TOOLBUS_BENCH_LIFELINE";
/// How long processes have to put away what is theirs, such as pods.
const END_GRACE: Duration = Duration::from_secs(30);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// What shells report of a program that was interrupted.
const INTERRUPTED: i32 = 130;

type CleanUp = Box<dyn FnOnce() -> anyhow::Result<()> + Send>;

static CLEAN_UPS: Mutex<Vec<CleanUp>> = Mutex::new(Vec::new());
static IS_UNDER_WAY: AtomicBool = AtomicBool::new(false);

/// Has something put away at the end of the benchmark, whichever end that is. A failure is told.
pub fn at_end(clean_up: impl FnOnce() -> anyhow::Result<()> + Send + 'static) {
    CLEAN_UPS.lock().push(Box::new(clean_up));
}

/// Puts everything away that is to be at the end.
pub(super) fn clean_up() {
    // One may take its time: the list is not locked meanwhile.
    let clean_ups = std::mem::take(&mut *CLEAN_UPS.lock());
    for clean_up in clean_ups.into_iter().rev() {
        if let Err(error) = clean_up() {
            tell(&format!("not put away: {error:#}"));
        }
    }
}

/// From here on, whoever breaks this process off has it end what it started first.
///
/// # Errors
/// When there is no thread or no signal to be had.
pub(super) fn watch() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let [mut interrupt, mut terminate, mut hang_up] = {
        let _entered = runtime.enter();
        let [one, two, three] = kinds.map(signal);
        [one?, two?, three?]
    };
    let watching = move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hang_up.recv() => {}
            }
        });
        end_all()
    };
    thread::Builder::new().name("signals".to_owned()).spawn(watching).context("a thread")?;

    if std::env::var_os(LIFELINE).is_some() {
        let watching = || {
            // An error is an end, too.
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            end_all()
        };
        thread::Builder::new().name("lifeline".to_owned()).spawn(watching).context("a thread")?;
    }
    Ok(())
}

/// Waits for the end of the process where it is being broken off: nothing new is to begin.
pub(super) fn wait_where_under_way() {
    while IS_UNDER_WAY.load(Ordering::SeqCst) {
        thread::sleep(LOOK_INTERVAL);
    }
}

/// Ends what this process started, then this process.
#[expect(clippy::disallowed_methods, reason = "what is measured does not look for an end")]
fn end_all() {
    if IS_UNDER_WAY.swap(true, Ordering::SeqCst) {
        return;
    }
    let processes = descendants(process::id());
    tell(&format!("broken off: ending {} processes", processes.len()));

    let end = Instant::now() + END_GRACE;
    let mut told = Vec::new();
    loop {
        let left = descendants(process::id());
        if left.is_empty() {
            break;
        }
        for process in left {
            if Instant::now() > end {
                send(process, Signal::KILL);
            } else if !told.contains(&process) {
                send(process, Signal::TERM);
                told.push(process);
            }
        }
        thread::sleep(LOOK_INTERVAL);
    }

    clean_up();
    process::exit(INTERRUPTED);
}

fn send(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    if let Some(process) = process {
        // Fails when it has just ended.
        let _ = kill_process(process, signal);
    }
}
