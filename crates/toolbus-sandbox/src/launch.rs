//! Starts one sandboxed program and hands out its pipes.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::c_string::c_string;
use crate::cgroup::ControlGroup;
use crate::init::{self, fds};
use crate::process::{ChildProcess, PidFd, ProcessUsage, WaitStatus};
use crate::recipe::BwrapOptions;
use crate::spawn::{ProcessSpawner, SpawnPlan};

/// Descriptors of bubblewrap alone, above those of `init::fds`.
const FILTER: RawFd = 6;
const INFO: RawFd = 7;
const GATE: RawFd = 8;
const INIT: RawFd = 9;
/// Upper bound on what bubblewrap reports, normally a few hundred bytes.
const INFO_BYTES_MAX: u64 = 16 << 10;

/// Starts programs in bubblewrap.
pub(crate) struct Launcher {
    spawner: ProcessSpawner,
    bwrap: CString,
    become_id: Option<u32>,
    init: OwnedFd,
    null: File,
}

/// What to launch: program, environment, limits and isolation options.
pub(crate) struct LaunchSpec<'a> {
    /// Options of bubblewrap.
    pub(crate) options: BwrapOptions,
    /// The system calls that are refused, as a sealed file.
    pub(crate) filter: &'a OwnedFd,
    /// The environment of the program.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// The program and its arguments.
    pub(crate) command: Vec<CString>,
    /// Most processes and threads.
    pub(crate) processes_max: u32,
    /// Limits of each process, as the kernel's numbers and values.
    pub(crate) limits: Vec<(libc::c_int, u64)>,
    /// The control group to start it in.
    pub(crate) group: Option<&'a ControlGroup>,
}

/// A launched program, blocked before its first instruction until [`LaunchedProgram::open_gate`].
pub(crate) struct LaunchedProgram {
    pub(crate) processes: ScriptProcesses,
    pub(crate) control: UnixStream,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    /// Standard error of bubblewrap itself.
    pub(crate) bwrap_stderr: pipe::Receiver,
    gate: Option<PipeWriter>,
}

impl LaunchedProgram {
    /// Lets the program start, now that it is under its limits.
    pub(crate) fn open_gate(&mut self) {
        // bubblewrap takes end of file as permission to go on.
        drop(self.gate.take());
    }
}

impl Launcher {
    /// A launcher of programs by `bwrap`, as the user and group `become_id` where the service is
    /// root.
    pub(crate) fn new(
        spawner: ProcessSpawner,
        bwrap: CString,
        become_id: Option<u32>,
    ) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Self { spawner, bwrap, become_id, init: init::program_file()?, null })
    }

    /// The user and group id of its programs, when it is not this service's own.
    pub(crate) fn become_id(&self) -> Option<u32> {
        self.become_id
    }

    pub(crate) async fn launch(&self, launch: LaunchSpec<'_>) -> io::Result<LaunchedProgram> {
        let (control, theirs) = StdUnixStream::pair()?;
        control.set_nonblocking(true)?;

        let (stdout, stdout_theirs) = io::pipe()?;
        let (stderr, stderr_theirs) = io::pipe()?;
        let (bwrap_stderr, bwrap_stderr_theirs) = io::pipe()?;

        let (info, info_theirs) = io::pipe()?;
        let (gate_theirs, gate) = io::pipe()?;
        // Of its own, because readers of one file share their place in it.
        let filter = File::open(format!("/proc/self/fd/{}", launch.filter.as_raw_fd()))?;

        let descriptors: Vec<(OwnedFd, RawFd)> = vec![
            (self.null.try_clone()?.into(), 0),
            (self.null.try_clone()?.into(), 1),
            (bwrap_stderr_theirs.into(), 2),
            (theirs.into(), fds::CONTROL),
            (stdout_theirs.into(), fds::STDOUT),
            (stderr_theirs.into(), fds::STDERR),
            (self.init.try_clone()?, INIT),
            (info_theirs.into(), INFO),
            (gate_theirs.into(), GATE),
            (filter.into(), FILTER),
        ];

        let plan = self.spawn_plan(launch, descriptors)?;
        let process = ChildProcess::new(self.spawner.spawn(plan).await?)?;
        let mut processes = ScriptProcesses { process, first: None };
        processes.find_first_process(info).await?;

        Ok(LaunchedProgram {
            processes,
            control: UnixStream::from_std(control)?,
            stdout: async_receiver(stdout)?,
            stderr: async_receiver(stderr)?,
            bwrap_stderr: async_receiver(bwrap_stderr)?,
            gate: Some(gate),
        })
    }

    fn spawn_plan(
        &self,
        launch: LaunchSpec<'_>,
        descriptors: Vec<(OwnedFd, RawFd)>,
    ) -> io::Result<SpawnPlan> {
        let mut options = launch.options;
        for (name, value) in &launch.environment {
            options.push([&"--setenv", name, value]);
        }

        options
            .push([&"--seccomp", &FILTER.to_string()])
            .push([&"--info-fd", &INFO.to_string(), &"--block-fd", &GATE.to_string()])
            .push([&"--"]);

        // bubblewrap has no option for another name than the program's path.
        let init = c_string(format!("/proc/self/fd/{INIT}"))?;
        let command = init::command_line(launch.processes_max, launch.command)?;
        let command = [init].into_iter().chain(command.into_iter().skip(1));

        Ok(SpawnPlan {
            program: self.bwrap.clone(),
            arguments: [self.bwrap.clone()]
                .into_iter()
                .map(Ok)
                .chain(options.0.iter().map(c_string))
                .chain(command.map(Ok))
                .collect::<io::Result<_>>()?,
            environment: Vec::new(),
            descriptors,
            limits: launch.limits,
            become_id: self.become_id,
            directory: c"/".to_owned(),
            group_handles: launch.group.map(ControlGroup::group_handles).unwrap_or_default(),
        })
    }
}

