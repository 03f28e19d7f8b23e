//! The runner port: the trait [`Runner`], the script and context that it takes, and its outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;
pub use toolbus_bus::Deadline;
pub use toolbus_bus::responder::CallKey;
pub use toolbus_wire::message::script::PRELUDE_BYTES_MAX;

use crate::files::{self, File, Produced};

/// Longest script text that a runner takes, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Longest input text that a runner takes, in bytes.
pub const INPUT_BYTES_MAX: usize = 4 << 20;
/// How much of each of stdout, stderr and the merged output is kept, in bytes.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Longest request of a script to its caller, and longest response, in bytes.
pub const CHANNEL_BODY_BYTES_MAX: usize = 1 << 20;
/// Most requests that one script has open at a time; it waits before it sends more.
pub const CHANNEL_OPEN_MAX: usize = 64;
/// Most packages that one script may ask for.
pub const PACKAGES_MAX: usize = 32;
/// How long before the call's deadline a script that has not started is given up, which leaves time
/// to report why. A tenth of the caller's timeout, where that is less.
const REPORT_GRACE: Duration = Duration::from_millis(500);

/// A Python script to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The source text, run as `__main__` and compiled under the name `<string>`.
    pub source: String,
    /// What the script reads from its environment as `ROCKBOT_INPUT`; empty when there is none.
    pub input: String,
    /// Wall time that the script may take, counted from its own start: what comes before (waiting,
    /// packages) does not eat it.
    pub timeout: Duration,
    /// Packages to have installed, as requirement strings (PEP 508), unchecked.
    pub packages: Vec<String>,
    /// Files that the script finds in its input folder.
    pub files: Vec<File>,
    /// Python source that is executed before the script, for one with a channel to its caller
    /// ([`Run::channel`]): it defines `run(source, descriptor, started)`, which is called to run
    /// the script, with a socket for the descriptor and with what must be called before the source
    /// is looked at. `supervisor/script.py` says what it finds, `supervisor/channel.py` what is
    /// written to the socket and read from it.
    pub prelude: Option<String>,
}

impl Script {
    /// Checks what no runner takes, before anything is started for it. Packages are each runner's
    /// own to check.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a text is too long, no environment can carry the input, or the files
    /// are over their limits.
    pub fn check(&self) -> Result<(), Error> {
        let invalid = |text: String| Err(Error::Invalid(text));
        if self.source.len() > SCRIPT_BYTES_MAX {
            return invalid(format!("the script is longer than {SCRIPT_BYTES_MAX} bytes"));
        }

        if self.input.len() > INPUT_BYTES_MAX {
            return invalid(format!("the input is longer than {INPUT_BYTES_MAX} bytes"));
        }

        if self.input.contains('\0') {
            return invalid(
                "the input contains a zero byte, which no environment can carry".to_owned(),
            );
        }

        let prelude = self.prelude.as_deref().unwrap_or_default();
        if prelude.len() > PRELUDE_BYTES_MAX {
            return invalid(format!("the prelude is longer than {PRELUDE_BYTES_MAX} bytes"));
        }

        files::check_inputs(&self.files).map_err(Error::Invalid)
    }
}

/// The context of one run: call, deadline, cancellation and live output.
pub struct Run {
    /// The call's id as its caller wrote it, of any length and content: for people who look for it.
    pub call_id: String,
    /// The requesting agent, as it names itself; empty when unknown.
    pub source: String,
    /// The key that identifies this call, also in another process.
    pub key: CallKey,
    /// The call was redelivered: a lost runner may have started its script, which must not be
    /// started again. Only runners that [adopt](Runner::adopts) get such calls.
    pub redelivered: bool,
    /// When the outcome is due. Waits before the script's start end earlier
    /// ([`Run::start_deadline`]), so that the caller learns in time why it has not started.
    pub deadline: Deadline,
    /// Fires when the outcome is no longer wanted; the runner kills the script at once.
    pub cancelled: CancellationToken,
    /// Answers the requests of a script with a prelude. Where there is none, each is answered with
    /// an error.
    pub channel: Option<Channel>,
    /// Receives live output. Called on the runner's own task, so it must not block. For an adopted
    /// script it receives all output from the beginning, in the same pieces.
    pub live: Option<LiveOutput>,
}

