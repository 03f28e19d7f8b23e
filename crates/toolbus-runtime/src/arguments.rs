//! The command-line options that every service takes.
//!
//! They are only read here. Their values go through the layers of [`toolbus_config`] like any
//! other, as the highest one; that is why clap is not told the environment names and the help
//! names them by hand.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use clap::Args;

use toolbus_config::{Environment, Secret, Setting, SettingsFile};

/// The file that is read from the current folder when none is named and it is there.
const DEFAULT_FILE: &str = "toolbus.toml";
/// The variable that names the file.
const FILE_VARIABLE: &str = "TOOLBUS_CONFIG";

/// Options of every service; flatten them into the service's own arguments.
#[derive(Debug, Clone, Default, Args)]
pub struct CommonArguments {
    /// Broker to join, such as amqp://user:password@host:5672, or the URLs of its nodes with commas
    /// between [env: TOOLBUS_BUS]
    #[arg(long, value_name = "URL", global = true)]
    pub bus: Option<Secret>,

    /// Settings file; without it toolbus.toml of the current folder, where there is one
    /// [env: TOOLBUS_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,

    /// Where to serve /healthz, /readyz and /status, such as 127.0.0.1:8080
    /// [env: TOOLBUS_HEALTH]
    #[arg(long, value_name = "ADDRESS", global = true)]
    pub health: Option<String>,

    /// Name of this instance [env: TOOLBUS_NAME]
    #[arg(long, value_name = "NAME", global = true)]
    pub name: Option<String>,

    /// What to log: a level, or directives such as info,toolbus_bus=debug [env: TOOLBUS_LOG]
    #[arg(long, value_name = "FILTER", global = true)]
    pub log: Option<String>,

    /// Ask the running process of the same settings whether it is ready, by its health port, and
    /// exit: 0 when it is. For the health checks of containers
    #[arg(long, global = true, conflicts_with = "print_config")]
    pub probe: bool,

    /// Print the effective settings and where each comes from, secrets masked, and exit
    #[arg(long, global = true)]
    pub print_config: bool,
}

impl CommonArguments {
    /// What the options set, for [`toolbus_config::Sources::arguments`].
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let text = |key, value: Option<&str>, flag| value.map(|v| Setting::text(key, v, flag));
        [
            text("bus.url", self.bus.as_ref().map(Secret::expose), "--bus"),
            text("health.address", self.health.as_deref(), "--health"),
            text("name", self.name.as_deref(), "--name"),
            text("log.filter", self.log.as_deref(), "--log"),
        ]
        .into_iter()
        .flatten()
        .collect()
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