fn async_receiver(pipe: PipeReader) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(pipe.into())
}

/// All processes of one run.
#[derive(Debug)]
pub(crate) struct ScriptProcesses {
    /// Our own child: bubblewrap.
    process: ChildProcess,
    /// The first process of the namespace: all others end with it.
    first: Option<(libc::pid_t, PidFd)>,
}

impl ScriptProcesses {
    /// The first process of the sandbox, by its number out here.
    pub(crate) fn first_pid(&self) -> libc::pid_t {
        self.first.as_ref().map_or_else(|| self.process.pid(), |(pid, _)| *pid)
    }

    /// Waits for our child's end. It comes when the script's has been reported and all are killed,
    /// or before, when something else killed them. Cancel-safe.
    pub(crate) async fn wait_ended(&mut self) -> io::Result<(WaitStatus, ProcessUsage)> {
        self.process.wait().await
    }

    /// Kills all processes and waits until the last has exited.
    pub(crate) async fn kill_and_wait(&mut self, limit: Duration) -> io::Result<ProcessUsage> {
        self.kill_all();

        // bubblewrap reaps the first process and ends by itself, which gives what all have used.
        if tokio::time::timeout(limit, self.process.wait()).await.is_err() {
            self.process.kill();
        }

        let (_, usage) = self.process.wait().await?;
        if let Some((_, first)) = &self.first {
            // Already so, unless bubblewrap was killed by somebody else.
            let _ = tokio::time::timeout(limit, first.wait_ended()).await;
        }

        Ok(usage)
    }

    fn kill_all(&self) {
        match &self.first {
            Some((_, first)) => first.kill(),
            None => self.process.kill(),
        }
    }

    /// Reads the pid of the first process from bubblewrap's report and opens a pidfd for it.
    async fn find_first_process(&mut self, info: PipeReader) -> io::Result<()> {
        let mut text = String::new();
        async_receiver(info)?.take(INFO_BYTES_MAX).read_to_string(&mut text).await?;

        // Without it, bubblewrap failed, and says why on its standard error.
        let Some(pid) = parse_child_pid(&text) else { return Ok(()) };
        let first = PidFd::open(pid)?;

        // The number is that process's own only while bubblewrap, its parent, has not reaped it.
        if parent_pid(pid) != Some(self.process.pid()) {
            return Err(io::Error::other("bubblewrap's first process is gone already"));
        }

        self.first = Some((pid, first));
        Ok(())
    }
}

impl Drop for ScriptProcesses {
    fn drop(&mut self) {
        self.kill_all();
    }
}

fn parse_child_pid(info: &str) -> Option<libc::pid_t> {
    let (_, rest) = info.split_once("\"child-pid\":")?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn parent_pid(pid: libc::pid_t) -> Option<libc::pid_t> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok())
}
