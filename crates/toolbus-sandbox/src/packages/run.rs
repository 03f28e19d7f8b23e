//! One installation: the installer in its sandbox, its limits, and what it said.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::packages::{self, Requirements};
use toolbus_scripts::runner::Error;

use super::{Limit, Packages, cache, installer};
use crate::config::Limits;
use crate::launch::{Launch, Launched};
use crate::limits;
use crate::memory::{Guard, Sampler};
use crate::recipe::{self, Options, Tree};
use crate::script;
use crate::supervise::{Order, supervise};

/// Installers hold the index in memory.
const INSTALLER_MEMORY_BYTES: u64 = 1 << 30;
/// How often the size of a growing tree is looked at.
const SIZE_PERIOD: Duration = Duration::from_secs(1);
/// Replaces the interpreter by the command in its input, with the variables that follow it there.
/// They hold passwords, which must not be seen in a command line or an environment before that.
const EXECUTE: &str = r"import os
argv, variables = (part.split('\x1f') for part in os.environ.pop('ROCKBOT_INPUT').split('\x1e'))
os.environ.update(variable.split('=', 1) for variable in variables if variable)
os.execv(argv[0], argv)";
const UNIT: &str = "\x1f";
const RECORD: &str = "\x1e";

impl Packages {
    /// Runs the installer to its end, which must be a good one.
    pub(super) async fn run_installer(
        &self,
        staging: &Path,
        requirements: &Requirements,
        limit: Limit,
        cancelled: &CancellationToken,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let limits = Limits {
            memory_bytes: INSTALLER_MEMORY_BYTES,
            file_bytes: self.config.packages.set_bytes,
            ..self.config.limits.clone()
        };
        let timeout = limit.end.saturating_duration_since(Instant::now());
        let mut launched = self.launch(staging, &limits, timeout).await.map_err(failed)?;
        launched.open();
        let subject = self.launcher.subject(launched.processes.first());
        let target = self.target(staging);
        let command = self.surroundings.command(&self.interpreter, target, requirements.iter());
        let variables = &self.surroundings.variables;
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let input = [command.join(UNIT), variables.join(UNIT)].join(RECORD);
        let too_large = cancelled.child_token();
        let order = Order {
            request: script::request(&self.interpreter, None, EXECUTE, &input, None),
            workplace: None,
            timeout,
            start_timeout: self.config.start_timeout,
            cancelled: too_large.clone(),
            live: None,
            guard: Guard::Sampled(Sampler::new(subject, limits.memory_bytes)),
        };
        let mut run = Box::pin(supervise(launched, order));
        let mut ticks = time::interval(SIZE_PERIOD);
        loop {
            tokio::select! {
                outcome = &mut run => return packages::judge(&outcome?, limit.duration()),
                _ = ticks.tick() => {}
            }
            let folder = staging.to_path_buf();
            let looked = tokio::task::spawn_blocking(move || cache::size(&folder)).await;
            let bytes =
                looked.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)?;
            if bytes > self.config.packages.set_bytes && !too_large.is_cancelled() {
                too_large.cancel();
                // The outcome says only that it was cancelled.
                let _ = run.await;
                let limit = self.config.packages.set_bytes;
                return Err(Error::Packages(format!("the packages take more than {limit} bytes")));
            }
        }
    }

    async fn launch(
        &self,
        staging: &Path,
        limits: &Limits,
        timeout: Duration,
    ) -> io::Result<Launched> {
        let is_bare = self.launcher.is_bare();
        let mut environment = recipe::environment(&self.interpreter, None);
        let target = self.target(staging);
        let scratch = target.join(installer::SCRATCH);
        environment.retain(|(name, _)| *name != "TMPDIR");
        environment.push(("TMPDIR", scratch.into()));
        let mut options = Options::default();
        if !is_bare {
            let name = staging.file_name().unwrap_or_default();
            let source = Tree { path: target.to_path_buf(), source: self.source.join(name) };
            options = recipe::installer(&self.base, &source);
        }
        let launch = Launch {
            options,
            filter: self.filter.as_ref(),
            environment,
            command: script::command(&self.interpreter)?,
            processes_max: if is_bare { 0 } else { limits.processes },
            limits: limits::of_script(limits, timeout),
            directory: staging,
            group: None,
        };
        self.launcher.launch(launch).await
    }

    /// Where an installer finds the staging folder.
    fn target<'a>(&self, staging: &'a Path) -> &'a Path {
        if self.launcher.is_bare() { staging } else { Path::new(installer::TARGET) }
    }
}
