//! The command line.

use clap::Parser;
use toolbus_config::Setting;
use toolbus_runtime::arguments::CommonArguments;

/// Runs Python scripts for a fleet, each in a sandbox of its own.
#[derive(Debug, Parser)]
#[command(name = "scripts-manager", version, max_term_width = 100)]
pub struct Arguments {
    /// Options that every service takes.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Where scripts run: local (bubblewrap on this machine) or kubernetes (pods)
    /// [default: local] [env: TOOLBUS_RUNNER]
    #[arg(long, value_name = "RUNNER")]
    pub runner: Option<String>,

    /// Makes the namespace of the pods, its network policy, quota and limits where they are
    /// missing; needs the rights to
    #[arg(long)]
    pub prepare_namespace: bool,
}

impl Arguments {
    /// What this program's own options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let runner = self.runner.as_deref();
        let runner = runner.map(|runner| Setting::text("runner", runner, "--runner"));
        let prepare = self
            .prepare_namespace
            .then(|| Setting::text("kubernetes.prepare_namespace", "true", "--prepare-namespace"));
        runner.into_iter().chain(prepare).collect()
    }
}
