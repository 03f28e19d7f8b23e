//! A process that keeps something running for as long as its standard input stays open: the broker
//! and the cluster of a test run. When this process ends, however it does, so does what it kept.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

/// An orderly end takes a moment; past this the keeper's own guards end it.
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// The running process; its end is asked for and waited for at drop.
pub(crate) struct Keeper {
    child: Child,
    stdin: Option<ChildStdin>,
}

impl Keeper {
    /// Starts it, and gives what it prints.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<(Self, BufReader<ChildStdout>)> {
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

    /// Starts it, and gives the one line by which it says where what it keeps is to be found. One
    /// that ends without a line has said why on standard error.
    pub(crate) fn of_one(command: &mut Command) -> anyhow::Result<(Self, String)> {
        let (keeper, mut stdout) = Self::start(command)?;
        let name = command.get_program().to_string_lossy();
        let mut place = String::new();
        stdout.read_line(&mut place).with_context(|| format!("output of {name}"))?;
        let place = place.trim_end().to_owned();
        ensure!(!place.is_empty(), "{name} could not start one, and says above why");
        Ok((keeper, place))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let end = Instant::now() + STOP_LIMIT;
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
