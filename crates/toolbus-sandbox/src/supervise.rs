//! One script from its start to the last of its processes.
//!
//! Invariants: whatever happens, every process is killed and gone before the outcome is told; the
//! clock runs from the moment the script starts; what it wrote before it was killed is kept.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::{self, Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::files::{Collector, Produced};
use toolbus_scripts::runner::{Ending, Error, KernelObject, LiveOutput, Outcome, Usage};

use crate::capture::OutputCapture;
use crate::init::{InitReport, ReportReader};
use crate::kernel_objects::KernelObjectWatch;
use crate::launch::{LaunchedProgram, ScriptProcesses};
use crate::memory_limit::{MemoryGuard, SAMPLE_INTERVAL};
use crate::process::WaitStatus;
use crate::work_folder::WorkFolder;

/// How long to read output after the script's end, from processes that it left behind.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);
/// How long killed processes may take to exit; it normally takes milliseconds.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
const BWRAP_STDERR_BYTES_MAX: u64 = 2 << 10;

/// Instructions for supervising a launched interpreter: request, timeouts, limits.
pub(crate) struct RunOrder {
    /// What the bootstrap reads.
    pub(crate) request: Vec<u8>,
    /// The folder that the script starts in, where it may leave files; good from its start on.
    pub(crate) work_folder: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) start_timeout: Duration,
    pub(crate) cancelled: CancellationToken,
    pub(crate) live: Option<LiveOutput>,
    pub(crate) guard: MemoryGuard,
    pub(crate) objects: KernelObjectWatch,
}

/// Why supervision stopped waiting.
enum StopReason {
    /// The script ended.
    ScriptEnded(WaitStatus),
    TimedOut,
    Cancelled,
    OutOfMemory,
    TooMany(KernelObject),
    /// The sandbox ended before it reported the script's end.
    SandboxLost(WaitStatus),
    /// The first process sent a report that it must not send.
    InvalidReport(String),
}

/// Runs the script of a launched interpreter.
pub(crate) async fn supervise(
    launched: LaunchedProgram,
    order: RunOrder,
) -> Result<Outcome, Error> {
    let LaunchedProgram { processes, control, stdout, stderr, bwrap_stderr, .. } = launched;
    let mut watch = ScriptWatch {
        capture: OutputCapture::new(stdout, stderr, order.live),
        guard: Some(order.guard),
        objects: Some(order.objects),
        started: None,
        work_folder_path: order.work_folder,
        work_folder: None,
        request_writer: None,
    };

    // Declared after the guard, so that they are gone before it, whatever happens.
    let mut processes = processes;
    let (reader, mut writer) = control.into_split();

    // A sandbox that ends early does not read to the end, and is noticed by its own report.
    let send = async move {
        let _ = writer.write_all(&order.request).await;
        drop(order.request);
        writer
    };

    let limits =
        RunLimits { start: order.start_timeout, run: order.timeout, cancelled: order.cancelled };
    let stop = watch.wait_for_stop(&mut processes, reader, send, &limits).await;
    let elapsed = watch.started.map(|started| started.elapsed());

    if matches!(stop, StopReason::ScriptEnded(_)) {
        // What it left behind may still be writing.
        watch.drain_output().await;
    }

    let exceeded = watch.guard.as_ref().is_none_or(MemoryGuard::has_oom_killed);
    let used = processes.kill_and_wait(KILL_TIMEOUT).await.map_err(|error| match elapsed {
        None => Error::Failed(error.to_string()),
        Some(_) => Error::OutcomeUnknown(error.to_string()),
    })?;

    // What was written before the end, and not yet read; with the writers gone there is an end.
    watch.drain_output().await;

    let peak = watch.guard.as_ref().map_or(0, MemoryGuard::peak);
    let (output, stdout, stderr) = watch.capture.finish();
    let Some(elapsed) = elapsed else {
        return Err(start_error(&stop, order.start_timeout, bwrap_stderr, &stderr.text).await);
    };

    let ending = match stop {
        StopReason::InvalidReport(what) => return Err(Error::OutcomeUnknown(what)),
        // A sandbox with a control group is killed by the kernel, whole or in part.
        StopReason::ScriptEnded(_) | StopReason::SandboxLost(_) if exceeded => Ending::OutOfMemory,
        StopReason::ScriptEnded(status) | StopReason::SandboxLost(status) => ending_of(status),
        StopReason::TimedOut => Ending::TimedOut,
        StopReason::Cancelled => Ending::Cancelled,
        StopReason::OutOfMemory => Ending::OutOfMemory,
        StopReason::TooMany(object) => Ending::TooMany(object),
    };

    let usage = Some(Usage { cpu: used.cpu, memory_peak: peak.max(used.memory_largest) });
    let produced = collect_produced(&ending, watch.work_folder).await;

    Ok(Outcome { output, stdout, stderr, ending, elapsed, usage, produced })
}

