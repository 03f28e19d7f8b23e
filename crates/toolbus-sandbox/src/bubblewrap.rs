//! Starts bubblewrap with a supervisor as the first process inside, and ends both.
//!
//! Invariants: the first process is named by a descriptor, never by its number alone; where it ends
//! all others of its namespace end; a sandbox whose handle is dropped is killed.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::Error;
use toolbus_scripts::supervisor::protocol::{Report, ReportReader, hello_message};
use toolbus_scripts::supervisor::{SupervisorInput, SupervisorLink, SupervisorOutput};

use crate::cgroup::ControlGroup;
use crate::recipe::BwrapOptions;
use crate::spawn::ProcessSpawner;

/// What the supervisor's lines begin with. Nobody else writes to its output.
const NONCE: &str = "local";
/// Most bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// How long killed processes may take to exit; it normally takes milliseconds.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How long, and how much, is read of what was written to standard error.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);
const STDERR_BYTES_MAX: u64 = 2 << 10;

/// Starts sandboxes.
pub(crate) struct Launcher {
    pub(crate) spawner: ProcessSpawner,
    pub(crate) bwrap: PathBuf,
    /// The user and group id to become first, where the service is root.
    pub(crate) become_id: Option<u32>,
    /// The interpreter, and the arguments with which it waits for its program.
    pub(crate) interpreter: Vec<OsString>,
}

/// What to launch.
pub(crate) struct LaunchSpec<'a> {
    pub(crate) options: BwrapOptions,
    /// The supervisor, as the interpreter takes it.
    pub(crate) program: &'a [u8],
    /// The control group to be in.
    pub(crate) group: Option<&'a ControlGroup>,
    /// When the supervisor must answer.
    pub(crate) by: Instant,
    pub(crate) cancelled: &'a CancellationToken,
}

/// A sandbox whose supervisor answers.
pub(crate) struct RunningSandbox {
    input: SandboxInput,
    output: SandboxOutput,
    reports: ReportReader,
    stderr: ChildStderr,
    /// bubblewrap, outside of the sandbox.
    bwrap: Child,
    /// The first process inside: all others end with it.
    first: Option<AsyncFd<OwnedFd>>,
}

/// The stream to a sandbox's supervisor.
pub(crate) struct SandboxInput(ChildStdin);

/// The stream from a sandbox's supervisor.
pub(crate) struct SandboxOutput(ChildStdout);

impl Launcher {
    /// Starts a sandbox and waits until its supervisor answers. `message` is sent to it at once, so
    /// that it is busy with that meanwhile; it may be empty.
    ///
    /// # Errors
    /// [`Error::Failed`] and [`Error::Cancelled`]; nothing of the sandbox is left then.
    pub(crate) async fn launch(
        &self,
        spec: LaunchSpec<'_>,
        message: &[u8],
    ) -> Result<RunningSandbox, Error> {
        let failed = |error: io::Error| Error::Failed(error.to_string());
        let start = Instant::now();
        let groups = spec.group.map(ControlGroup::group_handles).unwrap_or_default();
        let bwrap =
            self.spawner.spawn(self.command(&spec.options), groups).await.map_err(failed)?;
        let mut sandbox = RunningSandbox::new(bwrap).map_err(failed)?;

        let ready = tokio::select! {
            ready = sandbox.start_supervisor(&spec, message) => ready,
            () = time::sleep_until(spec.by) => {
                Err(format!("it did not start within {:.1?}", start.elapsed()))
            }
            () = spec.cancelled.cancelled() => {
                sandbox.end().await.map_err(failed)?;
                return Err(Error::Cancelled);
            }
        };

        match ready {
            Ok(()) => Ok(sandbox),
            Err(reason) => {
                sandbox.end().await.map_err(failed)?;
                Err(Error::Failed(sandbox.explain(&reason).await))
            }
        }
    }

    fn command(&self, options: &BwrapOptions) -> Command {
        let mut command = Command::new(&self.bwrap);
        command
            .args(&options.0)
            .arg("--")
            .args(&self.interpreter)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            // A signal for our group, such as Ctrl-C, is ours to act on.
            .process_group(0)
            .kill_on_drop(true);

        if let Some(id) = self.become_id {
            command.uid(id).gid(id);
        }

        command
    }
}

impl RunningSandbox {
    fn new(mut bwrap: Child) -> io::Result<Self> {
        let missing = || io::Error::other("a process was started without its pipes");
        let input = bwrap.stdin.take().ok_or_else(missing)?;
        let output = bwrap.stdout.take().ok_or_else(missing)?;
        let stderr = bwrap.stderr.take().ok_or_else(missing)?;
        let (input, output) = (SandboxInput(input), SandboxOutput(output));

        Ok(Self { input, output, reports: ReportReader::new(NONCE), stderr, bwrap, first: None })
    }

