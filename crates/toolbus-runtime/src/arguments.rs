//! The command-line options that programs share, in groups: each program flattens those that mean
//! something to it, and each command lists those alone.
//!
//! They are only read here. Their values go through the layers of [`toolbus_config`] like any
//! other, as the highest one; that is why clap is not told the environment names and the help
//! names them by hand.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;

use toolbus_config::{Environment, Secret, Setting, SettingsFile};

/// The heading of options that every command of a program takes.
pub const GLOBAL_OPTIONS: &str = "Global options";
/// The file that is read from the current folder when none is named and it is there.
const DEFAULT_FILE: &str = "toolbus.toml";
/// The variable that names the file.
const FILE_VARIABLE: &str = "TOOLBUS_CONFIG";

/// Options of every command of every program.
#[derive(Debug, Clone, Default, Args)]
pub struct CommonArguments {
    /// Settings file; without it toolbus.toml of the current folder, where there is one
    /// [env: TOOLBUS_CONFIG]
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL_OPTIONS)]
    pub config: Option<PathBuf>,

    /// What to log: a level, or directives such as info,toolbus_bus=debug [env: TOOLBUS_LOG]
    #[arg(long, value_name = "FILTER", global = true, help_heading = GLOBAL_OPTIONS)]
    pub log: Option<String>,

    /// Say nothing on standard error but errors: no progress, no warnings, and of the log only
    /// errors
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS, conflicts_with = "log")]
    pub quiet: bool,

    /// Print the effective settings and where each comes from, secrets masked, and exit
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub print_config: bool,
}

/// Options of what joins the bus.
#[derive(Debug, Clone, Default, Args)]
pub struct MemberArguments {
    /// Broker to join, such as amqp://user:password@host:5672, or the URLs of its nodes with commas
    /// between [env: TOOLBUS_BUS]
    #[arg(long, value_name = "URL")]
    pub bus: Option<Secret>,

    /// Name of this instance [env: TOOLBUS_NAME]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
}

/// Options of what runs until it is told to stop.
#[derive(Debug, Clone, Default, Args)]
pub struct ServiceArguments {
    /// Where to serve /healthz, /readyz and /status, such as 127.0.0.1:8080
    /// [env: TOOLBUS_HEALTH]
    #[arg(long, value_name = "ADDRESS")]
    pub health: Option<String>,

    /// Ask the running process of the same settings whether it is ready, by its health port, and
    /// exit: 0 when it is. For the health checks of containers
    #[arg(long, conflicts_with = "print_config")]
    pub probe: bool,
}

impl CommonArguments {
    /// What the options set, for [`toolbus_config::Sources::arguments`].
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let log = self.log.as_deref().map(|filter| Setting::text("log.filter", filter, "--log"));
        let quiet = self.quiet.then(|| Setting::text("log.filter", "error", "--quiet"));
        log.into_iter().chain(quiet).collect()
    }

    /// The settings file: the option's, else the environment's, else the default where it is.
    #[must_use]
    pub fn file(&self, environment: &Environment) -> SettingsFile {
        if let Some(path) = &self.config {
            return SettingsFile::Required { path: path.clone(), named_by: "--config" };
        }
        match environment.value(FILE_VARIABLE) {
            Some(path) => SettingsFile::Required { path: path.into(), named_by: FILE_VARIABLE },
            None => SettingsFile::IfPresent(DEFAULT_FILE.into()),
        }
    }
}

impl MemberArguments {
    /// What the options set.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let Self { bus, name } = self;
        let bus = bus.as_ref().map(|url| Setting::text("bus.url", url.expose(), "--bus"));
        let name = name.as_deref().map(|name| Setting::text("name", name, "--name"));
        bus.into_iter().chain(name).collect()
    }
}

impl ServiceArguments {
    /// What the options set.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let health = self.health.as_deref();
        health
            .map(|address| Setting::text("health.address", address, "--health"))
            .into_iter()
            .collect()
    }
}
