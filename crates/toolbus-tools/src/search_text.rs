//! What a tool is found by, made ready once for every search.

use crate::tool::Tool;

/// Name and description of a tool in lower case.
#[derive(Debug)]
pub(crate) struct SearchText {
    name: Box<str>,
    description: Box<str>,
}

impl SearchText {
    pub(crate) fn of(tool: &Tool) -> Self {
        let name = lower_case(&tool.name).into();
        Self { name, description: lower_case(&tool.description).into() }
    }

    /// Whether name or description has this text, which is in lower case.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.name.contains(text) || self.description.contains(text)
    }
}

/// A text in lower case, each character by itself: what a part of a text becomes does not depend on
/// what stands around it, so that a part is found in the whole.
pub(crate) fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}
