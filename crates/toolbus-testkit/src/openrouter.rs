//! OpenRouter's own client, which is made from the published description of its API: what it sends
//! is right, and what it takes for an answer is one.

use std::path::PathBuf;
use std::process::Command;

/// The client as a library for Node.js.
#[derive(Debug, Clone)]
pub struct Sdk {
    folder: PathBuf,
}

/// The client. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn sdk() -> Option<Sdk> {
    crate::parts::folder("openrouter-sdk").map(|folder| Sdk { folder })
}

impl Sdk {
    /// A command that runs this module, whose text can import `@openrouter/sdk`.
    pub fn command(&self, module: &str) -> Command {
        let mut command = Command::new(self.folder.join("node"));
        command.current_dir(&self.folder).args(["--input-type=module", "--eval", module, "--"]);
        command
    }
}
