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
use toolbus_scripts::runner::{Ending, Error, LiveOutput, Outcome, Usage};

use crate::capture::Capture;
use crate::init::{Report, Reports};
use crate::launch::{Launched, Processes};
use crate::memory::{Guard, PERIOD};
use crate::process::WaitStatus;
use crate::workplace::Workplace;

/// How long output may come after the script's end, from processes it left behind.
const DRAIN: Duration = Duration::from_millis(200);
/// How long killed processes may take to be gone; it takes milliseconds.
const GONE: Duration = Duration::from_secs(5);
const COMPLAINT_BYTES_MAX: u64 = 2 << 10;

/// What to do with a launched interpreter.
pub(crate) struct Order {
    /// What the bootstrap reads.
    pub(crate) request: Vec<u8>,
    /// The folder that the script starts in, where it may leave files; good from its start on.
    pub(crate) workplace: Option<PathBuf>,
    pub(crate) timeout: Duration,
    pub(crate) start_timeout: Duration,
    pub(crate) cancelled: CancellationToken,
    pub(crate) live: Option<LiveOutput>,
    pub(crate) guard: Guard,
}

/// Why the waiting ended.
enum Stop {
    /// The script ended.
    Ended(WaitStatus),
    TimedOut,
    Cancelled,
    OutOfMemory,
    /// The sandbox ended before it reported the script's end.
    Lost(WaitStatus),
    /// The first process said something that it never says.
    Nonsense(String),
}

