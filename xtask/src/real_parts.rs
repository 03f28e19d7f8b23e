//! The real parts of a test run: installs and fetches them, and keeps the broker that all tests
//! share running for as long as the value lives.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};

use crate::workspace;

/// An orderly end takes a moment; past this the broker's own guards end it.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Installs and fetches what tests and benchmarks use and this machine lacks.
pub(crate) fn prepare() -> anyhow::Result<()> {
    workspace::run(&mut workspace::script("dev/setup"))?;
    let fetch = ["everything", "time", "otelcol", "openrouter-sdk"];
    // Where the parts are does not interest here: the tests ask for themselves.
    workspace::run(workspace::script("dev/parts/fetch").args(fetch).stdout(Stdio::null()))
}

/// The running broker, or nothing where the environment names one already.
pub(crate) struct RealParts {
    keeper: Option<(Child, ChildStdin)>,
    environment: Vec<(String, String)>,
}

impl RealParts {
    /// Starts the broker by the program `real-parts` in `folder`, which must have been built.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt as _;

        let required = ("TOOLBUS_REQUIRE_REAL".to_owned(), "1".to_owned());
        let mut parts = Self { keeper: None, environment: vec![required] };
        if std::env::var_os("TOOLBUS_TEST_AMQP").is_some() {
            return Ok(parts);
        }
        // In a group of its own, so that an interrupt from the terminal, which ends this process,
        // leaves it the time to put things away.
        let mut child = Command::new(folder.join("real-parts"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("starting real-parts")?;
        let stdin = child.stdin.take().context("real-parts has no standard input")?;
        let stdout = child.stdout.take().context("real-parts has no standard output")?;
        parts.keeper = Some((child, stdin));
        let mut ready = false;
        for line in BufReader::new(stdout).lines() {
            let line = line.context("output of real-parts")?;
            if line == "ready" {
                ready = true;
                break;
            }
            let (name, value) = line.split_once('=').context("output of real-parts")?;
            parts.environment.push((name.to_owned(), value.to_owned()));
        }
        ensure!(ready, "the broker for the tests did not start");
        Ok(parts)
    }

    /// Where the broker is.
    pub(crate) fn amqp(&self) -> anyhow::Result<String> {
        const NAME: &str = "TOOLBUS_TEST_AMQP";
        let own = self.environment.iter().find(|(name, _)| name == NAME);
        match own {
            Some((_, amqp)) => Ok(amqp.clone()),
            None => std::env::var(NAME).context(NAME),
        }
    }

    /// Tells a command where the parts are, and that none may be missing.
    pub(crate) fn describe_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }
}

impl Drop for RealParts {
    fn drop(&mut self) {
        let Some((mut child, stdin)) = self.keeper.take() else { return };
        drop(stdin);
        let end = Instant::now() + STOP_LIMIT;
        while matches!(child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                // Fails only when it has just ended.
                let _ = child.kill();
                let _ = child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
