//! The command line.

use clap::Parser;
use toolbus_runtime::arguments::CommonArguments;
use toolbus_runtime::config::Setting;

/// Runs Python scripts for a fleet, each in a sandbox of its own.
#[derive(Debug, Parser)]
#[command(name = "scripts-manager", version, max_term_width = 100)]
pub struct Arguments {
    /// Options that every service takes.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Where scripts run: local (bubblewrap on this machine) or kubernetes
    /// [default: local] [env: TOOLBUS_RUNNER]
    #[arg(long, value_name = "RUNNER")]
    pub runner: Option<String>,
}

impl Arguments {
    /// What this program's own options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let runner = self.runner.as_deref();
        runner.map(|runner| Setting::text("runner", runner, "--runner")).into_iter().collect()
    }
}
