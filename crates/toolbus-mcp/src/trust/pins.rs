//! What is pinned of one server, and the verdict on what it lists now.
//!
//! A name keeps its pin when its tool vanishes, so a tool that comes back as another is found out.
//! Nothing here touches files; time is given.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use super::definition::Definition;
use super::difference::describe_difference;
use super::pinned_item::PinnedItem;
use crate::catalogue::CATALOGUE_BYTES_MAX;
use crate::config::ToolChanges;

/// Most tools of one server that are pinned, those that have vanished included; and most prompts.
pub(crate) const PINS_MAX: usize = 20_000;
/// Most changes of one server whose difference is kept; of the others only that they were.
const DIFFERENCES_MAX: usize = 100;
/// The form of the document; a newer one is left alone.
pub(crate) const VERSION: u32 = 2;
/// Makes an item of a name.
type ItemOf = fn(&str) -> PinnedItem;
/// The name of the one pin of an introduction.
const INTRODUCTION: &str = "introduction";

/// What is known of one server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PinDocument {
    pub(crate) version: u32,
    /// The server, for people who read the file.
    pub(crate) server: String,
    /// What was pinned is lost, and what is there instead has not been accepted.
    #[serde(default)]
    pub(crate) lost: bool,
    pub(crate) tools: PinGroup,
    /// Nothing until prompts were listed for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) prompts: Option<PinGroup>,
    /// One pin; nothing until it was seen for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) introduction: Option<PinGroup>,
}

/// The form of the document before there was more than tools in it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolPinDocument {
    #[serde(rename = "version")]
    _version: u32,
    server: String,
    tools: BTreeMap<String, Pin>,
    #[serde(default)]
    lost: bool,
    #[serde(default)]
    withheld: BTreeMap<String, PinnedDefinition>,
}

/// The pins of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PinGroup {
    /// By name, as they were first seen or last accepted.
    pub(crate) pins: BTreeMap<String, Pin>,
    /// Definitions that are held back, by name.
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

/// A definition that is pinned, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Pin {
    pub(crate) kept: PinnedDefinition,
    /// When one of this name was first seen, in Unix milliseconds.
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

/// What a server lists now.
#[derive(Debug, Clone, Default)]
pub(crate) struct ListedDefinitions {
    pub(crate) tools: Vec<(String, Definition)>,
    /// Nothing where they could not be listed.
    pub(crate) prompts: Option<Vec<(String, Definition)>>,
    /// Nothing where it is not known.
    pub(crate) introduction: Option<Definition>,
}

/// The verdict on a listing.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// What has changed since the last listing, with the difference.
    pub(crate) changes: Vec<(PinnedItem, Vec<String>)>,
    /// Whether the document is another than before.
    pub(crate) edited: bool,
    /// Tools and prompts that found no room among the pins.
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

    /// What it says, where nothing is known of before.
    pub(crate) fn as_new(&self) -> Vec<String> {
        if self.definition.is_empty() {
            return vec!["its definition".to_owned()];
        }
        describe_difference("{}", &self.definition)
    }
}

impl From<ToolPinDocument> for PinDocument {
    fn from(older: ToolPinDocument) -> Self {
        let ToolPinDocument { server, tools, lost, withheld, .. } = older;
        Self { lost, tools: PinGroup { pins: tools, withheld }, ..Self::new(&server) }
    }
}

impl PinDocument {
    /// Nothing is known of the server.
    pub(crate) fn new(server: &str) -> Self {
        Self {
            version: VERSION,
            server: server.to_owned(),
            lost: false,
            tools: PinGroup::default(),
            prompts: None,
            introduction: None,
        }
    }

    /// Every kind of pins that there is, with what makes an item of a name.
    pub(crate) fn groups(&self) -> impl Iterator<Item = (&PinGroup, ItemOf)> {
        let prompts = self.prompts.as_ref().map(|group| (group, prompt_item as ItemOf));
        let introduction = self.introduction.as_ref();
        let introduction = introduction.map(|group| (group, introduction_item as ItemOf));

        [Some((&self.tools, tool_item as ItemOf)), prompts, introduction].into_iter().flatten()
    }

