//! Trust in what servers say about themselves: definitions are pinned at first sight, changes are
//! announced or held back, hidden characters are taken out.
//!
//! Everything that a server lists passes [`Trust::review_listing`] before anybody sees it. What a
//! tool *answers* is not looked at: it is passed on as untrusted content and marked so.

pub(crate) mod definition;
mod difference;
pub(crate) mod findings;
mod operator;
mod pin_store;
mod pinned_item;
mod pins;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use toolbus_tools::hidden_text::{self, HiddenCounts};

use crate::catalogue::{Catalogue, clean_beside};
use crate::config::{Entry, ToolChanges};
use crate::connection::ServerIdentity;
use crate::failure::Failure;
use crate::offer::Offer;
use definition::Definition;
use findings::{Findings, Withheld};
use pins::{ListedDefinitions, PinDocument, Verdict};

pub use operator::{AcceptError, PendingChange};
pub use pin_store::{Error, Pins};
pub(crate) use pin_store::{FileStamp, PinOwner};
pub use pinned_item::PinnedItem;

/// Most changes of one listing that are logged one by one.
const LOGGED_MAX: usize = 20;
/// How often the pins are checked for an edit by a person, who has accepted what is held back.
const EDIT_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The trust rules of one set of servers.
pub(crate) struct Trust {
    pins: Pins,
    tool_changes: ToolChanges,
    /// When the set was started, and for how long after that servers count as there from the start.
    started_ms: u64,
    startup_ms: u64,
}

/// A listing that may be shown.
pub(crate) struct Reviewed {
    pub(crate) identity: ServerIdentity,
    pub(crate) catalogue: Catalogue,
    pub(crate) offer: Offer,
    pub(crate) findings: Findings,
    /// The names that the server has, held back or not, and since when, in Unix milliseconds.
    pub(crate) claims: Vec<(Box<str>, u64)>,
    pub(crate) stamp: Option<FileStamp>,
}

/// What a review works on away from the runtime's threads.
struct Pinning {
    pins: Pins,
    entry: Entry,
    policy: ToolChanges,
    listed: ListedDefinitions,
    seen_ms: u64,
}

impl Trust {
    /// `beginning` is how long after now servers count as having come at the same time.
    pub(crate) fn new(pins: Pins, tool_changes: ToolChanges, beginning: Duration) -> Self {
        let started_ms = now_ms();
        let startup_ms = u64::try_from(beginning.as_millis()).unwrap_or(u64::MAX);
        Self { pins, tool_changes, started_ms, startup_ms }
    }

    /// The pins.
    pub(crate) fn pins(&self) -> &Pins {
        &self.pins
    }

    /// Looks through a listing: cleans it, compares it with what is pinned, pins what is new.
    ///
    /// # Errors
    /// When the pins cannot be used and the policy holds back what is not known.
    pub(crate) async fn review_listing(
        &self,
        entry: &Entry,
        mut identity: ServerIdentity,
        mut catalogue: Catalogue,
        mut offer: Offer,
    ) -> Result<Reviewed, Failure> {
        let mut findings = catalogue.take_findings();
        findings.add(&offer.findings);
        clean_identity(&mut identity, &mut findings);
        let policy = entry.tool_changes.unwrap_or(self.tool_changes);

        let listed = ListedDefinitions {
            tools: catalogue.take_definitions(),
            prompts: offer.take_definitions(),
            introduction: Some(introduction_of(&identity)),
        };
        let pins = self.pins.clone();
        let seen_ms = self.seen_ms();
        let pinning = Pinning { pins, entry: entry.clone(), policy, listed, seen_ms };

        // Files are waited for, so not on a thread that others wait on.
        let pinned = tokio::task::spawn_blocking(move || pinning.run()).await;
        let Ok(pinned) = pinned else {
            return Err(Failure::new("its tools could not be compared with their pins"));
        };

        match pinned {
            Ok(Pinned { findings: pinned, claims, stamp }) => {
                findings.withheld = pinned.withheld;
                findings.changed = pinned.changed;
                findings.unpinned = pinned.unpinned;
                hold_back(&findings, &mut identity, &mut catalogue, &mut offer);
                Ok(Reviewed { identity, catalogue, offer, findings, claims, stamp })
            }
            Err(error) => {
                let server = &entry.name;
                let cause = &error as &dyn std::error::Error;
                tracing::error!(%server, error = cause, "tool pins cannot be used");
                if policy == ToolChanges::Quarantine {
                    return Err(Failure::new("its tools cannot be compared with their pins"));
                }

                findings.pins_unavailable = true;
                let since = self.seen_ms();
                let claims = catalogue.tools().map(|tool| (tool.name.as_str().into(), since));
                let claims = claims.collect();
                Ok(Reviewed { identity, catalogue, offer, findings, claims, stamp: None })
            }
        }
    }

