//! Which tools of a server may be seen and called: the operator's allow and deny lists.
//!
//! A list holds names and patterns, compared without case. In a pattern, `*` stands for any
//! characters, also none, and `?` for one.

/// Allowed and denied tools. What is denied is never allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// `None` allows every tool, and an empty list none.
    allowed: Option<Vec<ToolPattern>>,
    denied: Vec<ToolPattern>,
}

/// A name, or a pattern of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolPattern {
    /// As it was written.
    text: String,
    folded: Vec<char>,
}

impl ToolFilter {
    /// A filter from the two lists of an `mcp.json` entry.
    pub fn new<A, D>(allowed: Option<A>, denied: D) -> Self
    where
        A: IntoIterator<Item: AsRef<str>>,
        D: IntoIterator<Item: AsRef<str>>,
    {
        Self { allowed: allowed.map(|allowed| patterns_of(allowed)), denied: patterns_of(denied) }
    }

    /// Whether a tool of this name may be seen and called.
    #[must_use]
    pub fn permits(&self, tool: &str) -> bool {
        let is_listed = |list: &[ToolPattern]| list.iter().any(|pattern| pattern.matches(tool));
        self.allowed.as_deref().is_none_or(is_listed) && !is_listed(&self.denied)
    }

    /// Everything that either list holds.
    pub(crate) fn patterns(&self) -> impl Iterator<Item = &ToolPattern> {
        self.allowed.iter().flatten().chain(&self.denied)
    }
}

impl ToolPattern {
    fn new(text: &str) -> Self {
        Self { text: text.to_owned(), folded: text.to_lowercase().chars().collect() }
    }

    /// The pattern as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a tool's name is the one that is meant, or one of them.
    pub(crate) fn matches(&self, name: &str) -> bool {
        let name: Vec<char> = name.to_lowercase().chars().collect();
        let (mut at, mut in_name) = (0, 0);
        // The last `*`, and where in the name what follows it was last tried. Only the last one has
        // to be tried again, so the work is bounded by the product of the two lengths.
        let mut star: Option<(usize, usize)> = None;

        while in_name < name.len() {
            match self.folded.get(at) {
                Some('*') => {
                    star = Some((at, in_name));
                    at += 1;
                }
                Some(wanted) if *wanted == '?' || *wanted == name[in_name] => {
                    at += 1;
                    in_name += 1;
                }
                _ => {
                    let Some((star_at, tried)) = star else { return false };
                    star = Some((star_at, tried + 1));
                    at = star_at + 1;
                    in_name = tried + 1;
                }
            }
        }

        self.folded[at..].iter().all(|rest| *rest == '*')
    }
}

fn patterns_of(list: impl IntoIterator<Item: AsRef<str>>) -> Vec<ToolPattern> {
    list.into_iter().map(|text| ToolPattern::new(text.as_ref())).collect()
}

#[cfg(test)]
mod tests;
