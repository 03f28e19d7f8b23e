//! A process that keeps something running for as long as its standard input stays open: the broker
//! and the cluster of a test run. When this process ends, however it does, so does what it kept.

use std::io::BufReader;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

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