    /// The tool names that a server had when it was last connected, and since when.
    pub(crate) async fn known_claims(&self, entry: &Entry) -> Vec<(Box<str>, u64)> {
        let pins = self.pins.clone();
        let name = entry.name.clone();
        let owner = owner_of(entry);
        let read = tokio::task::spawn_blocking(move || {
            // What an agent's server had is not what the operator's of the same name has.
            let is_anothers = owner == PinOwner::Operator && pins.owner_of(&name) != owner;
            pins.read(&name).filter(|_| !is_anothers)
        });
        let read = read.await;
        let document = read.ok().flatten();
        let Some(document) = document else { return Vec::new() };
        tool_claims(&document, &document.tools.pins.keys().map(String::as_str).collect())
    }

    /// Waits until another program has changed the pins of a server since `stamp`.
    pub(crate) async fn wait_until_edited(&self, entry: &Entry, stamp: Option<FileStamp>) {
        if stamp.is_none() {
            return std::future::pending().await;
        }

        loop {
            tokio::time::sleep(EDIT_POLL_INTERVAL).await;
            let pins = self.pins.clone();
            let name = entry.name.clone();
            let now = tokio::task::spawn_blocking(move || pins.file_stamp(&name)).await;
            if now.is_ok_and(|now| now != stamp) {
                return;
            }
        }
    }

    /// When a tool that is new now counts as first seen. Servers that connect at the beginning
    /// come at the same time: which of them was quicker says nothing.
    fn seen_ms(&self) -> u64 {
        let now = now_ms();
        let beginning = now.saturating_sub(self.started_ms) <= self.startup_ms;
        if beginning { self.started_ms } else { now }
    }
}

/// What a comparison with the pins has brought.
struct Pinned {
    findings: Findings,
    claims: Vec<(Box<str>, u64)>,
    stamp: Option<FileStamp>,
}

impl Pinning {
    fn run(self) -> Result<Pinned, Error> {
        let Self { pins, entry, policy, listed, seen_ms } = self;
        let owner = owner_of(&entry);
        let ((findings, claims), stamp) = pins.update(&entry.name, owner, |document, prior| {
            let verdict = document.review_listing(&listed, prior, policy, seen_ms);
            log_changes(&entry, policy, &verdict);
            let names: HashSet<&str> = listed.tools.iter().map(|(name, _)| name.as_str()).collect();

            let mut claims = tool_claims(document, &names);
            // What is not pinned is claimed all the same, from now on.
            let pinned: HashSet<&str> = document.tools.pins.keys().map(String::as_str).collect();
            claims.extend(names.difference(&pinned).map(|name| ((*name).into(), seen_ms)));

            ((document_findings(document, &verdict, &listed), claims), verdict.edited)
        })?;

        Ok(Pinned { findings, claims, stamp })
    }
}

fn owner_of(entry: &Entry) -> PinOwner {
    if entry.registered_by.is_some() { PinOwner::Agent } else { PinOwner::Operator }
}

/// Since when a server has the names of `listed`.
fn tool_claims(document: &PinDocument, listed: &HashSet<&str>) -> Vec<(Box<str>, u64)> {
    let tools = document.tools.pins.iter().filter(|(name, _)| listed.contains(name.as_str()));
    tools.map(|(name, pin)| (name.as_str().into(), pin.first_seen_ms)).collect()
}