    fn groups_mut(&mut self) -> impl Iterator<Item = (&mut PinGroup, ItemOf)> {
        let prompts = self.prompts.as_mut().map(|group| (group, prompt_item as ItemOf));
        let introduction = self.introduction.as_mut();
        let introduction = introduction.map(|group| (group, introduction_item as ItemOf));

        [Some((&mut self.tools, tool_item as ItemOf)), prompts, introduction].into_iter().flatten()
    }

    /// Compares what is listed now with what is pinned, and takes in what the policy lets in.
    pub(crate) fn review_listing(
        &mut self,
        listed: &ListedDefinitions,
        prior: PriorPins,
        policy: ToolChanges,
        now_ms: u64,
    ) -> Verdict {
        let lost = prior == PriorPins::Lost || self.lost;
        let lost = lost && policy == ToolChanges::Quarantine;
        let verdict = Verdict { edited: lost != self.lost, ..Verdict::default() };
        self.lost = lost;

        let pins = self.groups().flat_map(|(group, _)| group.pins.values());
        let kept = pins.filter(|pin| pin.changed.is_some()).count();
        let room = DIFFERENCES_MAX.saturating_sub(kept);
        let mut review = Review { policy, is_lost: lost, now_ms, room, verdict };
        let is_first = prior != PriorPins::Known;

        review.review_group(&mut self.tools, &listed.tools, tool_item, is_first);
        if let Some(prompts) = &listed.prompts {
            review.review_optional(&mut self.prompts, prompts, prompt_item, is_first);
        }
        if let Some(introduction) = &listed.introduction {
            let listed = [(INTRODUCTION.to_owned(), introduction.clone())];
            review.review_optional(&mut self.introduction, &listed, introduction_item, is_first);
        }

        review.verdict
    }

    /// Takes what is held back, of one item or of all, and the changes that were announced, as seen
    /// by a person. Answers the items.
    pub(crate) fn accept(&mut self, item: Option<&PinnedItem>, now_ms: u64) -> Vec<PinnedItem> {
        self.lost &= item.is_some();
        let mut accepted = Vec::new();

        for (group, item_of) in self.groups_mut() {
            let wanted = |name: &str| item.is_none_or(|item| *item == item_of(name));
            accepted.extend(group.accept(wanted, now_ms).iter().map(|name| item_of(name)));
        }

        accepted
    }
}

impl PinGroup {
    /// Takes what is held back of these names, and their announced changes. Answers the names.
    fn accept(&mut self, wanted: impl Fn(&str) -> bool, now_ms: u64) -> Vec<String> {
        let mut accepted = Vec::new();
        for (name, pin) in self.pins.iter_mut().filter(|(name, _)| wanted(name)) {
            if pin.changed.take().is_some() {
                accepted.push(name.clone());
            }
        }

        let names: Vec<String> =
            self.withheld.keys().filter(|name| wanted(name)).cloned().collect();
        for name in names {
            let Some(kept) = self.withheld.remove(&name) else { continue };
            let first_seen_ms = self.pins.get(&name).map_or(now_ms, |pin| pin.first_seen_ms);
            self.pins.insert(name.clone(), Pin { kept, first_seen_ms, changed: None });
            if !accepted.contains(&name) {
                accepted.push(name);
            }
        }

        accepted
    }
}

/// One comparison of a listing with the pins.
struct Review {
    policy: ToolChanges,
    /// What was pinned is lost, and that matters.
    is_lost: bool,
    now_ms: u64,
    /// How many more differences are kept.
    room: usize,
    verdict: Verdict,
}

impl Review {
    /// Compares what may be seen for the first time though the server is known.
    fn review_optional(
        &mut self,
        group: &mut Option<PinGroup>,
        listed: &[(String, Definition)],
        item_of: ItemOf,
        is_first: bool,
    ) {
        let is_first = is_first || group.is_none();
        self.verdict.edited |= group.is_none();
        self.review_group(group.get_or_insert_default(), listed, item_of, is_first);
    }

