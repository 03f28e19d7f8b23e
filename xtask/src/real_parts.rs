//! The real parts of a test run: installs and fetches them, and keeps the broker that all tests
//! share running for as long as the value lives.

use std::io::BufRead as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use crate::kept_process::KeptProcess;
use crate::workspace;

/// Installs and fetches what tests and benchmarks use and this machine lacks.
pub(crate) fn prepare() -> anyhow::Result<()> {
    workspace::run_command(&mut workspace::script_command("dev/setup"))?;
    let fetch = [
        "a2a-sdk",
        "everything",
        "google-apis",
        "grafana-schema",
        "helm",
        "litellm",
        "minilm",
        "model-sdks",
        "node-servers",
        "oidc",
        "openapi-client",
        "openrouter-sdk",
        "otelcol",
        "pika",
        "prometheus",
        "python-servers",
        "s3",
        "time",
        "wordllama",
    ];

    fetch_parts(&fetch)
}

/// Fetches parts that this machine lacks.
pub(crate) fn fetch_parts(parts: &[&str]) -> anyhow::Result<()> {
    // The output, where the parts are, is not needed here: the tests look for themselves.
    workspace::run_command(
        workspace::script_command("dev/parts/fetch").args(parts).stdout(Stdio::null()),
    )
}

/// The running broker, or nothing where the environment names one already.
pub(crate) struct RealParts {
    keeper: Option<KeptProcess>,
    environment: Vec<(String, String)>,
}

impl RealParts {
    /// Starts the broker by the program `real-parts` in `folder`, which must have been built.
    pub(crate) fn start(folder: &Path) -> anyhow::Result<Self> {
        let required = ("TOOLBUS_REQUIRE_REAL".to_owned(), "1".to_owned());
        let mut parts = Self { keeper: None, environment: vec![required] };
        if std::env::var_os("TOOLBUS_TEST_AMQP").is_some() {
            return Ok(parts);
        }

        let (keeper, stdout) = KeptProcess::spawn(&mut Command::new(folder.join("real-parts")))?;
        parts.keeper = Some(keeper);

        let mut ready = false;

        for line in stdout.lines() {
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

    /// The URL of the broker.
    pub(crate) fn amqp(&self) -> anyhow::Result<String> {
        const NAME: &str = "TOOLBUS_TEST_AMQP";
        let own = self.environment.iter().find(|(name, _)| name == NAME);
        match own {
            Some((_, amqp)) => Ok(amqp.clone()),
            None => std::env::var(NAME).context(NAME),
        }
    }

    /// Sets the variables by which a command finds the parts, and which forbid to skip tests.
    pub(crate) fn pass_environment_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command.envs(self.environment.iter().map(|(name, value)| (name, value)))
    }
}
