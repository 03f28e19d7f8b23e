//! What is pinned of one server, and the verdict on what it lists now.
//!
//! A name keeps its pin when its tool vanishes, so a tool that comes back as another is found out.
//! Nothing here touches files; time is given.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::difference::describe_difference;
use crate::catalogue::CATALOGUE_BYTES_MAX;
use crate::config::ToolChanges;

/// Most tools of one server that are pinned, those that have vanished included.
pub(crate) const PINS_MAX: usize = 20_000;
/// Most changes of one server whose difference is kept; of the others only that they were.
const DIFFERENCES_MAX: usize = 100;
/// The form of the document; a newer one is left alone.
pub(crate) const VERSION: u32 = 1;

/// What is known of the tools of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PinDocument {
    pub(crate) version: u32,
    /// The server, for people who read the file.
    pub(crate) server: String,
    /// Tools by name, as they were first seen or last taken.
    pub(crate) tools: BTreeMap<String, Pin>,
    /// What was pinned is lost, and what is there instead has not been accepted.
    #[serde(default)]
    pub(crate) lost: bool,
    /// Definitions that are held back, by the names of their tools.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) withheld: BTreeMap<String, PinnedDefinition>,
}

/// A definition that is pinned or held back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PinnedDefinition {
    /// SHA-256 of the definition.
    pub(crate) digest: String,
    /// The definition as canonical JSON; empty where it was too much to keep.
    pub(crate) definition: String,
}

/// A tool that is pinned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pin {
    /// Its definition.
    pub(crate) kept: PinnedDefinition,
    /// When a tool of this name was first seen, in Unix milliseconds.
    pub(crate) first_seen_ms: u64,
    /// Its last change that has not been accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) changed: Option<UnacceptedChange>,
}

/// A change that was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct UnacceptedChange {
    /// When, in Unix milliseconds.
    pub(crate) at_ms: u64,
    /// What, line by line.
    pub(crate) difference: Vec<String>,
}

/// The pins of a server before a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PriorPins {
    /// Nothing: the server is seen for the first time.
    First,
    /// A document.
    Known,
    /// A document that could not be read, so that changes cannot be recognised.
    Lost,
}

/// The verdict on a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Tools that have changed since the last listing, with the difference.
    pub(crate) changes: Vec<(String, Vec<String>)>,
    /// Whether the document is another than before.
    pub(crate) edited: bool,
    /// Tools that found no room among the pins.
    pub(crate) unpinned: usize,
}

impl PinnedDefinition {
    fn of(definition: &Definition) -> Self {
        Self { digest: definition.digest.clone(), definition: definition.text.clone() }
    }

    /// The difference between this and another definition.
    pub(crate) fn difference(&self, new: &str) -> Vec<String> {
        if self.definition.is_empty() || new.is_empty() {
            return vec!["its definition; the former one was too much to keep".to_owned()];
        }
        describe_difference(&self.definition, new)
    }
}

impl PinDocument {
    /// Nothing is known of the server.
    pub(crate) fn new(server: &str) -> Self {
        Self {
            version: VERSION,
            server: server.to_owned(),
            tools: BTreeMap::new(),
            withheld: BTreeMap::new(),
            lost: false,
        }
    }