/// Collects the files of a script that ended by itself.
async fn collect_produced(ending: &Ending, held: Option<io::Result<WorkFolder>>) -> Produced {
    let failed = |error: &dyn Display| {
        let mut collector = Collector::default();
        collector.refuse("*", &error.to_string());
        collector.finish()
    };
    match held {
        Some(held) if matches!(ending, Ending::Exited(_) | Ending::Killed { .. }) => match held {
            Ok(work_folder) => tokio::task::spawn_blocking(move || work_folder.collect_output())
                .await
                .unwrap_or_else(|error| failed(&error)),
            Err(error) => failed(&error),
        },
        _ => Produced::default(),
    }
}

fn ending_of(status: WaitStatus) -> Ending {
    match (status.exit_code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed { signal: signal.unwrap_or(libc::SIGKILL) },
    }
}

/// Timeouts and cancellation of one run.
struct RunLimits {
    start: Duration,
    run: Duration,
    cancelled: CancellationToken,
}

struct ScriptWatch {
    capture: OutputCapture,
    /// Both are taken while a blocking thread looks.
    guard: Option<MemoryGuard>,
    objects: Option<KernelObjectWatch>,
    started: Option<Instant>,
    /// Path of the work folder, and the folder held open from the script's start on.
    work_folder_path: Option<PathBuf>,
    work_folder: Option<io::Result<WorkFolder>>,
    /// The write half stays open after the request: closing it would tell the first process that
    /// the service is gone.
    request_writer: Option<OwnedWriteHalf>,
}

impl ScriptWatch {
    /// Waits for the first reason to stop. Every arm only waits, and what it loses when another one
    /// comes first is found again: reads happen after readiness, `send` lives outside of the loop.
    async fn wait_for_stop(
        &mut self,
        processes: &mut ScriptProcesses,
        mut reader: OwnedReadHalf,
        send: impl Future<Output = OwnedWriteHalf>,
        limits: &RunLimits,
    ) -> StopReason {
        let mut reports = ReportReader::default();
        let mut bytes = [0_u8; 64];
        let mut send = pin!(send);
        let mut deadline = Instant::now() + limits.start;
        let mut ticks = time::interval_at(Instant::now() + SAMPLE_INTERVAL, SAMPLE_INTERVAL);

        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);

