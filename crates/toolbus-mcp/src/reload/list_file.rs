//! One file that lists servers: what it said when it last made sense, and whether it says something
//! else now. Every new state is logged once.

use std::io;
use std::path::{Path, PathBuf};

use toolbus_config::on_one_line;

use crate::config::{self, Config, Variables};

/// A file that lists servers.
pub(super) struct ListFile {
    path: PathBuf,
    /// Whether it is the operator's, who may use variables of the environment in it.
    of_operator: bool,
    seen: ListContent,
    /// What it said when it last made sense.
    pub(super) config: Config,
}

/// The content that was found at a path.
#[derive(PartialEq, Eq)]
pub(super) enum ListContent {
    Text(String),
    Missing,
    Unreadable(io::ErrorKind),
}

impl ListFile {
    /// The operator's, which was read already.
    pub(super) fn operators(path: PathBuf, seen: ListContent, config: Config) -> Self {
        Self { path, of_operator: true, seen, config }
    }

    /// That of agents, not read yet. Not to be there is what it usually is.
    pub(super) fn of_agents(path: PathBuf) -> Self {
        Self { path, of_operator: false, seen: ListContent::Missing, config: Config::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something else than there was.
    pub(super) fn differs_from(&self, seen: &ListContent) -> bool {
        self.seen != *seen
    }

    /// Takes over what was read, as far as it makes sense, and logs the rest.
    pub(super) fn update_from(&mut self, seen: ListContent) {
        if !self.differs_from(&seen) {
            return;
        }

        let path = self.path.display();
        match &seen {
            ListContent::Missing => {
                tracing::warn!(%path, "server list deleted; keeping its servers")
            }
            ListContent::Unreadable(error) => {
                tracing::warn!(%path, %error, "server list cannot be read; keeping its servers");
            }
            ListContent::Text(text) => match self.parse(text) {
                Ok(config) => {
                    log_mistakes(&path, &config);
                    if lists_no_servers(&config) {
                        tracing::error!(%path, "server list has no servers; keeping those there are");
                    } else {
                        self.config = config;
                    }
                }
                Err(error) => {
                    let error = on_one_line(&error);
                    tracing::error!(%path, error, "server list cannot be parsed; keeping its servers");
                }
            },
        }

        self.seen = seen;
    }

    fn parse(&self, text: &str) -> Result<Config, config::Error> {
        let variables = |name: &str| std::env::var(name).ok();
        let variables =
            if self.of_operator { Variables::From(&variables) } else { Variables::Refused };
        config::parse(text, variables)
    }
}

/// Looks at a file. Blocks.
pub(super) fn read_list(path: &Path) -> ListContent {
    match config::read_file(path) {
        Ok(text) => ListContent::Text(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => ListContent::Missing,
        Err(error) => ListContent::Unreadable(error.kind()),
    }
}

/// Whether the file as a whole is wrong, and not one entry of it.
fn lists_no_servers(config: &Config) -> bool {
    config.servers.is_empty() && config.mistakes.iter().any(|mistake| mistake.server.is_none())
}

fn log_mistakes(path: &std::path::Display<'_>, config: &Config) {
    for mistake in &config.mistakes {
        tracing::error!(%path, %mistake, "mistake in a list of MCP servers");
    }
    for warning in &config.warnings {
        tracing::warn!(%path, %warning, "ignored in a list of MCP servers");
    }
}

#[cfg(test)]
mod tests;
