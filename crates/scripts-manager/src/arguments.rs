//! The command line.

use clap::{Parser, Subcommand};
use toolbus_config::Setting;
use toolbus_runtime::arguments::{CommonArguments, MemberArguments, ServiceArguments};
use toolbus_runtime::doctor::DoctorOptions;

/// Runs Python scripts for a fleet, each in a sandbox of its own.
#[derive(Debug, Parser)]
#[command(name = "scripts-manager", version, max_term_width = 100)]
pub struct Arguments {
    /// Options of every program.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Options of what joins the bus.
    #[command(flatten)]
    pub member: MemberArguments,

    /// Options of every service.
    #[command(flatten)]
    pub service: ServiceArguments,

    /// Where scripts run: local (bubblewrap on this machine) or kubernetes (pods)
    /// [default: local] [env: TOOLBUS_RUNNER]
    #[arg(long, value_name = "RUNNER")]
    pub runner: Option<String>,

    /// Make the namespace of the pods, its network policy, quota and limits where they are
    /// missing; needs the rights to
    #[arg(long)]
    pub prepare_namespace: bool,

    /// What to do; without it, serve.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do beside serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Look whether all is well here, and say what mends what is not
    ///
    /// The settings, the broker, the health port, and the sandbox or the cluster that scripts run
    /// in: with pods, whether it answers, what this account may do there, and the namespace.
    /// Options that say how to serve stand before it: scripts-manager --runner kubernetes doctor.
    /// Exit code: 0 when nothing is wrong; 1 when something is.
    Doctor(DoctorOptions),
}

impl Arguments {
    /// What the options set.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let runner = self.runner.as_deref();
        let runner = runner.map(|runner| Setting::text("runner", runner, "--runner"));
        let prepare = self
            .prepare_namespace
            .then(|| Setting::text("kubernetes.prepare_namespace", "true", "--prepare-namespace"));
        let mut settings = self.member.settings();
        settings.extend(self.service.settings());
        settings.extend(runner.into_iter().chain(prepare));
        settings
    }
}
