//! Child processes that never outlive the tests: [`Process`] for any program, [`Service`] for ours.
//!
//! Each child leads a process group of its own, and every signal goes to the group, so that what
//! the child started ends with it. A guard, a small shell that reads from a pipe of ours, kills the
//! group when the pipe closes: that happens however the test process ends, `kill -9` included.
//!
//! Groups are addressed by number, so the child is not reaped before its group has been killed:
//! until then the number cannot belong to anybody else.

mod service;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::time::Instant;

pub use service::{Finished, Launch, Service, binary};

/// Reads until our end of the pipe is gone, then kills the group `$1` and removes the folder `$2`
/// if one is named. The repetition is for files that are still being written by others of the
/// folder.
const GUARD: &str = r#"
trap '' INT TERM HUP
read -r _
kill -s KILL -- "-$1"
[ -n "$2" ] || exit 0
for _ in 1 2 3 4 5 6 7 8 9 10; do
  rm -rf -- "$2" && exit 0
  sleep 0.2
done
"#;

/// How often a process is polled while it is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long a signal that cannot be ignored may take to reach the last thread.
const SIGNAL_TIMEOUT: Duration = Duration::from_secs(2);

/// A running child. Killed with all it started when this is dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    guard: Option<Child>,
    exit: Option<ExitStatus>,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Process {
    /// Starts `command` with its output going to files in `folder`, and nothing on standard input
    /// unless the command says otherwise. `name` names the files and is used in errors.
    ///
    /// # Errors
    /// When the files cannot be made or the program cannot be started.
    pub fn spawn(name: &str, command: &mut Command, folder: &Path) -> anyhow::Result<Self> {
        Self::spawn_with(name, command, folder, None)
    }

    /// Like [`Process::spawn`]; the guard also removes `owned` when the test process dies.
    pub(crate) fn spawn_with(
        name: &str,
        command: &mut Command,
        folder: &Path,
        owned: Option<&Path>,
    ) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        let stdout = folder.join(format!("{name}.out"));
        let stderr = folder.join(format!("{name}.err"));
        let child = command
            .stdout(append_to(&stdout)?)
            .stderr(append_to(&stderr)?)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}: {}", command.get_program().display()))?;
        let mut process =
            Self { name: name.to_owned(), child, guard: None, exit: None, stdout, stderr };
        // If this fails, dropping `process` ends the child.
        let guard = Command::new("/bin/sh")
            .args(["-c", GUARD, "toolbus-guard", &process.id().to_string()])
            .arg(owned.unwrap_or(Path::new("")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .context("starting the guard")?;
        process.guard = Some(guard);

        Ok(process)
    }

    /// The process id, which is also its group's.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process ended, or `None` while it runs.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        if self.exit.is_none() && self.has_exited() {
            self.end();
        }
        self.exit
    }

    /// Kills the process and all it started, as a crash would; returns when they are gone.
    pub fn kill(&mut self) {
        self.end();
    }

    /// Asks the process to stop (SIGTERM) and waits for it; over the limit it is killed.
    ///
    /// # Errors
    /// When it did not stop by itself within the limit.
    pub async fn terminate(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        match self.wait(limit).await {
            Ok(status) => Ok(status),
            Err(error) => {
                self.kill();
                Err(error)
            }
        }
    }

    /// Waits for the process to end by itself.
    ///
    /// # Errors
    /// When it still runs at the limit.
    pub async fn wait(&mut self, limit: Duration) -> anyhow::Result<ExitStatus> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.exit_status() {
                return Ok(status);
            }
            anyhow::ensure!(Instant::now() < end, "{} still ran after {limit:?}", self.name);
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Stops the process and all it started in their tracks (SIGSTOP): connections stay open and
    /// nothing answers. Returns when the last thread stands.
    ///
    /// # Errors
    /// When the process has ended, or does not stand after two seconds.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::STOP)?;
        self.await_threads("stands", |state| matches!(state, 'T' | 'Z' | 'X'))
    }

    /// Lets a paused process go on (SIGCONT).
    ///
    /// # Errors
    /// When the process has ended.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::CONT)
    }

    /// What the process has written to standard output so far; bytes that are not UTF-8 replaced.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What the process has written to standard error so far; bytes that are not UTF-8 replaced.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Both outputs, headed, for the text of an error.
    pub fn logs(&self) -> String {
        format!("--- {0} stdout\n{1}\n--- {0} stderr\n{2}", self.name, self.stdout(), self.stderr())
    }

    fn signal(&mut self, signal: Signal) -> anyhow::Result<()> {
        if let Some(status) = self.exit_status() {
            anyhow::bail!("{} has ended: {status}", self.name);
        }
        kill_process_group(Pid::from_child(&self.child), signal)
            .with_context(|| format!("signalling {}", self.name))
    }

    /// Waits until each thread of the group is in such a state. A signal takes a moment to reach
    /// threads on other cores.
    fn await_threads(&self, what: &str, is_so: impl Fn(char) -> bool) -> anyhow::Result<()> {
        let group = self.child.id();
        let end = std::time::Instant::now() + SIGNAL_TIMEOUT;
        while !thread_states(group).all(&is_so) {
            let name = &self.name;
            anyhow::ensure!(std::time::Instant::now() < end, "not every thread of {name} {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether the child has ended; it is not reaped by the look.
    fn has_exited(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), look), Ok(Some(_)))
    }

    /// Kills what is left of the group, reaps the child and dismisses the guard. The order is the
    /// point; see the head of this file.
    fn end(&mut self) {
        if self.exit.is_some() {
            return;
        }
        // Fails only when nothing of the group is left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        // Those that hang in the kernel are dead all the same, only later.
        let _ = self.await_threads("is gone", |state| matches!(state, 'Z' | 'X'));
        self.exit = self.child.wait().ok();
        if let Some(mut guard) = self.guard.take() {
            // Fails only when the guard is gone already, and then there is nothing to dismiss.
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// A restarted process goes on in the same files.
fn append_to(path: &Path) -> anyhow::Result<File> {
    File::options()
        .create(true)
        .append(true)
        .open(path)
        .with_context(|| format!("opening {}", path.display()))
}

fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// How many processes a user has on this machine that have not ended.
///
/// # Panics
/// When the processes cannot be listed: that nothing is seen must not pass for nothing being there.
#[must_use]
pub fn count_of_user(user: i64) -> usize {
    let user = format!("Uid:\t{user}\t");
    let ended = "State:\tZ";
    let processes = fs::read_dir("/proc").expect("a list of processes").flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("status")).ok())
        .filter(|status| status.contains(&user) && !status.contains(ended))
        .count()
}

/// The state of every thread of every process of the group, as the fields of `stat` in proc(5).
fn thread_states(group: u32) -> impl Iterator<Item = char> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let of_group = processes.map(|entry| entry.path()).filter(move |process| {
        state_and_group(process).is_some_and(|(_, its_group)| its_group == group)
    });
    of_group
        .flat_map(|process| fs::read_dir(process.join("task")).into_iter().flatten().flatten())
        .filter_map(|thread| state_and_group(&thread.path()))
        .map(|(state, _)| state)
}

fn state_and_group(task: &Path) -> Option<(char, u32)> {
    let stat = fs::read_to_string(task.join("stat")).ok()?;
    // The name before it may hold anything, spaces and brackets too.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}