    /// Compares what is listed now with what is pinned, and takes in what the policy lets in.
    pub(crate) fn review_listing(
        &mut self,
        listed: &[(String, Definition)],
        prior: PriorPins,
        policy: ToolChanges,
        now_ms: u64,
    ) -> Verdict {
        let lost = prior == PriorPins::Lost || self.lost;
        let lost = lost && policy == ToolChanges::Quarantine;
        let mut verdict = Verdict { edited: lost != self.lost, ..Verdict::default() };
        self.lost = lost;

        let kept = self.tools.values().filter(|pin| pin.changed.is_some()).count();
        let mut room = DIFFERENCES_MAX.saturating_sub(kept);
        for (name, definition) in listed {
            let is_full = self.tools.len() >= PINS_MAX;

            let refusal = match (self.tools.get_mut(name), policy) {
                (Some(pin), _) if pin.kept.digest == definition.digest => {
                    verdict.edited |= self.withheld.remove(name).is_some();
                    continue;
                }
                (Some(pin), ToolChanges::Announce) => {
                    let difference = pin.kept.difference(&definition.text);
                    let keep = room > 0 || pin.changed.is_some();
                    room = room.saturating_sub(1);
                    let noted = if keep { difference.clone() } else { Vec::new() };
                    pin.changed = Some(UnacceptedChange { at_ms: now_ms, difference: noted });
                    pin.kept = PinnedDefinition::of(definition);
                    self.withheld.remove(name);
                    verdict.edited = true;
                    verdict.changes.push((name.clone(), difference));
                    continue;
                }
                (Some(pin), ToolChanges::Quarantine) => pin.kept.difference(&definition.text),
                (None, ToolChanges::Quarantine) if self.lost => {
                    vec!["what was pinned of it is lost".to_owned()]
                }
                (None, policy) if is_full => {
                    verdict.unpinned += 1;
                    if policy == ToolChanges::Announce {
                        continue;
                    }
                    // A name that finds no room could come back as anything.
                    vec![format!("{PINS_MAX} tools are pinned already")]
                }
                (None, _) => {
                    let kept = PinnedDefinition::of(definition);
                    let pin = Pin { kept, first_seen_ms: now_ms, changed: None };
                    self.tools.insert(name.clone(), pin);
                    self.withheld.remove(name);
                    verdict.edited = true;
                    continue;
                }
            };

            self.withhold_changes(name, definition, refusal, &mut verdict);
        }

        self.drop_unneeded(listed, &mut verdict);
        verdict
    }

    fn withhold_changes(
        &mut self,
        name: &str,
        definition: &Definition,
        difference: Vec<String>,
        verdict: &mut Verdict,
    ) {
        let kept = PinnedDefinition::of(definition);
        if self.withheld.get(name) != Some(&kept) {
            self.withheld.insert(name.to_owned(), kept);
            verdict.edited = true;
            verdict.changes.push((name.to_owned(), difference));
        }
    }

    /// Lets go of what is not needed to recognise a tool: what was held back of one that is gone,
    /// and definitions of vanished tools where there is much of them.
    fn drop_unneeded(&mut self, listed: &[(String, Definition)], verdict: &mut Verdict) {
        let names: HashSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        let before = self.withheld.len();
        self.withheld.retain(|name, _| names.contains(name.as_str()));
        verdict.edited |= self.withheld.len() != before;

        let bytes: usize = self.tools.values().map(|pin| pin.kept.definition.len()).sum();
        if bytes > CATALOGUE_BYTES_MAX {
            let vanished = self.tools.iter_mut().filter(|(name, _)| !names.contains(name.as_str()));
            for (_, pin) in vanished {
                verdict.edited |= !pin.kept.definition.is_empty();
                pin.kept.definition.clear();
            }
        }
    }

    /// Takes what is held back of one tool or of all, and the changes that were announced, as seen
    /// by a person. Answers the names.
    pub(crate) fn accept(&mut self, tool: Option<&str>, now_ms: u64) -> Vec<String> {
        let wanted = |name: &str| tool.is_none_or(|tool| tool == name);
        self.lost &= tool.is_some();
        let mut accepted = Vec::new();

        for (name, pin) in self.tools.iter_mut().filter(|(name, _)| wanted(name)) {
            if pin.changed.take().is_some() {
                accepted.push(name.clone());
            }
        }

        let names: Vec<String> =
            self.withheld.keys().filter(|name| wanted(name)).cloned().collect();
        for name in names {
            let Some(kept) = self.withheld.remove(&name) else { continue };
            let first_seen_ms = self.tools.get(&name).map_or(now_ms, |pin| pin.first_seen_ms);
            self.tools.insert(name.clone(), Pin { kept, first_seen_ms, changed: None });
            if !accepted.contains(&name) {
                accepted.push(name);
            }
        }

        accepted
    }
}

#[cfg(test)]
mod tests;
