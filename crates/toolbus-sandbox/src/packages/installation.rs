//! One installation: the installer in its sandbox, its limits, and what it said.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::packages::{self, Requirements};
use toolbus_scripts::runner::Error;

use super::{InstallDeadline, PackageInstaller, cache, installer};
use crate::config::Limits;
use crate::kernel_objects::KernelObjectWatch;
use crate::launch::{LaunchSpec, LaunchedProgram};
use crate::memory_limit::{MemoryGuard, MemorySampler};
use crate::recipe::{self, HostTree};
use crate::rlimits;
use crate::script;
use crate::supervise::{RunOrder, supervise};

/// Memory limit of installers, which hold the index in memory.
const INSTALLER_MEMORY_BYTES: u64 = 1 << 30;
/// How often the size of the growing tree is measured.
const SIZE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Replaces the interpreter by the command in its input, with the variables that follow it there.
/// They hold passwords, which must not be seen in a command line or an environment before that.
const EXECUTE: &str = r"import os
argv, variables = (part.split('\x1f') for part in os.environ.pop('ROCKBOT_INPUT').split('\x1e'))
os.environ.update(variable.split('=', 1) for variable in variables if variable)
os.execv(argv[0], argv)";
const UNIT_SEPARATOR: &str = "\x1f";
const RECORD_SEPARATOR: &str = "\x1e";

impl PackageInstaller {
    /// Runs the installer to its end and checks that it succeeded and stayed within its size limit.
    pub(super) async fn run_installer(
        &self,
        staging: &Path,
        requirements: &Requirements,
        limit: InstallDeadline,
        cancelled: &CancellationToken,
    ) -> Result<(), Error> {
        let failed = |error: io::Error| Error::Failed(format!("packages: {error}"));
        let limits = Limits {
            memory_bytes: INSTALLER_MEMORY_BYTES,
            file_bytes: self.config.packages.set_bytes,
            ..self.config.limits.clone()
        };

        let timeout = limit.end.saturating_duration_since(Instant::now());
        let mut launched =
            self.launch_installer(staging, &limits, timeout).await.map_err(failed)?;

        launched.open_gate();

        let first = launched.processes.first_pid();
        let target = Path::new(installer::TARGET);
        let command = self.settings.install_command(&self.interpreter, target, requirements.iter());
        let variables = &self.settings.variables;
        let variables: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let input =
            [command.join(UNIT_SEPARATOR), variables.join(UNIT_SEPARATOR)].join(RECORD_SEPARATOR);
        let too_large = cancelled.child_token();

        let order = RunOrder {
            request: script::bootstrap_request(&self.interpreter, None, EXECUTE, &input, None),
            work_folder: None,
            timeout,
            start_timeout: self.config.start_timeout,
            cancelled: too_large.clone(),
            live: None,
            objects: KernelObjectWatch::new(first, &limits),
            guard: MemoryGuard::Sampled(MemorySampler::new(first, limits.memory_bytes)),
        };

        let mut run = Box::pin(supervise(launched, order));
        let mut ticks = time::interval(SIZE_CHECK_INTERVAL);

        loop {
            tokio::select! {
                outcome = &mut run => return packages::check_installed(&outcome?, limit.duration()),
                _ = ticks.tick() => {}
            }

            let folder = staging.to_path_buf();
            let looked = tokio::task::spawn_blocking(move || cache::disk_usage(&folder)).await;
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

    async fn launch_installer(
        &self,
        staging: &Path,
        limits: &Limits,
        timeout: Duration,
    ) -> io::Result<LaunchedProgram> {
        let mut environment = recipe::script_environment(&self.interpreter, None);
        let target = Path::new(installer::TARGET);
        let scratch = target.join(installer::SCRATCH);

        environment.retain(|(name, _)| *name != "TMPDIR");
        environment.push(("TMPDIR", scratch.into()));

        let name = staging.file_name().unwrap_or_default();
        let source = HostTree { path: target.to_path_buf(), source: self.source.join(name) };

        let launch = LaunchSpec {
            options: recipe::installer_options(&self.base, &source),
            filter: &self.filter,
            environment,
            command: script::interpreter_command(&self.interpreter)?,
            processes_max: limits.processes,
            limits: rlimits::rlimits_of_script(limits, timeout),
            group: None,
        };

        self.launcher.launch(launch).await
    }
}
