//! The files in which scenarios are listed with a cause in words.

use std::path::Path;

use anyhow::Context as _;
use serde_json::Value;

/// One entry of such a file.
pub(super) struct CauseEntry<'a>(&'a Value);

impl CauseEntry<'_> {
    pub(super) fn text(&self, member: &str) -> anyhow::Result<String> {
        text_of(&self.0[member])
    }

    /// A text that may be missing.
    pub(super) fn optional_text(&self, member: &str) -> anyhow::Result<Option<String>> {
        self.0.get(member).map(text_of).transpose()
    }

    /// A yes or no that is no where it is missing.
    pub(super) fn flag(&self, member: &str) -> anyhow::Result<bool> {
        let Some(value) = self.0.get(member) else { return Ok(false) };
        value.as_bool().with_context(|| format!("{member} is neither true nor false"))
    }

    pub(super) fn scenarios(&self) -> anyhow::Result<Vec<String>> {
        let scenarios = self.0["scenarios"].as_array().context("scenarios are missing")?;
        scenarios.iter().map(text_of).collect()
    }
}

fn text_of(value: &Value) -> anyhow::Result<String> {
    value.as_str().map(str::to_owned).context("a text is missing")
}

/// What a file says; errors name it.
pub(super) fn read_list<T>(
    path: &Path,
    parse: impl FnOnce(&str) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let read = std::fs::read_to_string(path).map_err(anyhow::Error::from);
    read.and_then(|text| parse(&text)).with_context(|| path.display().to_string())
}

/// All entries.
pub(super) fn parse_list<T>(
    text: &str,
    read: impl Fn(CauseEntry<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<Vec<T>> {
    let value: Value = serde_json::from_str(text)?;
    let all = value.as_array().context("it is not a list")?;
    all.iter().map(|entry| read(CauseEntry(entry))).collect()
}