impl Run {
    /// The context of a standalone run: never cancelled, without live output or deadline.
    #[must_use]
    pub fn alone(call_id: &str) -> Self {
        Self {
            call_id: call_id.to_owned(),
            source: String::new(),
            key: CallKey::unique(),
            redelivered: false,
            deadline: Deadline::after(Duration::MAX),
            cancelled: CancellationToken::new(),
            channel: None,
            live: None,
        }
    }

    /// The deadline for the script to start. One that has not is given up, with the reason
    /// reported.
    #[must_use]
    pub fn start_deadline(&self) -> Instant {
        self.deadline.at() - self.report_grace()
    }

    /// The end of a wait of up to `limit` before the start: [`Run::start_deadline`] at the latest.
    #[must_use]
    pub fn wait_deadline(&self, limit: Duration) -> Instant {
        self.start_deadline().min(Instant::now() + limit)
    }

    /// The deadline for waiting in a queue: earlier than [`Run::start_deadline`], which leaves time
    /// for the waits that follow.
    #[must_use]
    pub fn queue_deadline(&self) -> Instant {
        self.deadline.for_next_hop().at() - self.report_grace()
    }

    /// The deadline for a script's turn: one that comes later leaves the script less than half of
    /// its own time, so that it would likely take a place from others and end without an outcome.
    #[must_use]
    pub fn turn_deadline(&self, script: &Script) -> Instant {
        self.queue_deadline().min(self.deadline.at() - script.timeout / 2)
    }

    /// Waits for a permit until the queue deadline.
    ///
    /// # Errors
    /// [`Error::Busy`] when it does not come by [`Run::queue_deadline`].
    pub async fn with_queue_deadline<T>(&self, turn: impl Future<Output = T>) -> Result<T, Error> {
        wait_for_permit(self.queue_deadline(), turn).await
    }

    fn report_grace(&self) -> Duration {
        REPORT_GRACE.min(self.deadline.asked() / 10)
    }
}

/// Waits for a permit until `by`.
///
/// # Errors
/// [`Error::Busy`] when it does not come by then.
pub(crate) async fn wait_for_permit<T>(
    by: Instant,
    permit: impl Future<Output = T>,
) -> Result<T, Error> {
    let start = Instant::now();
    timeout_at(by, permit).await.map_err(|_| {
        Error::Busy(format!("no other script made room within {:.1?}", start.elapsed()))
    })
}

/// The channel of a script to its caller, as a runner uses it. Clones are the same channel.
///
/// A request and its response are JSON texts of at most [`CHANNEL_BODY_BYTES_MAX`] each; a runner
/// looks at neither. It has at most [`CHANNEL_OPEN_MAX`] requests of a script open at a time.
#[derive(Clone)]
pub struct Channel(Arc<dyn Fn(u32, Bytes) -> BoxFuture<'static, Bytes> + Send + Sync>);

impl Channel {
    /// A channel that answers each request by a future of the response. It gets the request's
    /// number, which counts the requests of a script from 0 on, and its body. The future is dropped
    /// when the response is not wanted any more. A request whose future was dropped with its runner
    /// comes again with its number, from the runner that [adopts](Runner::adopts) the script.
    #[must_use]
    pub fn to<F, Fut>(answer: F) -> Self
    where
        F: Fn(u32, Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Bytes> + Send + 'static,
    {
        Self(Arc::new(move |number, body| Box::pin(answer(number, body))))
    }

    /// Sends a request, and waits for its response.
    #[must_use]
    pub fn request(&self, number: u32, body: Bytes) -> BoxFuture<'static, Bytes> {
        (self.0)(number, body)
    }
}

/// The response to a request that failed, as every runner and service writes it.
#[must_use]
pub fn error_response(code: &str, message: &str) -> Bytes {
    serde_json::json!({"error": {"code": code, "message": message}}).to_string().into()
}

/// Receives chunks of output while a script runs: valid UTF-8, in order of arrival.
pub type LiveOutput = Arc<dyn Fn(Stream, &str) + Send + Sync>;

/// One of the two streams that a script writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A stream's text as far as it was kept. Bytes that are not UTF-8 are replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captured {
    /// The first [`OUTPUT_BYTES_MAX`] bytes at most.
    pub text: String,
    /// Whether there was more.
    pub truncated: bool,
}

