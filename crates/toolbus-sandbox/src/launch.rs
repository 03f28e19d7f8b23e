//! Starts one sandboxed program and hands out its pipes.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use crate::c_string::c_string;
use crate::cgroup::ControlGroup;
use crate::init::{self, fds};
use crate::memory_limit::{MemorySubject, descendants};
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

/// How a program is isolated from the host.
pub(crate) enum Isolation {
    /// In bubblewrap, by the recipe.
    Bubblewrap {
        /// The program.
        bwrap: CString,
        /// The user and group id to become first, when the service is root.
        become_id: Option<u32>,
    },
    /// Not at all.
    Bare,
}

/// Starts programs under one kind of isolation.
pub(crate) struct Launcher {
    spawner: ProcessSpawner,
    isolation: Isolation,
    init: OwnedFd,
    null: File,
}

/// What to launch: program, environment, limits and isolation options.
pub(crate) struct LaunchSpec<'a> {
    /// Options of bubblewrap; nothing for bare programs.
    pub(crate) options: BwrapOptions,
    /// The system calls that are refused, as a sealed file; nothing for bare programs.
    pub(crate) filter: Option<&'a OwnedFd>,
    /// The environment of the program.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// The program and its arguments.
    pub(crate) command: Vec<CString>,
    /// Most processes and threads; 0 sets no limit of the kernel.
    pub(crate) processes_max: u32,
    /// Limits of each process, as the kernel's numbers and values.
    pub(crate) limits: Vec<(libc::c_int, u64)>,
    /// Where a bare program starts.
    pub(crate) directory: &'a Path,
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
    pub(crate) fn new(spawner: ProcessSpawner, isolation: Isolation) -> io::Result<Self> {
        let null = File::options().read(true).write(true).open("/dev/null")?;
        Ok(Self { spawner, isolation, init: init::program_file()?, null })
    }

    /// Whether nothing protects the host.
    pub(crate) fn is_bare(&self) -> bool {
        matches!(self.isolation, Isolation::Bare)
    }

    /// The user and group id of its programs, when it is not this service's own.
    pub(crate) fn become_id(&self) -> Option<u32> {
        match &self.isolation {
            Isolation::Bubblewrap { become_id, .. } => *become_id,
            Isolation::Bare => None,
        }
    }

    /// Whose memory to measure for a program with this first process.
    pub(crate) fn subject(&self, first: libc::pid_t) -> MemorySubject {
        match &self.isolation {
            Isolation::Bubblewrap { .. } => MemorySubject::Namespace(first),
            Isolation::Bare => MemorySubject::Tree(first),
        }
    }

    pub(crate) async fn launch(&self, launch: LaunchSpec<'_>) -> io::Result<LaunchedProgram> {
        let (control, theirs) = StdUnixStream::pair()?;
        control.set_nonblocking(true)?;

        let (stdout, stdout_theirs) = io::pipe()?;
        let (stderr, stderr_theirs) = io::pipe()?;
        let (bwrap_stderr, bwrap_stderr_theirs) = io::pipe()?;

        let mut descriptors: Vec<(OwnedFd, RawFd)> = vec![
            (self.null.try_clone()?.into(), 0),
            (self.null.try_clone()?.into(), 1),
            (bwrap_stderr_theirs.into(), 2),
            (theirs.into(), fds::CONTROL),
            (stdout_theirs.into(), fds::STDOUT),
            (stderr_theirs.into(), fds::STDERR),
            (self.init.try_clone()?, INIT),
        ];

        let sides = match &self.isolation {
            Isolation::Bubblewrap { .. } => Some((io::pipe()?, io::pipe()?)),
            Isolation::Bare => None,
        };
        let sides = sides.map(|((info, info_theirs), (gate_theirs, gate))| {
            descriptors.push((info_theirs.into(), INFO));
            descriptors.push((gate_theirs.into(), GATE));
            (info, gate)
        });

        let plan = self.spawn_plan(launch, descriptors)?;
        let process = ChildProcess::new(self.spawner.spawn(plan).await?)?;
        let mut processes = ScriptProcesses { process, first: None, bare: self.is_bare() };
        let mut gate = None;

        if let Some((info, write_end)) = sides {
            processes.find_first_process(info).await?;
            gate = Some(write_end);
        }

        Ok(LaunchedProgram {
            processes,
            control: UnixStream::from_std(control)?,
            stdout: async_receiver(stdout)?,
            stderr: async_receiver(stderr)?,
            bwrap_stderr: async_receiver(bwrap_stderr)?,
            gate,
        })
    }

    fn spawn_plan(
        &self,
        launch: LaunchSpec<'_>,
        mut descriptors: Vec<(OwnedFd, RawFd)>,
    ) -> io::Result<SpawnPlan> {
        let inner = init::command_line(launch.processes_max, launch.command)?;
        let init_path = c_string(format!("/proc/self/fd/{INIT}"))?;

        let mut plan = SpawnPlan {
            program: init_path,
            arguments: inner,
            environment: Vec::new(),
            descriptors: Vec::new(),
            limits: launch.limits,
            become_id: None,
            directory: c"/".to_owned(),
            group_handles: launch.group.map(ControlGroup::group_handles).unwrap_or_default(),
        };

        match &self.isolation {
            Isolation::Bare => {
                plan.directory = c_string(launch.directory)?;
                for (name, value) in launch.environment {
                    let mut entry = OsString::from(name);
                    entry.push("=");
                    entry.push(value);
                    plan.environment.push(c_string(entry)?);
                }
            }
            Isolation::Bubblewrap { bwrap, become_id } => {
                let mut options = launch.options;
                for (name, value) in &launch.environment {
                    options.push([&"--setenv", name, value]);
                }

                if let Some(filter) = launch.filter {
                    // A file of its own, because readers of one file share their place in it.
                    let path = format!("/proc/self/fd/{}", filter.as_raw_fd());
                    descriptors.push((File::open(path)?.into(), FILTER));
                    options.push([&"--seccomp", &FILTER.to_string()]);
                }

                options
                    .push([&"--info-fd", &INFO.to_string(), &"--block-fd", &GATE.to_string()])
                    .push([&"--"]);

                // bubblewrap has no option for another name than the program's path.
                let command = [plan.program].into_iter().chain(plan.arguments.into_iter().skip(1));
                plan.program = bwrap.clone();

                plan.arguments = [bwrap.clone()]
                    .into_iter()
                    .map(Ok)
                    .chain(options.0.iter().map(c_string))
                    .chain(command.map(Ok))
                    .collect::<io::Result<_>>()?;

                plan.become_id = *become_id;
            }
        }

        plan.descriptors = descriptors;
        Ok(plan)
    }
}

fn async_receiver(pipe: PipeReader) -> io::Result<pipe::Receiver> {
    pipe::Receiver::from_owned_fd(pipe.into())
}

/// All processes of one run.
#[derive(Debug)]
pub(crate) struct ScriptProcesses {
    /// Our own child: bubblewrap, or the bare first process.
    process: ChildProcess,
    /// The first process of the namespace: all others end with it.
    first: Option<(libc::pid_t, PidFd)>,
    bare: bool,
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
            None if self.bare => kill_tree(&self.process),
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

/// Kills a process and all that descend from it. The root is a subreaper, so that nothing leaves
/// the tree; it is stopped from multiplying by going over it until nothing is left.
#[allow(unsafe_code)]
fn kill_tree(root: &ChildProcess) {
    const ROUNDS_MAX: usize = 100;

    for _ in 0..ROUNDS_MAX {
        let pids = descendants(root.pid());
        if pids.is_empty() {
            break;
        }

        for pid in pids {
            // SAFETY: takes no pointers. The root, their reaper, lives, and a number is free for
            // others only after it was reaped a moment ago: the risk of a bare run.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
    }

    root.kill();
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
