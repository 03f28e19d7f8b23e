//! The real parts of a test run: installs and fetches them, and keeps the servers that tests share
//! running for as long as the value lives.

use std::io::BufRead as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use crate::kept_process::KeptProcess;
use crate::test_run::TestNeeds;
use crate::workspace;

/// Set if the environment names a broker; tests then use that one.
const AMQP: &str = "TOOLBUS_TEST_AMQP";
/// The service that [`AMQP`] stands for.
pub(crate) const BROKER: &str = "rabbitmq";

/// Environment variables, by which tests find parts.
pub(crate) type Variables = Vec<(String, String)>;

/// Installs the packages that tests use and this machine lacks.
pub(crate) fn set_up() -> anyhow::Result<()> {
    workspace::run_command(&mut workspace::script_command("dev/setup"))
}

/// Fetches parts that this machine lacks. Returns the variables by which tests find them.
pub(crate) fn fetch<'a>(parts: impl IntoIterator<Item = &'a String>) -> anyhow::Result<Variables> {
    let parts: Vec<&String> = parts.into_iter().collect();
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let fetched =
        workspace::read_visibly(workspace::script_command("dev/parts/fetch").args(&parts))?;
    fetched.lines().map(part_variable).collect()
}

/// Installs and fetches what the tests of every package use, and benchmarks with them.
pub(crate) fn prepare_all() -> anyhow::Result<Variables> {
    set_up()?;
    fetch(&TestNeeds::read_all()?.parts)
}

/// Turns `NAME=FOLDER` into the variable by which tests find the part.
fn part_variable(line: &str) -> anyhow::Result<(String, String)> {
    let (name, folder) = line.split_once('=').context("output of dev/parts/fetch")?;
    let name = name.to_ascii_uppercase().replace('-', "_");
    Ok((format!("TOOLBUS_TEST_PART_{name}"), folder.to_owned()))
}

/// The running servers, without those that the environment names already.
pub(crate) struct RealParts {
    _keeper: Option<KeptProcess>,
    environment: Variables,
}

impl RealParts {
    /// Starts these services by the program `real-parts` in `folder`, which must have been built.
    pub(crate) fn start<'a>(
        folder: &Path,
        services: impl IntoIterator<Item = &'a str>,
    ) -> anyhow::Result<Self> {
        let required = ("TOOLBUS_REQUIRE_REAL".to_owned(), "1".to_owned());
        let mut parts = Self { _keeper: None, environment: vec![required] };
        let has_broker = std::env::var_os(AMQP).is_some();
        let services = services.into_iter().filter(|name| !(has_broker && *name == BROKER));
        let services: Vec<&str> = services.collect();
        if services.is_empty() {
            return Ok(parts);
        }

        let mut command = Command::new(folder.join("real-parts"));
        let (keeper, stdout) = KeptProcess::spawn(command.args(services))?;
        parts._keeper = Some(keeper);

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

        ensure!(ready, "the servers for the tests did not start");
        Ok(parts)
    }

    /// The URL of the broker.
    pub(crate) fn amqp(&self) -> anyhow::Result<String> {
        let own = self.environment.iter().find(|(name, _)| name == AMQP);
        match own {
            Some((_, amqp)) => Ok(amqp.clone()),
            None => std::env::var(AMQP).context(AMQP),
        }
    }

    /// The variables by which a command finds the servers, and which forbid to skip tests.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }
}
