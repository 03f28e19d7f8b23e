//! One installation: the installer in its sandbox, its limits, and what it said.

use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{self, Instant};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::packages::{self, Requirements};
use toolbus_scripts::runner::{Error, Script};
use toolbus_scripts::supervisor::protocol::{go_message, prepare_message};

use super::{InstallDeadline, PackageInstaller, cache, installer};
use crate::bubblewrap::LaunchSpec;
use crate::config::Limits;
use crate::recipe::{self, HostTree};
use crate::run::{self, ScriptRun};

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
        let too_large = cancelled.child_token();
        let name = staging.file_name().unwrap_or_default();
        let target = HostTree { path: installer::TARGET.into(), source: self.source.join(name) };
        let limits =
            Limits { file_bytes: self.config.packages.set_bytes, ..self.config.limits.clone() };
        let script = self.install_script(requirements, limit);

        let limits = run::script_limits(&limits, script.timeout, INSTALLER_MEMORY_BYTES);
        let spec = LaunchSpec {
            options: recipe::installer_options(&self.base, &target),
            program: &self.program,
            group: None,
            by: Instant::now() + self.config.start_timeout,
            cancelled: &too_large,
        };
        let mut sandbox = self.launcher.launch(spec, &prepare_message(&limits, &script)).await?;
        let order = ScriptRun {
            request: go_message(),
            timeout: script.timeout,
            live: None,
            channel: None,
            cancelled: &too_large,
            group: None,
        };

        let mut ticks = time::interval(SIZE_CHECK_INTERVAL);
        let outcome = {
            let mut running = Box::pin(run::run_script(order, &mut sandbox));
            loop {
                tokio::select! {
                    outcome = &mut running => break outcome,
                    _ = ticks.tick() => {}
                }

                let folder = staging.to_path_buf();
                let looked = tokio::task::spawn_blocking(move || cache::disk_usage(&folder)).await;
                let bytes =
                    looked.map_err(|error| Error::Failed(error.to_string()))?.map_err(failed)?;
                if bytes > self.config.packages.set_bytes {
                    too_large.cancel();
                }
            }
        };

        // Nothing changes the tree any more.
        sandbox.end().await.map_err(failed)?;
        // The outcome says only that it was cancelled.
        if too_large.is_cancelled() && !cancelled.is_cancelled() {
            let limit = self.config.packages.set_bytes;
            return Err(Error::Packages(format!("the packages take more than {limit} bytes")));
        }

        packages::check_installed(&outcome?, limit.duration())
    }

    /// The script that becomes the installer.
    fn install_script(&self, requirements: &Requirements, limit: InstallDeadline) -> Script {
        let target = Path::new(installer::TARGET);
        let command = self.settings.install_command(&self.interpreter, target, requirements.iter());
        let scratch = format!("{}/{}", installer::TARGET, installer::SCRATCH);
        let variables = self.settings.variables.iter();
        let variables = variables.map(|(name, value)| format!("{name}={value}"));
        let variables: Vec<String> = variables.chain([format!("TMPDIR={scratch}")]).collect();

        Script {
            source: EXECUTE.to_owned(),
            input: [command.join(UNIT_SEPARATOR), variables.join(UNIT_SEPARATOR)]
                .join(RECORD_SEPARATOR),
            timeout: limit.end.saturating_duration_since(Instant::now()),
            packages: Vec::new(),
            files: Vec::new(),
            prelude: None,
        }
    }
}
