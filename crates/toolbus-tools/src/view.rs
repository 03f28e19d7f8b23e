//! Views: which tools a scope may see at all.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::id::ToolId;

/// What the ids of tools begin with that are there inside a place alone, such as a subagent; the
/// name of the place follows: `inside:subagent/report_progress`.
pub const INSIDE_PREFIX: &str = "inside:";

/// Which tools are seen, by their ids. What is not seen is found nowhere: not by its name, and in
/// no list, guide or count. Clones are the same view.
#[derive(Debug, Clone, Default)]
pub struct View {
    /// Every rule has to let a tool through. `None`: everything is seen but what is
    /// inside a place.
    rules: Option<Arc<ViewRules>>,
}

#[derive(Debug)]
struct ViewRules {
    /// At least one of these patterns matches what is seen.
    only: Option<Vec<String>>,
    /// What one of these matches is not seen.
    without: Vec<String>,
    /// The tools inside this place are seen.
    inside: Option<String>,
    /// What this one does not see is not seen either.
    wider: View,
}

/// One step that narrows a view, as rows keep it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ViewStep {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    only: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    without: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inside: Option<String>,
}

impl View {
    /// Everything, but for what is [inside](View::inside) a place.
    #[must_use]
    pub const fn all() -> Self {
        Self { rules: None }
    }

    /// The part of this view whose ids match one of the patterns, in which `*` stands for any text:
    /// `mcp:github/*`.
    #[must_use]
    pub fn only<P: Into<String>>(&self, patterns: impl IntoIterator<Item = P>) -> Self {
        let only = patterns.into_iter().map(Into::into).collect();
        self.narrow_by(ViewRules { only: Some(only), ..ViewRules::of(self) })
    }

    /// The part of this view whose ids match none of the patterns.
    #[must_use]
    pub fn without<P: Into<String>>(&self, patterns: impl IntoIterator<Item = P>) -> Self {
        let without = patterns.into_iter().map(Into::into).collect();
        self.narrow_by(ViewRules { without, ..ViewRules::of(self) })
    }

    /// This view, and the tools that are there inside a place alone; see [`INSIDE_PREFIX`]. What a
    /// view hides that this one is a part of stays hidden.
    #[must_use]
    pub fn inside(&self, place: impl Into<String>) -> Self {
        self.narrow_by(ViewRules { inside: Some(place.into()), ..ViewRules::of(self) })
    }

    /// The steps that narrow it, the first one first.
    #[must_use]
    pub fn steps(&self) -> Vec<ViewStep> {
        let mut steps = Vec::new();
        let mut view = self;
        while let Some(rules) = &view.rules {
            let ViewRules { only, without, inside, wider } = &**rules;
            let (only, without, inside) = (only.clone(), without.clone(), inside.clone());
            steps.push(ViewStep { only, without, inside });
            view = wider;
        }
        steps.reverse();
        steps
    }

    /// The view that these steps make of everything.
    #[must_use]
    pub fn of_steps(steps: Vec<ViewStep>) -> Self {
        steps.into_iter().fold(Self::all(), |wider, step| {
            let ViewStep { only, without, inside } = step;
            wider.narrow_by(ViewRules { only, without, inside, wider: wider.clone() })
        })
    }

    /// Whether everything is seen.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.rules.is_none()
    }

    /// Whether this tool is seen.
    #[must_use]
    pub fn sees(&self, tool: &ToolId) -> bool {
        if let Some(inner) = tool.as_str().strip_prefix(INSIDE_PREFIX)
            && !self.is_inside(inner.split('/').next().unwrap_or_default())
        {
            return false;
        }
        self.lets_through(tool)
    }

    fn is_inside(&self, place: &str) -> bool {
        self.rules.as_ref().is_some_and(|rules| {
            rules.inside.as_deref() == Some(place) || rules.wider.is_inside(place)
        })
    }

    fn lets_through(&self, tool: &ToolId) -> bool {
        let Some(rules) = &self.rules else { return true };
        let matches = |patterns: &[String]| {
            patterns.iter().any(|pattern| matches_pattern(pattern, tool.as_str()))
        };
        rules.only.as_ref().is_none_or(|only| matches(only))
            && !matches(&rules.without)
            && rules.wider.lets_through(tool)
    }

    fn narrow_by(&self, rules: ViewRules) -> Self {
        Self { rules: Some(Arc::new(rules)) }
    }
}

impl ViewRules {
    /// Those that let through what a view sees.
    fn of(wider: &View) -> Self {
        Self { only: None, without: Vec::new(), inside: None, wider: wider.clone() }
    }
}

/// Whether a text is what a pattern says, in which `*` stands for any text. Only the last star is
/// ever tried again, so it takes at most the product of both lengths.
#[must_use]
pub fn matches_pattern(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let mut at_pattern = 0;
    let mut at_text = 0;
    let mut star = None;

    while at_text < text.len() {
        match pattern.get(at_pattern) {
            Some(b'*') => {
                star = Some((at_pattern, at_text));
                at_pattern += 1;
            }
            Some(byte) if *byte == text[at_text] => {
                at_pattern += 1;
                at_text += 1;
            }
            _ => {
                let Some((star_pattern, star_text)) = star else { return false };
                star = Some((star_pattern, star_text + 1));
                at_pattern = star_pattern + 1;
                at_text = star_text + 1;
            }
        }
    }

    pattern[at_pattern..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