    fn review_group(
        &mut self,
        group: &mut PinGroup,
        listed: &[(String, Definition)],
        item_of: ItemOf,
        is_first: bool,
    ) {
        for one in listed {
            let (name, definition) = one;
            let changed = match group.pins.get(name) {
                Some(pin) if pin.kept.digest == definition.digest => {
                    self.verdict.edited |= group.withheld.remove(name).is_some();
                    continue;
                }
                Some(pin) => Some(pin.kept.difference(&definition.text)),
                None => self.review_new(group, definition, is_first),
            };

            let Some(difference) = changed else {
                self.pin(group, name, definition, None);
                continue;
            };
            match self.policy {
                ToolChanges::Announce if !is_pinnable(group, name) => self.verdict.unpinned += 1,
                ToolChanges::Announce => {
                    self.pin(group, name, definition, Some(&difference));
                    self.verdict.changes.push((item_of(name), difference));
                }
                ToolChanges::Quarantine => {
                    self.verdict.unpinned += usize::from(!is_pinnable(group, name));
                    self.withhold(group, item_of(name), one, difference);
                }
            }
        }

        self.drop_unneeded(group, listed);
    }

    /// What is to be said of a name that has no pin; nothing where it is to be pinned silently.
    fn review_new(
        &self,
        group: &PinGroup,
        definition: &Definition,
        is_first: bool,
    ) -> Option<Vec<String>> {
        if self.is_lost {
            return Some(vec!["what was pinned of it is lost".to_owned()]);
        }
        // A name that finds no room could come back as anything.
        if group.pins.len() >= PINS_MAX {
            return Some(vec![format!("{PINS_MAX} of its kind are pinned already")]);
        }
        if is_first {
            return None;
        }

        Some(match self.policy {
            ToolChanges::Announce => vec!["it is new".to_owned()],
            ToolChanges::Quarantine => PinnedDefinition::of(definition).as_new(),
        })
    }

    fn pin(
        &mut self,
        group: &mut PinGroup,
        name: &str,
        definition: &Definition,
        difference: Option<&Vec<String>>,
    ) {
        let before = group.pins.get(name);
        let had_change = before.is_some_and(|pin| pin.changed.is_some());
        let first_seen_ms = before.map_or(self.now_ms, |pin| pin.first_seen_ms);
        let keeps = self.room > 0 || had_change;
        self.room = self.room.saturating_sub(usize::from(difference.is_some()));

        let changed = difference.map(|difference| UnacceptedChange {
            at_ms: self.now_ms,
            difference: if keeps { difference.clone() } else { Vec::new() },
        });
        let pin = Pin { kept: PinnedDefinition::of(definition), first_seen_ms, changed };
        group.pins.insert(name.to_owned(), pin);
        group.withheld.remove(name);
        self.verdict.edited = true;
    }

    fn withhold(
        &mut self,
        group: &mut PinGroup,
        item: PinnedItem,
        listed: &(String, Definition),
        difference: Vec<String>,
    ) {
        let (name, definition) = listed;
        let kept = PinnedDefinition::of(definition);
        if group.withheld.get(name) != Some(&kept) {
            group.withheld.insert(name.clone(), kept);
            self.verdict.edited = true;
            self.verdict.changes.push((item, difference));
        }
    }

    /// Lets go of what is not needed to recognise a change: what was held back of a name that is
    /// gone, and definitions of vanished names where there is much of them.
    fn drop_unneeded(&mut self, group: &mut PinGroup, listed: &[(String, Definition)]) {
        let names: HashSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();
        let before = group.withheld.len();
        group.withheld.retain(|name, _| names.contains(name.as_str()));
        self.verdict.edited |= group.withheld.len() != before;

        let bytes: usize = group.pins.values().map(|pin| pin.kept.definition.len()).sum();
        if bytes > CATALOGUE_BYTES_MAX {
            let vanished = group.pins.iter_mut().filter(|(name, _)| !names.contains(name.as_str()));
            for (_, pin) in vanished {
                self.verdict.edited |= !pin.kept.definition.is_empty();
                pin.kept.definition.clear();
            }
        }
    }
}

/// Whether there is a pin of this name, or room for one.
fn is_pinnable(group: &PinGroup, name: &str) -> bool {
    group.pins.len() < PINS_MAX || group.pins.contains_key(name)
}

fn tool_item(name: &str) -> PinnedItem {
    PinnedItem::Tool(name.to_owned())
}

fn prompt_item(name: &str) -> PinnedItem {
    PinnedItem::Prompt(name.to_owned())
}

fn introduction_item(_: &str) -> PinnedItem {
    PinnedItem::Introduction
}

#[cfg(test)]
mod tests;