fn document_findings(
    document: &PinDocument,
    verdict: &Verdict,
    listed: &ListedDefinitions,
) -> Findings {
    let mut findings = Findings { unpinned: verdict.unpinned, ..Findings::default() };
    let tools: HashSet<&str> = listed.tools.iter().map(|(name, _)| name.as_str()).collect();
    let prompts = listed.prompts.iter().flatten();
    let prompts: HashSet<&str> = prompts.map(|(name, _)| name.as_str()).collect();
    let is_listed = |item: &PinnedItem| match item {
        PinnedItem::Tool(name) => tools.contains(name.as_str()),
        // What could not be listed is as it was.
        PinnedItem::Prompt(name) => listed.prompts.is_none() || prompts.contains(name.as_str()),
        PinnedItem::Introduction => true,
    };

    for (group, item_of) in document.groups() {
        for (index, (name, new)) in group.withheld.iter().enumerate() {
            let old = group.pins.get(name).map(|pin| &pin.kept);
            let has_room = index < findings::PLACES_MAX;
            let withheld = match old {
                Some(old) if has_room => Withheld {
                    is_new: false,
                    members: difference::changed_members(&old.definition, &new.definition),
                    difference: old.difference(&new.definition),
                },
                None if has_room && !document.lost => {
                    Withheld { is_new: true, members: Vec::new(), difference: new.as_new() }
                }
                _ => Withheld {
                    is_new: false,
                    members: Vec::new(),
                    difference: vec!["its definition".to_owned()],
                },
            };
            findings.withheld.insert(item_of(name), withheld);
        }

        let changed = group.pins.iter().filter_map(|(name, pin)| {
            Some((item_of(name), pin.changed.as_ref()?.difference.clone()))
        });
        findings.changed.extend(changed.filter(|(item, _)| is_listed(item)));
    }

    findings
}

/// Hides what is held back.
fn hold_back(
    findings: &Findings,
    identity: &mut ServerIdentity,
    catalogue: &mut Catalogue,
    offer: &mut Offer,
) {
    let is_withheld = |item: PinnedItem| findings.withheld.contains_key(&item);
    catalogue.hold_back(|name| is_withheld(PinnedItem::Tool(name.to_owned())));
    offer.hold_back(|name| is_withheld(PinnedItem::Prompt(name.to_owned())));

    if is_withheld(PinnedItem::Introduction) {
        let ServerIdentity { version, protocol, .. } = std::mem::take(identity);
        *identity = ServerIdentity { version, protocol, ..ServerIdentity::default() };
    }
}

/// What a server says of itself in words, except its version, which honest servers change.
fn introduction_of(identity: &ServerIdentity) -> Definition {
    let texts = [
        ("name", &identity.name),
        ("title", &identity.title),
        ("description", &identity.description),
        ("instructions", &identity.instructions),
        ("websiteUrl", &identity.website_url),
    ];
    let said = texts
        .into_iter()
        .filter_map(|(member, text)| Some((member.to_owned(), Value::from(text.clone()?))));
    Definition::new(said.collect())
}

fn clean_identity(identity: &mut ServerIdentity, findings: &mut Findings) {
    // An address with something hidden in it leads elsewhere than its reader sees.
    let website_url = identity.website_url.take();
    identity.website_url = website_url.filter(|url| hidden_text::is_clean_name(url));
    identity.icons = identity.icons.take().and_then(clean_beside);

    let texts = [
        ("its name", &mut identity.name),
        ("its title", &mut identity.title),
        ("its version", &mut identity.version),
        ("its description", &mut identity.description),
        ("its instructions", &mut identity.instructions),
    ];

    for (place, text) in texts {
        let mut found = HiddenCounts::default();
        let Some(text) = text else { continue };
        if let Cow::Owned(cleaned) = hidden_text::clean_text(text, &mut found) {
            *text = cleaned;
            findings.hidden.push((place.to_owned(), found));
        }
    }
}

fn log_changes(entry: &Entry, policy: ToolChanges, verdict: &Verdict) {
    let server = &entry.name;
    for (item, difference) in verdict.changes.iter().take(LOGGED_MAX) {
        let difference = difference.join("; ");
        match policy {
            ToolChanges::Announce => {
                tracing::warn!(%server, %item, difference, "a definition has changed");
            }
            ToolChanges::Quarantine => {
                tracing::warn!(%server, %item, difference, "a changed definition is held back");
            }
        }
    }

    if let more @ 1.. = verdict.changes.len().saturating_sub(LOGGED_MAX) {
        tracing::warn!(%server, more, "more definitions have changed");
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
