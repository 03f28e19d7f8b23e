//! What a server offers beside tools: its prompts, and how many resources it has.
//!
//! Prompts are few and are kept; resources may be many and are listed on request. What a
//! prompt says of itself passes the check for hidden text, as what tools say does.

use serde_json::Value;
use toolbus_tools::hidden_text::{self, HiddenCounts};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::McpFeature;

use crate::trust::definition::Definition;
use crate::trust::findings::{Findings, NameFault, quote_name};
use crate::written_definition::WrittenDefinition;

/// Most prompts of one server; those after are not taken.
pub(crate) const PROMPTS_MAX: usize = 1_000;
/// Longest name of a prompt, in bytes. The protocol says nothing of it; a longer one is a text.
pub(crate) const PROMPT_NAME_BYTES_MAX: usize = 128;
/// Most bytes that are kept of the prompts of one server.
const PROMPTS_BYTES_MAX: usize = 1 << 20;
/// Most resources and templates of one server that are counted.
pub(crate) const RESOURCES_MAX: usize = 10_000;

/// What one server offers beside tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Prompts as the server describes them, by their names, in the server's order.
    pub(crate) prompts: Vec<(String, RawJson)>,
    /// Resources and templates of resources.
    pub(crate) resources: usize,
    pub(crate) features: Features,
    /// What was found in the prompts.
    pub(crate) findings: Findings,
    /// What pins are compared with, until the listing has been looked through; nothing where the
    /// prompts are those of the listing before.
    pub(crate) definitions: Option<Vec<(String, Definition)>>,
}

/// What a server can do beside giving what it lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// It proposes values for arguments.
    pub(crate) completions: bool,
    /// It notifies subscribers of resources that have changed.
    pub(crate) subscriptions: bool,
}

impl Features {
    /// The features as agents read them; `None` when there are none.
    pub(crate) fn to_wire(self) -> Option<Vec<McpFeature>> {
        let features = [
            (McpFeature::Completions, self.completions),
            (McpFeature::ResourceSubscriptions, self.subscriptions),
        ];
        let features = features.into_iter().filter(|(_, is_there)| *is_there);
        let features: Vec<_> = features.map(|(feature, _)| feature).collect();
        (!features.is_empty()).then_some(features)
    }
}

impl Offer {
    /// The prompts of a listing, within the limits and without what is hidden in their texts. One
    /// with something hidden in a name is not taken: its name is what it is asked for by.
    pub(crate) fn prompts_of(listed: Vec<RawJson>) -> Self {
        let mut bytes = 0;
        let mut prompts: Vec<(String, RawJson)> = Vec::new();
        let mut definitions = Vec::new();
        let mut findings = Findings::default();

        for written in listed.into_iter().take(PROMPTS_MAX) {
            let Some((name, described, definition)) = read_prompt(&written, &mut findings) else {
                continue;
            };
            bytes += described.text().len();
            let is_known = prompts.iter().any(|(known, _)| *known == name);
            if bytes > PROMPTS_BYTES_MAX || is_known {
                continue;
            }

            definitions.push((name.clone(), definition));
            prompts.push((name, described));
        }

        Self { prompts, findings, definitions: Some(definitions), ..Self::default() }
    }

    /// The definitions of its prompts, which are not kept here.
    pub(crate) fn take_definitions(&mut self) -> Option<Vec<(String, Definition)>> {
        self.definitions.take()
    }

    /// Hides these prompts.
    pub(crate) fn hold_back(&mut self, is_held_back: impl Fn(&str) -> bool) {
        self.prompts.retain(|(name, _)| !is_held_back(name));
    }

    /// Whether a prompt of exactly this name may be seen.
    pub(crate) fn lists_prompt(&self, name: &str) -> bool {
        self.prompts.iter().any(|(listed, _)| listed == name)
    }

    pub(crate) fn prompt_count(&self) -> Option<u32> {
        nonzero_count(self.prompts.len())
    }

    pub(crate) fn resource_count(&self) -> Option<u32> {
        nonzero_count(self.resources)
    }

    pub(crate) fn prompt_names(&self) -> Option<Vec<String>> {
        let names = || self.prompts.iter().map(|(name, _)| name.clone()).collect();
        (!self.prompts.is_empty()).then(names)
    }

    pub(crate) fn prompt_details(&self) -> Option<Vec<RawJson>> {
        let details = || self.prompts.iter().map(|(_, details)| details.clone()).collect();
        (!self.prompts.is_empty()).then(details)
    }
}

/// Reads a prompt without what is hidden in its texts. `None` when something is hidden in a name,
/// or it is no prompt.
fn read_prompt(
    written: &RawJson,
    findings: &mut Findings,
) -> Option<(String, RawJson, Definition)> {
    let mut read = WrittenDefinition::read(written)?;
    let name = read.text("name")?.to_owned();
    let place = || format!("prompt {}", quote_name(&name));
    let arguments = argument_names(&read)?;

    if !(1..=PROMPT_NAME_BYTES_MAX).contains(&name.len()) {
        findings.refuse(place(), NameFault::Length);
        return None;
    }

    let has_clean_names = hidden_text::is_clean_name(&name)
        && arguments.iter().all(|argument| hidden_text::is_clean_name(argument));
    let mut found = HiddenCounts::default();
    if !read.clean(&mut found) || !has_clean_names {
        findings.refuse(place(), NameFault::Hidden);
        return None;
    }

    if !found.is_empty() {
        findings.hidden.push((place(), found));
    }
    let described = read.without(&[])?;
    Some((name, described, read.into_definition()))
}

/// The names of a prompt's arguments; `None` where they are none that a client could give.
fn argument_names(read: &WrittenDefinition<'_>) -> Option<Vec<String>> {
    let Some(arguments) = read.get("arguments") else { return Some(Vec::new()) };
    let name = |argument: &Value| argument.get("name")?.as_str().map(str::to_owned);
    arguments.as_array()?.iter().map(name).collect()
}

/// The count for the wire, where members of nothing are left out.
fn nonzero_count(count: usize) -> Option<u32> {
    (count > 0).then(|| u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests;
