//! `mcp.json`: which servers there are. The text becomes entries, and every mistake in it is
//! reported at once, each with the server and the member that it is about.
//!
//! One bad entry is left out and does not stop the others. A member that is not known is a warning.
//! Apart from [`read_file`], nothing here touches files, processes or the network. Values that may
//! be secret (`env`, `headers`, the path and query of `url`, `args`) are in no `Debug` text and in
//! no mistake.

use std::fmt;
use std::io;
use std::path::Path;

use serde_json::Value;
use serde_json::error::Category;
use toolbus_json::{Limits, OverLimit};

use crate::server_name::ServerName;
use crate::small_file;

mod auth;
mod credential;
mod document;
mod entry;
mod issuer;
mod members;
mod sandbox;
mod template;
mod variables;

pub use auth::{AuthorizationCode, ClientCredentials, Grant};
pub(crate) use credential::find_credentials;
pub use credential::{is_reference, mask_arguments};
pub(crate) use entry::REGISTERED_BY;
pub use entry::{Endpoint, Entry, Launch, Protocol, SessionMode, Target, ToolChanges};
pub use issuer::Issuer;
pub use sandbox::{Isolation, Mount, SandboxPolicy, StdioIsolation};
pub use template::{CREDENTIAL_NAME_BYTES_MAX, is_credential_name};
pub(crate) use template::{CredentialValues, escape_for_address};
pub use variables::Variables;

/// Longest text that is read, in bytes.
pub const TEXT_BYTES_MAX: usize = 4 << 20;
/// What a text may have. One that is nested too deeply the parser refuses, which says where.
pub(crate) const TEXT_LIMITS: Limits = Limits::of_bytes(TEXT_BYTES_MAX).with_depth(usize::MAX);
/// Most servers of one file.
pub const SERVERS_MAX: usize = 512;

/// What a file says, as far as it makes sense.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Config {
    /// The entries without a mistake, in the order of the file.
    pub servers: Vec<Entry>,
    /// Everything that is wrong, in the order of the file.
    pub mistakes: Vec<Mistake>,
    /// What was ignored, such as members of other clients. The entries hold without it.
    pub warnings: Vec<Mistake>,
}

/// One thing that is wrong with the file, or ignored of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The server it is about, as the file names it.
    pub server: Option<String>,
    /// The member it is about, such as `url` or `headers.Authorization`.
    pub member: Option<String>,
    /// What is wrong, for a person to read.
    pub what: String,
}

/// Why a file says nothing at all.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not JSON.
    #[error("not JSON, at line {line}, column {column}")]
    NotJson {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What the parser says.
        #[source]
        source: serde_json::Error,
    },
    /// The text is JSON, and not an object.
    #[error("not a JSON object")]
    NotAnObject,
    /// The text is longer than [`TEXT_BYTES_MAX`].
    #[error("the text has {0} bytes, more than {TEXT_BYTES_MAX}")]
    TooLong(usize),
    /// The text exceeds another limit.
    #[error("the text cannot be read: {0}")]
    OverLimit(OverLimit),
}

impl Mistake {
    fn of_file(what: impl Into<String>) -> Self {
        Self { server: None, member: None, what: what.into() }
    }

    fn of_server(server: &str, what: impl Into<String>) -> Self {
        Self { server: Some(server.to_owned()), member: None, what: what.into() }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "server {server:?}: ")?;
        }
        if let Some(member) = &self.member {
            write!(f, "{member}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Reads a file of at most [`TEXT_BYTES_MAX`] bytes.
///
/// # Errors
/// When it is missing, longer, something else than a file, or cannot be read.
pub(crate) fn read_file(path: &Path) -> io::Result<String> {
    small_file::read_text(path, TEXT_BYTES_MAX as u64)
}

/// Parses the text of an `mcp.json`.
///
/// # Errors
/// When the text is not JSON or exceeds a limit. Everything else is a [`Mistake`] in the result.
pub fn parse(text: &str, variables: Variables<'_>) -> Result<Config, Error> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(Error::TooLong(text.len()));
    }

    let document = document::parse(text).map_err(|error| match error {
        toolbus_json::Error::OverLimit(over) => Error::OverLimit(over),
        toolbus_json::Error::Invalid(source) => match source.classify() {
            // Its text would quote the value.
            Category::Data => Error::NotAnObject,
            _ => Error::NotJson { line: source.line(), column: source.column(), source },
        },
    })?;
    let mut config = Config::default();

    for member in &document.strangers {
        let meant = members::nearest_member(member, &["mcpServers"]);
        config.warnings.push(Mistake {
            member: Some(member.clone()),
            ..Mistake::of_file(members::ignored_member_text(meant))
        });
    }

    match document.servers {
        document::ServersMember::Listed(servers) => config.add_servers(servers, variables),
        document::ServersMember::NotAnObject => {
            config.mistakes.push(Mistake::of_file("mcpServers has to be an object"));
        }
        document::ServersMember::Missing => {
            config.mistakes.push(Mistake::of_file("there is no mcpServers"));
        }
    }

    Ok(config)
}

impl Config {
    fn add_servers(&mut self, servers: Vec<(String, Value)>, variables: Variables<'_>) {
        if servers.len() > SERVERS_MAX {
            let what = format!("there are {} servers, more than {SERVERS_MAX}", servers.len());
            self.mistakes.push(Mistake::of_file(what));
        }

        let mut seen: Vec<ServerName> = Vec::new();
        for (name, value) in servers.into_iter().take(SERVERS_MAX) {
            if let Some(first) = seen.iter().find(|first| first.matches(&name)) {
                let what = format!("there is a server {:?} already", first.as_str());
                self.mistakes.push(Mistake::of_server(&name, what));
                continue;
            }

            if let Ok(name) = ServerName::parse(&name) {
                if let Some(first) = seen.iter().find(|first| first.looks_like(&name)) {
                    let what = format!("looks like server {:?}, which comes first", first.as_str());
                    self.mistakes.push(Mistake::of_server(name.as_str(), what));
                    continue;
                }
                seen.push(name);
            }

            let Value::Object(members) = value else {
                self.mistakes.push(Mistake::of_server(&name, "has to be an object"));
                continue;
            };

            let reading = Entry::read(&name, members, variables);
            self.warnings.extend(reading.warnings);
            match reading.entry {
                Ok(entry) => self.servers.push(entry),
                Err(mistakes) => self.mistakes.extend(mistakes),
            }
        }
    }
}

#[cfg(test)]
mod tests;
