//! What vendors of models publish of their APIs, as types of Python: what fits them is a request
//! that their own clients would make.

use std::process::Command;

/// A Python that has `openai`, `anthropic` and `mcp_types`. `None` where it has not been fetched
/// and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn python() -> Option<Command> {
    let folder = crate::parts::folder("model-sdks")?;
    Some(Command::new(folder.join("bin/python")))
}
