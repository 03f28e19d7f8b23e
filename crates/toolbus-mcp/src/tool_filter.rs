//! Which tools of a server may be seen and called: the operator's allow and deny lists.

use std::collections::HashSet;

/// Allowed and denied tools, by name without case.
///
/// Where anything is allowed by name, only that is, and what is denied by name says nothing more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    allowed: HashSet<String>,
    denied: HashSet<String>,
}

impl ToolFilter {
    /// A filter from the two lists of an `mcp.json` entry.
    pub fn new<A, D>(allowed: A, denied: D) -> Self
    where
        A: IntoIterator<Item: AsRef<str>>,
        D: IntoIterator<Item: AsRef<str>>,
    {
        Self {
            allowed: allowed.into_iter().map(|name| name.as_ref().to_lowercase()).collect(),
            denied: denied.into_iter().map(|name| name.as_ref().to_lowercase()).collect(),
        }
    }

    /// Whether a tool of this name may be seen and called.
    #[must_use]
    pub fn permits(&self, tool: &str) -> bool {
        match (self.allowed.is_empty(), self.denied.is_empty()) {
            (true, true) => true,
            (true, false) => !self.denied.contains(&tool.to_lowercase()),
            (false, _) => self.allowed.contains(&tool.to_lowercase()),
        }
    }
}

#[cfg(test)]
mod tests;