        loop {
            tokio::select! {
                biased;
                read = reader.read(&mut bytes) => match read {
                    Ok(count) if count > 0 => reports.push_bytes(&bytes[..count]),
                    // The end, or a reset when it did not read all that it was sent.
                    _ => return await_lost_sandbox(processes).await,
                },
                () = limits.cancelled.cancelled() => return StopReason::Cancelled,
                () = time::sleep_until(deadline) => return StopReason::TimedOut,
                _ = ticks.tick() => if self.started.is_some()
                    && let Some(reason) = self.check_limits().await
                {
                    return reason;
                },
                writer = &mut send, if self.request_writer.is_none() => self.request_writer = Some(writer),
                () = self.capture.pump_output(), if self.capture.is_open() => {}
            }
            while let Some(report) = reports.next_report() {
                match report {
                    Ok(InitReport::Started) if self.started.is_none() => {
                        let now = Instant::now();
                        self.started = Some(now);
                        deadline = now + limits.run;
                        self.work_folder = self.work_folder_path.as_deref().map(WorkFolder::open);

                        if !self.guard.as_ref().is_some_and(MemoryGuard::can_see_script) {
                            return StopReason::InvalidReport(
                                "its memory cannot be watched".to_owned(),
                            );
                        }
                    }
                    Ok(InitReport::Ended(status)) => return StopReason::ScriptEnded(status),
                    Ok(InitReport::NotStarted(number)) => {
                        let error = io::Error::from_raw_os_error(number);
                        return StopReason::InvalidReport(format!(
                            "the interpreter cannot be run: {error}"
                        ));
                    }
                    other => {
                        return StopReason::InvalidReport(format!(
                            "an unexpected report: {other:?}"
                        ));
                    }
                }
            }
        }
    }

    /// Reads output to its end, or until a short timeout while a process holds the pipes open.
    async fn drain_output(&mut self) {
        let end = Instant::now() + DRAIN_TIMEOUT;
        while self.capture.is_open()
            && time::timeout_at(end, self.capture.pump_output()).await.is_ok()
        {}
    }

    /// Looks whether the script holds more than it may.
    async fn check_limits(&mut self) -> Option<StopReason> {
        let (mut guard, mut objects) = (self.guard.take()?, self.objects.take()?);

        let looked = tokio::task::spawn_blocking(move || {
            let exceeded = guard.check_exceeded();
            let too_many = objects.find_exceeded();
            (guard, objects, exceeded, too_many)
        });

        // Without accounting there is no bound, so treat it as exceeded.
        let Ok((guard, objects, exceeded, too_many)) = looked.await else {
            return Some(StopReason::OutOfMemory);
        };
        self.guard = Some(guard);
        self.objects = Some(objects);

        let out_of_memory = exceeded.then_some(StopReason::OutOfMemory);
        out_of_memory.or(too_many.map(StopReason::TooMany))
    }
}

/// Waits for the exit status after the control socket closed: the first process is gone.
async fn await_lost_sandbox(processes: &mut ScriptProcesses) -> StopReason {
    match time::timeout(KILL_TIMEOUT, processes.wait_ended()).await {
        Ok(Ok((status, _))) => StopReason::SandboxLost(status),
        Ok(Err(error)) => StopReason::InvalidReport(error.to_string()),
        Err(_) => {
            StopReason::InvalidReport("the sandbox closed its socket and lives on".to_owned())
        }
    }
}

async fn start_error(
    stop: &StopReason,
    limit: Duration,
    bwrap_stderr: pipe::Receiver,
    stderr: &str,
) -> Error {
    let how = match stop {
        StopReason::Cancelled => return Error::Cancelled,
        StopReason::TimedOut => format!("it did not start within {limit:.1?}"),
        StopReason::OutOfMemory => "out of memory before the script started".to_owned(),
        StopReason::TooMany(object) => format!("too many {object} before the script started"),
        StopReason::InvalidReport(what) => what.clone(),
        StopReason::ScriptEnded(status) | StopReason::SandboxLost(status) => {
            match (status.exit_code(), status.signal()) {
                (Some(code), _) => {
                    format!("it ended with exit code {code} before the script started")
                }
                (None, signal) => {
                    format!("signal {} ended it before the script started", signal.unwrap_or(0))
                }
            }
        }
    };

    let mut said = Vec::new();
    let mut bwrap_stderr = bwrap_stderr.take(BWRAP_STDERR_BYTES_MAX);

    // What was read until then is there, should somebody hold the pipe open.
    let _ = time::timeout(DRAIN_TIMEOUT, bwrap_stderr.read_to_end(&mut said)).await;
    let said = [String::from_utf8_lossy(&said).trim(), stderr.trim()].join(" ");

    Error::Failed(format!("{how}: {}", said.trim()).trim_end_matches([':', ' ']).to_owned())
}