/// How a script ended: exit code, signal, timeout, out of memory or cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself with this exit code (0–255).
    Exited(i32),
    /// A signal ended it that this service did not send.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// It was killed at its timeout.
    TimedOut,
    /// It was killed for exceeding its memory limit: all of its processes, even when the kernel
    /// took only one, so that no process waits for the answer of a dead child.
    OutOfMemory,
    /// It was killed for holding too much of something that the kernel keeps memory for, and that
    /// memory limits do not count on every machine.
    TooMany(KernelObject),
    /// It was killed because its call was cancelled.
    Cancelled,
}

/// What the kernel keeps memory for on behalf of a script, and a runner counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KernelObject {
    /// Files and folders in the places that it may write.
    Files,
    /// Locks on files.
    FileLocks,
}

impl fmt::Display for KernelObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Files => "files",
            Self::FileLocks => "file locks",
        })
    }
}

/// Resource usage of a script: CPU time and peak memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// User and system time of all its processes.
    pub cpu: Duration,
    /// Most memory resident at one time, in bytes, as far as the runner saw it.
    pub memory_peak: u64,
}

/// The outcome of a script that was started: output, ending, usage and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// stdout and stderr merged in the order of arrival.
    pub output: Captured,
    /// stdout alone.
    pub stdout: Captured,
    /// stderr alone.
    pub stderr: Captured,
    /// How it ended.
    pub ending: Ending,
    /// Wall time from the script's start to its end.
    pub elapsed: Duration,
    /// What it used, when the runner can tell.
    pub usage: Option<Usage>,
    /// What it left in its output folder; nothing unless it ended by itself.
    pub produced: Produced,
}

/// Waits for a moment that may be set at any time, for ever where it never is.
pub async fn wait_for_moment(moment: &watch::Sender<Option<Instant>>) {
    let mut moment = moment.subscribe();
    match moment.wait_for(Option::is_some).await.ok().and_then(|moment| *moment) {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Why a script was not started, or its outcome could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request itself cannot be run; the text says why and is for the model.
    #[error("{0}")]
    Invalid(String),
    /// The packages could not be installed; the text ends with what the installer said.
    #[error("{0}")]
    Packages(String),
    /// The runner has no room.
    #[error("the script runner is busy: {0}")]
    Busy(String),
    /// The runner does not work here.
    #[error("running scripts is unavailable: {0}")]
    Unavailable(String),
    /// The call was cancelled before the script started.
    #[error("cancelled before the script started")]
    Cancelled,
    /// The runner failed.
    #[error("the script runner failed: {0}")]
    Failed(String),
    /// The script was started and its outcome was lost.
    #[error("the script was started and its outcome was lost: {0}")]
    OutcomeUnknown(String),
}

/// A place that runs scripts, each isolated from everything else.
pub trait Runner: Send + Sync + 'static {
    /// A short name for logs and metrics, such as `bubblewrap`.
    fn name(&self) -> &'static str;

    /// How the memory of scripts is bounded, for `/status`: `control group` or `sampled`. `None`
    /// where others see to it, such as a cluster.
    fn memory_accounting(&self) -> Option<&'static str> {
        None
    }

    /// Whether the runner can adopt the script of a call that a lost runner had started. Where it
    /// cannot, the outcome of such a call is unknown.
    fn adopts(&self) -> bool {
        false
    }

    /// Runs a script to its end. When the future is dropped the script is killed all the same,
    /// unless the runner [adopts](Runner::adopts) scripts and was told to leave it to another one.
    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>>;
}

#[cfg(test)]
mod tests;
