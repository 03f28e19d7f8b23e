//! `oidc-provider`, an OpenID Connect server that others wrote and have certified: what it takes
//! for an authorization is one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The server as a library for Node.js.
#[derive(Debug, Clone)]
pub struct Oidc {
    folder: PathBuf,
}

/// The library. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn library() -> Option<Oidc> {
    crate::parts::folder("oidc").map(|folder| Oidc { folder })
}

impl Oidc {
    /// A command that runs a script, which finds the library's module in its first argument.
    pub fn command(&self, script: &Path) -> Command {
        let mut command = Command::new(self.folder.join("node"));
        command.arg(script).arg(self.folder.join("node_modules/oidc-provider/lib/index.js"));
        command
    }
}
