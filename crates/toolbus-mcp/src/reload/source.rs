//! One file that lists servers: what it said when it last made sense, and whether it says something
//! else now. Every state that it comes into is told once.

use std::io;
use std::path::{Path, PathBuf};

use toolbus_runtime::service::on_one_line;

use crate::config::{self, Config, Variables};

/// A file.
pub(super) struct Source {
    path: PathBuf,
    /// Whose it is: the operator may use variables of the environment in it.
    of_operator: bool,
    seen: Seen,
    /// What it said when it last made sense.
    pub(super) config: Config,
}

/// What was found at a path.
#[derive(PartialEq, Eq)]
pub(super) enum Seen {
    Text(String),
    Missing,
    Unreadable(io::ErrorKind),
}

impl Source {
    /// The operator's, which was read already.
    pub(super) fn of_operator(path: PathBuf, seen: Seen, config: Config) -> Self {
        Self { path, of_operator: true, seen, config }
    }

    /// That of agents, not read yet. Not to be there is what it usually is.
    pub(super) fn of_agents(path: PathBuf) -> Self {
        Self { path, of_operator: false, seen: Seen::Missing, config: Config::default() }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is something else than there was.
    pub(super) fn is_other(&self, seen: &Seen) -> bool {
        self.seen != *seen
    }

    /// Takes in what was found, as far as it makes sense, and tells the rest.
    pub(super) fn take(&mut self, seen: Seen) {
        if !self.is_other(&seen) {
            return;
        }
        let path = self.path.display();
        match &seen {
            Seen::Missing => tracing::warn!(%path, "the file is gone; its servers stay"),
            Seen::Unreadable(error) => {
                tracing::warn!(%path, %error, "the file cannot be read; its servers stay");
            }
            Seen::Text(text) => match self.parse(text) {
                Ok(config) => {
                    tell_mistakes(&path, &config);
                    if says_nothing(&config) {
                        tracing::error!(%path, "the file lists no servers; they stay as they are");
                    } else {
                        self.config = config;
                    }
                }
                Err(error) => {
                    let error = on_one_line(&error);
                    tracing::error!(%path, error, "the file cannot be used; its servers stay");
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
pub(super) fn look(path: &Path) -> Seen {
    match config::read_file(path) {
        Ok(text) => Seen::Text(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Seen::Missing,
        Err(error) => Seen::Unreadable(error.kind()),
    }
}

/// Whether the file as a whole is wrong, and not one entry of it.
fn says_nothing(config: &Config) -> bool {
    config.servers.is_empty() && config.mistakes.iter().any(|mistake| mistake.server.is_none())
}

fn tell_mistakes(path: &std::path::Display<'_>, config: &Config) {
    for mistake in &config.mistakes {
        tracing::error!(%path, %mistake, "a mistake in a list of MCP servers");
    }
}

#[cfg(test)]
mod tests;