    /// Gives the interpreter its program, and waits until it answers.
    async fn start_supervisor(
        &mut self,
        spec: &LaunchSpec<'_>,
        message: &[u8],
    ) -> Result<(), String> {
        let request = [spec.program, &hello_message(NONCE), message].concat();
        // Where it ended instead, its output says so.
        let _ = self.input.send(&request.into()).await;

        loop {
            let bytes = self.output.receive().await?;
            let reports = self.reports.accept(&bytes).map_err(|error| error.to_string())?;
            if reports.contains(&Report::Ready) {
                break;
            }
        }

        self.find_first().map_err(|error| format!("its first process: {error}"))?;
        let Some(group) = spec.group else { return Ok(()) };
        self.enter_group(group).await.map_err(|error| format!("its control group: {error}"))
    }

    /// Opens a descriptor of the first process. Its number is its own while bubblewrap, its parent,
    /// has not waited for it.
    fn find_first(&mut self) -> io::Result<()> {
        let gone = || io::Error::other("it is gone already");
        let bwrap = self.bwrap.id().ok_or_else(gone)?;
        let first = *child_ids(bwrap)?.first().ok_or_else(gone)?;

        let pid = Pid::from_raw(first.cast_signed()).ok_or_else(gone)?;
        let descriptor = pidfd_open(pid, PidfdFlags::empty())?;
        if child_ids(bwrap)?.first() != Some(&first) {
            return Err(gone());
        }

        self.first = Some(watch_process(descriptor)?);
        Ok(())
    }

    /// Moves what has started by now into the group, where it has not started in it.
    async fn enter_group(&self, group: &ControlGroup) -> io::Result<()> {
        let Some(bwrap) = self.bwrap.id() else { return Ok(()) };
        let mut inside = child_ids(bwrap)?;
        for first in inside.clone() {
            inside.extend(child_ids(first)?);
        }
        group.attach_processes(inside).await
    }

    /// The streams to and from its supervisor.
    pub(crate) fn link(&mut self) -> SupervisorLink<'_, SandboxInput, SandboxOutput> {
        let Self { input, output, reports, .. } = self;
        SupervisorLink { input, output, reports }
    }

    /// Whether it still waits. One that has ended by itself will run nothing.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.bwrap.try_wait(), Ok(None))
    }

    /// Kills everything inside and waits until the last process has exited.
    pub(crate) async fn end(&mut self) -> io::Result<()> {
        self.kill();

        let gone = async {
            if let Some(first) = &self.first {
                let _guard = first.readable().await?;
            }
            self.bwrap.wait().await.map(drop)
        };
        time::timeout(KILL_TIMEOUT, gone)
            .await
            .unwrap_or_else(|_| Err(io::Error::other("killed processes of a sandbox live on")))
    }

    fn kill(&mut self) {
        // A process that has exited already is no error.
        match &self.first {
            Some(first) => _ = pidfd_send_signal(first.get_ref(), Signal::KILL),
            None => _ = self.bwrap.start_kill(),
        }
    }

    /// A reason, with what bubblewrap and the supervisor said. Call it after the end.
    pub(crate) async fn explain(&mut self, reason: &str) -> String {
        let mut said = Vec::new();
        let mut stderr = (&mut self.stderr).take(STDERR_BYTES_MAX);

        // What was read until then is there, should somebody hold the pipe open.
        let _ = time::timeout(STDERR_TIMEOUT, stderr.read_to_end(&mut said)).await;
        let said = String::from_utf8_lossy(&said);

        format!("{reason}: {}", said.trim()).trim_end_matches([':', ' ']).to_owned()
    }
}

impl Drop for RunningSandbox {
    fn drop(&mut self) {
        self.kill();
    }
}

impl SupervisorInput for SandboxInput {
    async fn send(&mut self, message: &Bytes) -> io::Result<()> {
        self.0.write_all(message).await
    }
}

impl SupervisorOutput for SandboxOutput {
    async fn receive(&mut self) -> Result<Bytes, String> {
        let mut bytes = BytesMut::with_capacity(READ_BYTES);
        match self.0.read_buf(&mut bytes).await {
            Ok(0) => Err("the sandbox ended".to_owned()),
            Ok(_) => Ok(bytes.freeze()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[allow(unsafe_code)]
fn watch_process(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` always gives the same descriptor, and it stays open until it is dropped
    // with the registration.
    let registered = unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) };
    registered.map_err(io::Error::from)
}

/// The numbers of a process's children, out here.
fn child_ids(parent: u32) -> io::Result<Vec<u32>> {
    let list = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?;
    Ok(list.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}
