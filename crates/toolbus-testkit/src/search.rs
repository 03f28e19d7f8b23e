//! What searches for tools are tried with: a real model, and the tools of real servers.

use std::path::PathBuf;

/// The weights and the tokenizer of wordllama, a static model of 256 dimensions. `None` where it
/// has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn wordllama() -> Option<(PathBuf, PathBuf)> {
    let folder = crate::parts::folder("wordllama")?;
    Some((folder.join("weights.safetensors"), folder.join("tokenizer.json")))
}

/// The folder of all-MiniLM-L6-v2, a transformer of 384 dimensions. `None` where it has not been
/// fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn minilm() -> Option<PathBuf> {
    Some(crate::parts::folder("minilm")?.join("model"))
}

/// A JSON array of the tools of 68 MCP servers that others wrote: `server`, `name`,
/// `description`, `parameters`. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn tool_catalogue() -> Option<PathBuf> {
    Some(crate::parts::folder("tool-catalogue")?.join("catalogue.json"))
}
