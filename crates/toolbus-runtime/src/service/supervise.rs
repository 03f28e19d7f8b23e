//! Waits for the work and for signals, and brings the work to its end in order.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use toolbus_config::{TimeSpan, on_one_line};

use super::{BoxError, Context, Exit, Role, Work};
use crate::report;

/// How long work that is over its grace may take to give the rest back.
const CUT_OFF_TIMEOUT: Duration = Duration::from_secs(2);

/// A signal that asks for a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    Interrupt,
    Terminate,
}

impl Signal {
    /// Its name, as the system has it.
    fn name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// The exit code that shells know for an end by this signal.
    fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit(128 + 2),
            Self::Terminate => Exit(128 + 15),
        }
    }
}

/// Where signals come from. Dropping a wait loses no signal.
pub(super) trait Signals {
    fn next(&mut self) -> impl Future<Output = Signal> + Send;
}

/// Those that the system sends to this process.
pub(super) struct OsSignals {
    /// `None`: the work hears it itself.
    interrupt: Option<unix::Signal>,
    terminate: unix::Signal,
}

impl OsSignals {
    pub(super) fn listen(role: Role) -> io::Result<Self> {
        let interrupt = match role {
            Role::Service | Role::Command => Some(unix::signal(SignalKind::interrupt())?),
            Role::Conversation => None,
        };
        Ok(Self { interrupt, terminate: unix::signal(SignalKind::terminate())? })
    }
}

impl Signals for OsSignals {
    async fn next(&mut self) -> Signal {
        let Self { interrupt, terminate } = self;
        let interrupted = async {
            match interrupt {
                Some(interrupt) => interrupt.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = interrupted => Signal::Interrupt,
            _ = terminate.recv() => Signal::Terminate,
        }
    }
}

/// How it all ended.
#[derive(Debug)]
pub(super) enum Ended {
    /// The work returned; a signal had asked it to, or none had.
    Returned(Exit, Option<Signal>),
    /// The work returned an error or panicked, whether a signal had asked it to end or not; or it
    /// never began.
    Failed(BoxError, Option<Signal>),
    /// Work was still running when its time was up.
    CutOff,
    /// A second signal came.
    Forced(Signal),
}

/// How a failure is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureFormat {
    /// As text on standard error.
    Text,
    /// As a line of the log.
    LogLine,
}

impl Ended {
    pub(super) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(..))
    }

    pub(super) fn is_forced(&self) -> bool {
        matches!(self, Self::Forced(_))
    }

    /// The exit code; tells a failure on the way.
    pub(super) fn exit(self, role: Role, format: FailureFormat) -> Exit {
        match self {
            Self::Returned(_, Some(signal)) if role != Role::Service => signal.exit(),
            Self::Returned(exit, _) => exit,
            Self::Failed(error, signal) => {
                match format {
                    FailureFormat::Text => report::print_error_chain(&*error),
                    FailureFormat::LogLine => {
                        tracing::error!(error = on_one_line(&*error), "process failed");
                    }
                }
                let interrupted = signal.filter(|_| role != Role::Service);
                interrupted.map_or(Exit::FAILURE, Signal::exit)
            }
            Self::CutOff => Exit::FAILURE,
            Self::Forced(signal) => signal.exit(),
        }
    }
}

/// How a wait for all work ended.
enum Drained {
    Yes,
    No,
    Forced(Signal),
}

/// Supervises the work of one process.
pub(super) struct Supervisor<'a, S> {
    work: JoinHandle<Result<Exit, BoxError>>,
    outcome: Option<Result<Exit, BoxError>>,
    signals: S,
    context: &'a Context,
    grace: Duration,
}

impl<'a, S: Signals> Supervisor<'a, S> {
    /// Starts the work, on the runtime's own threads: work that blocks one of them does not keep
    /// signals from being heard.
    pub(super) fn new(work: Work, signals: S, context: &'a Context, grace: Duration) -> Self {
        let work = context.shutdown.tasks().spawn(work);
        Self { work, outcome: None, signals, context, grace }
    }

    /// Waits until the work has ended by itself or was brought to its end.
    pub(super) async fn run(&mut self) -> Ended {
        // Both arms only wait; the handle and the signals keep what they have when dropped.
        let signal = tokio::select! {
            outcome = &mut self.work => {
                self.outcome = Some(outcome.unwrap_or_else(|panic| Err(panic.into())));
                None
            }
            signal = self.signals.next() => Some(signal),
        };

        if let Some(signal) = signal {
            let grace = TimeSpan::from(self.grace);
            tracing::info!(signal = signal.name(), %grace, "stopping the service");
        }

        self.context.health.stop();
        self.context.shutdown.tasks().close();
        self.context.shutdown.requested().cancel();

        match self.drain(self.grace).await {
            Drained::Yes => self.take_outcome(signal),
            Drained::Forced(signal) => Ended::Forced(signal),
            Drained::No => self.cut_off(signal).await,
        }
    }

    /// Waits for `end`, or for a signal that says not to wait any longer.
    pub(super) async fn or_signal(&mut self, end: impl Future<Output = ()>) {
        tokio::select! {
            () = end => {}
            _ = self.signals.next() => {}
        }
    }

    async fn cut_off(&mut self, signal: Option<Signal>) -> Ended {
        let running = self.context.shutdown.tasks().len();
        tracing::warn!(running, "shutdown grace is over: cutting off running work");
        self.context.shutdown.overdue().cancel();

        match self.drain(CUT_OFF_TIMEOUT).await {
            Drained::Forced(signal) => return Ended::Forced(signal),
            Drained::Yes => {}
            Drained::No => {
                let running = self.context.shutdown.tasks().len();
                tracing::warn!(running, "tasks do not end and are left");
            }
        }

        match self.outcome.take() {
            Some(Err(error)) => Ended::Failed(error, signal),
            _ => Ended::CutOff,
        }
    }

    async fn drain(&mut self, limit: Duration) -> Drained {
        let Self { work, outcome, signals, context, .. } = self;
        let all = async {
            if outcome.is_none() {
                let joined = work.await;
                *outcome = Some(joined.unwrap_or_else(|panic| Err(panic.into())));
            }
            context.shutdown.tasks().wait().await;
        };

        // Dropping `all` half-way loses nothing: the outcome is stored as soon as it is there.
        tokio::select! {
            drained = timeout(limit, all) => if drained.is_ok() { Drained::Yes } else { Drained::No },
            signal = signals.next() => Drained::Forced(signal),
        }
    }

    fn take_outcome(&mut self, signal: Option<Signal>) -> Ended {
        match self.outcome.take() {
            Some(Ok(exit)) => Ended::Returned(exit, signal),
            Some(Err(error)) => Ended::Failed(error, signal),
            None => Ended::CutOff,
        }
    }
}