/// Runs the script of a launched interpreter.
pub(crate) async fn supervise(launched: Launched, order: Order) -> Result<Outcome, Error> {
    let Launched { processes, control, stdout, stderr, complaints, .. } = launched;
    let mut watch = Watch {
        capture: Capture::new(stdout, stderr, order.live),
        guard: Some(order.guard),
        started: None,
        workplace: order.workplace,
        held: None,
        sent: None,
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
        Limits { start: order.start_timeout, run: order.timeout, cancelled: order.cancelled };
    let stop = watch.until_stop(&mut processes, reader, send, &limits).await;
    let elapsed = watch.started.map(|started| started.elapsed());
    if matches!(stop, Stop::Ended(_)) {
        // What it left behind may still be writing.
        watch.drain().await;
    }
    let exceeded = watch.guard.as_mut().is_none_or(Guard::has_killed);
    let used = processes.end(GONE).await.map_err(|error| match elapsed {
        None => Error::Failed(error.to_string()),
        Some(_) => Error::OutcomeUnknown(error.to_string()),
    })?;
    // What was written before the end, and not yet read; with the writers gone there is an end.
    watch.drain().await;
    let peak = watch.guard.as_ref().map_or(0, Guard::peak);
    let (output, stdout, stderr) = watch.capture.finish();
    let Some(elapsed) = elapsed else {
        return Err(not_started(&stop, order.start_timeout, complaints, &stderr.text).await);
    };
    let ending = match stop {
        Stop::Nonsense(what) => return Err(Error::OutcomeUnknown(what)),
        // A sandbox with a control group is killed by the kernel, whole or in part.
        Stop::Ended(_) | Stop::Lost(_) if exceeded => Ending::OutOfMemory,
        Stop::Ended(status) | Stop::Lost(status) => ending(status),
        Stop::TimedOut => Ending::TimedOut,
        Stop::Cancelled => Ending::Cancelled,
        Stop::OutOfMemory => Ending::OutOfMemory,
    };
    let usage = Some(Usage { cpu: used.cpu, memory_peak: peak.max(used.memory_largest) });
    let produced = produced(&ending, watch.held).await;
    Ok(Outcome { output, stdout, stderr, ending, elapsed, usage, produced })
}

/// What a script left that ended by itself.
async fn produced(ending: &Ending, held: Option<io::Result<Workplace>>) -> Produced {
    let failed = |error: &dyn Display| {
        let mut collector = Collector::default();
        collector.refuse("*", &error.to_string());
        collector.finish()
    };
    match held {
        Some(held) if matches!(ending, Ending::Exited(_) | Ending::Killed { .. }) => match held {
            Ok(workplace) => tokio::task::spawn_blocking(move || workplace.collect())
                .await
                .unwrap_or_else(|error| failed(&error)),
            Err(error) => failed(&error),
        },
        _ => Produced::default(),
    }
}

fn ending(status: WaitStatus) -> Ending {
    match (status.exit_code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Killed { signal: signal.unwrap_or(libc::SIGKILL) },
    }
}

/// Times and the wish to stop.
struct Limits {
    start: Duration,
    run: Duration,
    cancelled: CancellationToken,
}

struct Watch {
    capture: Capture,
    /// Away while another thread looks.
    guard: Option<Guard>,
    started: Option<Instant>,
    /// Where the script starts, and the same held open, from its start on.
    workplace: Option<PathBuf>,
    held: Option<io::Result<Workplace>>,
    /// The socket's other half stays open after the request: its end would tell the first process
    /// that nobody listens.
    sent: Option<OwnedWriteHalf>,
}

impl Watch {
    /// Waits for the first reason to stop. Every arm only waits, and what it loses when another one
    /// comes first is found again: reads happen after readiness, `send` lives outside of the loop.
    async fn until_stop(
        &mut self,
        processes: &mut Processes,
        mut reader: OwnedReadHalf,
        send: impl Future<Output = OwnedWriteHalf>,
        limits: &Limits,
    ) -> Stop {
        let mut reports = Reports::default();
        let mut bytes = [0_u8; 64];
        let mut send = pin!(send);
        let mut deadline = Instant::now() + limits.start;
        let mut ticks = time::interval_at(Instant::now() + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            tokio::select! {
                biased;
                read = reader.read(&mut bytes) => match read {
                    Ok(count) if count > 0 => reports.accept(&bytes[..count]),
                    // The end, or a reset when it did not read all that it was sent.
                    _ => return lost(processes).await,
                },
                () = limits.cancelled.cancelled() => return Stop::Cancelled,
                () = time::sleep_until(deadline) => return Stop::TimedOut,
                _ = ticks.tick() => if self.started.is_some() && self.is_exceeded().await {
                    return Stop::OutOfMemory;
                },
                writer = &mut send, if self.sent.is_none() => self.sent = Some(writer),
                () = self.capture.pump(), if self.capture.is_open() => {}
            }
            while let Some(report) = reports.next() {
                match report {
                    Ok(Report::Started) if self.started.is_none() => {
                        let now = Instant::now();
                        self.started = Some(now);
                        deadline = now + limits.run;
                        self.held = self.workplace.as_deref().map(Workplace::hold);
                        if !self.guard.as_ref().is_some_and(Guard::works) {
                            return Stop::Nonsense("its memory cannot be watched".to_owned());
                        }
                    }
                    Ok(Report::Ended(status)) => return Stop::Ended(status),
                    Ok(Report::NotStarted(number)) => {
                        let error = io::Error::from_raw_os_error(number);
                        return Stop::Nonsense(format!("the interpreter cannot be run: {error}"));
                    }
                    other => return Stop::Nonsense(format!("an unexpected report: {other:?}")),
                }
            }
        }
    }

    /// Takes output until its end, or for a moment when somebody holds the pipes open.
    async fn drain(&mut self) {
        let end = Instant::now() + DRAIN;
        while self.capture.is_open() && time::timeout_at(end, self.capture.pump()).await.is_ok() {}
    }

    async fn is_exceeded(&mut self) -> bool {
        let Some(mut guard) = self.guard.take() else { return false };
        let looked = tokio::task::spawn_blocking(move || {
            let exceeded = guard.is_exceeded();
            (guard, exceeded)
        });
        match looked.await {
            Ok((guard, exceeded)) => {
                self.guard = Some(guard);
                exceeded
            }
            // Without an account there is no bound: as if it were exceeded.
            Err(_) => true,
        }
    }
}

/// The control socket is closed: the first process is gone.
async fn lost(processes: &mut Processes) -> Stop {
    match time::timeout(GONE, processes.ended()).await {
        Ok(Ok((status, _))) => Stop::Lost(status),
        Ok(Err(error)) => Stop::Nonsense(error.to_string()),
        Err(_) => Stop::Nonsense("the sandbox closed its socket and lives on".to_owned()),
    }
}

async fn not_started(
    stop: &Stop,
    limit: Duration,
    complaints: pipe::Receiver,
    stderr: &str,
) -> Error {
    let how = match stop {
        Stop::Cancelled => return Error::Cancelled,
        Stop::TimedOut => format!("it did not start within {limit:.1?}"),
        Stop::OutOfMemory => "out of memory before the script started".to_owned(),
        Stop::Nonsense(what) => what.clone(),
        Stop::Ended(status) | Stop::Lost(status) => match (status.exit_code(), status.signal()) {
            (Some(code), _) => format!("it ended with exit code {code} before the script started"),
            (None, signal) => {
                format!("signal {} ended it before the script started", signal.unwrap_or(0))
            }
        },
    };
    let mut said = Vec::new();
    let mut complaints = complaints.take(COMPLAINT_BYTES_MAX);
    // What was read until then is there, should somebody hold the pipe open.
    let _ = time::timeout(DRAIN, complaints.read_to_end(&mut said)).await;
    let said = [String::from_utf8_lossy(&said).trim(), stderr.trim()].join(" ");
    Error::Failed(format!("{how}: {}", said.trim()).trim_end_matches([':', ' ']).to_owned())
}
