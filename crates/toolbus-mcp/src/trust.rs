//! Trust in what servers say about themselves: definitions are pinned at first sight, changes are
//! announced or held back, hidden characters are taken out.
//!
//! Everything that a server lists passes [`Trust::review_catalogue`] before anybody sees it. What a
//! tool
//! *answers* is not looked at: it is passed on as untrusted content and marked so.

pub(crate) mod definition;
mod difference;
pub(crate) mod findings;
pub(crate) mod hidden;
mod operator;
mod pin_store;
mod pins;

use std::borrow::Cow;
use std::collections::HashSet;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::catalogue::Catalogue;
use crate::config::{Entry, ToolChanges};
use crate::connection::ServerIdentity;
use crate::failure::Failure;
use definition::Definition;
use findings::{Findings, WithheldTool};
use hidden::HiddenCounts;
use pins::{PinDocument, Verdict};

pub use operator::{AcceptError, PendingChange};
pub(crate) use pin_store::FileStamp;
pub use pin_store::{Error, Pins};

/// Most changed tools of one listing that are logged one by one.
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
    listed: Vec<(String, Definition)>,
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
    pub(crate) async fn review_catalogue(
        &self,
        entry: &Entry,
        mut identity: ServerIdentity,
        mut catalogue: Catalogue,
    ) -> Result<Reviewed, Failure> {
        let mut findings = catalogue.take_findings();
        clean_identity(&mut identity, &mut findings);
        let policy = entry.tool_changes.unwrap_or(self.tool_changes);

        let pinning = Pinning {
            pins: self.pins.clone(),
            entry: entry.clone(),
            policy,
            listed: catalogue.take_definitions(),
            seen_ms: self.seen_ms(),
        };

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
                catalogue.hold_back(|name| findings.withheld.contains_key(name));
                Ok(Reviewed { identity, catalogue, findings, claims, stamp })
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
                Ok(Reviewed { identity, catalogue, findings, claims, stamp: None })
            }
        }
    }

    /// The tool names that a server had when it was last connected, and since when.
    pub(crate) async fn known_claims(&self, entry: &Entry) -> Vec<(Box<str>, u64)> {
        let pins = self.pins.clone();
        let name = entry.name.clone();
        let read = tokio::task::spawn_blocking(move || pins.read(&name)).await;
        let document = read.ok().flatten();
        let Some(document) = document else { return Vec::new() };
        tool_claims(&document, &document.tools.keys().map(String::as_str).collect())
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
        let ((findings, claims), stamp) = pins.update(&entry.name, |document, prior| {
            let verdict = document.review_listing(&listed, prior, policy, seen_ms);
            log_changes(&entry, policy, &verdict);
            let names: HashSet<&str> = listed.iter().map(|(name, _)| name.as_str()).collect();

            let mut claims = tool_claims(document, &names);
            // What is not pinned is claimed all the same, from now on.
            let pinned: HashSet<&str> = document.tools.keys().map(String::as_str).collect();
            claims.extend(names.difference(&pinned).map(|name| ((*name).into(), seen_ms)));

            ((document_findings(document, &verdict, &names), claims), verdict.edited)
        })?;

        Ok(Pinned { findings, claims, stamp })
    }
}

/// Since when a server has the names of `listed`.
fn tool_claims(document: &PinDocument, listed: &HashSet<&str>) -> Vec<(Box<str>, u64)> {
    let tools = document.tools.iter().filter(|(name, _)| listed.contains(name.as_str()));
    tools.map(|(name, pin)| (name.as_str().into(), pin.first_seen_ms)).collect()
}

fn document_findings(
    document: &PinDocument,
    verdict: &Verdict,
    listed: &HashSet<&str>,
) -> Findings {
    let mut findings = Findings { unpinned: verdict.unpinned, ..Findings::default() };
    for (index, (tool, new)) in document.withheld.iter().enumerate() {
        let old = document.tools.get(tool).map(|pin| &pin.kept);
        let withheld = match old {
            Some(old) if index < findings::PLACES_MAX => WithheldTool {
                members: difference::changed_members(&old.definition, &new.definition),
                difference: old.difference(&new.definition),
            },
            _ => {
                WithheldTool { members: Vec::new(), difference: vec!["its definition".to_owned()] }
            }
        };

        findings.withheld.insert(tool.clone(), withheld);
    }

    let pins = document.tools.iter().filter(|(name, _)| listed.contains(name.as_str()));
    findings.changed = pins
        .filter_map(|(name, pin)| Some((name.clone(), pin.changed.as_ref()?.difference.clone())))
        .collect();

    findings
}

fn clean_identity(identity: &mut ServerIdentity, findings: &mut Findings) {
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
        if let Cow::Owned(cleaned) = hidden::clean_text(text, &mut found) {
            *text = cleaned;
            findings.hidden.push((place.to_owned(), found));
        }
    }
}

fn log_changes(entry: &Entry, policy: ToolChanges, verdict: &Verdict) {
    let server = &entry.name;
    for (tool, difference) in verdict.changes.iter().take(LOGGED_MAX) {
        let difference = difference.join("; ");
        match policy {
            ToolChanges::Announce => {
                tracing::warn!(%server, tool, difference, "a tool has changed");
            }
            ToolChanges::Quarantine => {
                tracing::warn!(%server, tool, difference, "a tool has changed and is held back");
            }
        }
    }

    if let more @ 1.. = verdict.changes.len().saturating_sub(LOGGED_MAX) {
        tracing::warn!(%server, more, "more tools have changed");
    }
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
