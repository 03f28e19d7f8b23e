//! A child process that keeps something running while its standard input stays open: the broker or
//! the cluster of a test run. When this process ends, however it ends, so does what the child kept.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// Time limit of an orderly stop; after it the process is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);

/// The running child process. Stopped, and waited for, at drop.
pub(crate) struct KeptProcess {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl KeptProcess {
    /// Starts the command, and returns its standard output.
    pub(crate) fn spawn(command: &mut Command) -> anyhow::Result<(Self, BufReader<ChildStdout>)> {
        use std::os::unix::process::CommandExt as _;

        let name = command.get_program().to_string_lossy().into_owned();
        // In a group of its own, so that an interrupt from the terminal, which ends this process,
        // leaves it the time to put things away.
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().context("a keeper without standard output")?;
        Ok((Self { child, stdin }, BufReader::new(stdout)))
    }

    /// Starts the command, and returns the one line by which it says where what it keeps is found.
    /// A command that ends without a line has said why on standard error.
    pub(crate) fn start_and_read_line(command: &mut Command) -> anyhow::Result<(Self, String)> {
        let (keeper, mut stdout) = Self::spawn(command)?;
        let name = command.get_program().to_string_lossy();
        let mut place = String::new();
        stdout.read_line(&mut place).with_context(|| format!("output of {name}"))?;
        let place = place.trim_end().to_owned();
        ensure!(!place.is_empty(), "{name} could not start one, and says above why");
        Ok((keeper, place))
    }
}

impl Drop for KeptProcess {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let end = Instant::now() + STOP_TIMEOUT;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                // Fails only when it has just ended.
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
