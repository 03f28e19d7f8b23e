//! What one server listed last: its identity, tools, prompts and number of resources, and what was
//! found in them.
//!
//! The cache owns the listing and the server's claims on tool names. It outlives connections: what
//! the server listed last is known while the server is away.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;
use toolbus_wire::message::mcp::McpRevisions;

use crate::catalogue::Catalogue;
use crate::claims::Position;
use crate::config::Entry;
use crate::connection::{Connection, OfferListing, ServerIdentity};
use crate::failure::Failure;
use crate::offer::Offer;
use crate::server_pool::PoolContext;
use crate::transport::intercept::ListKinds;
use crate::trust::findings::{Findings, Reader, Withheld};
use crate::trust::{FileStamp, PinnedItem, Reviewed};

/// Most tools that one log line about clashing names lists.
const CLASHES_LOGGED_MAX: usize = 10;

/// What a server said of itself when it was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerListing {
    pub(crate) identity: ServerIdentity,
    pub(crate) catalogue: Catalogue,
    pub(crate) findings: Findings,
    pub(crate) offer: Offer,
    /// Grows with every change, over all servers.
    pub(crate) revision: u64,
    /// A number for each of its lists.
    pub(crate) revisions: McpRevisions,
    /// How often prompts and resources were said to have changed without being listed.
    reported_changes: ReportedChangeCounts,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct ReportedChangeCounts {
    prompts: u64,
    resources: u64,
}

/// The last listing of one server, and its claims on the names of tools.
pub(crate) struct ToolCatalogueCache {
    entry: Arc<Entry>,
    context: Arc<PoolContext>,
    position: Position,
    latest: RwLock<Option<Arc<ServerListing>>>,
    /// Held while the server lists, so that there is one listing at a time. Holds the state of the
    /// pins that the last listing was compared with.
    pins_stamp: tokio::sync::Mutex<Option<FileStamp>>,
    /// Set once the server is closing: one that was replaced has no say any more in what belongs to
    /// its name.
    claims_are_frozen: AtomicBool,
    /// When the last listing that came to its end began.
    listed_from: Mutex<Option<Instant>>,
}

impl ServerListing {
    /// The numbers of its lists. They are made of what is in the lists: a bridge that was started
    /// again tells agents no change where there is none, and does not take another list for one
    /// that they know. Resources, of which only the number is known here, have another number also
    /// when they are said to have changed.
    fn number_lists(&self) -> McpRevisions {
        let tools: Vec<_> = self.catalogue.tools().collect();
        let reported = self.reported_changes;
        McpRevisions {
            tools: number_of(&tools),
            prompts: number_of(&(&self.offer.prompts, reported.prompts)),
            resources: number_of(&(self.offer.resources, reported.resources)),
            introduction: number_of(&self.identity),
        }
    }
}

/// A number for a content, which other contents do not have. It fits into 53 bits, for readers
/// whose numbers are no larger.
fn number_of(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish() >> 11
}

impl ToolCatalogueCache {
    pub(super) fn new(entry: Arc<Entry>, position: Position, context: Arc<PoolContext>) -> Self {
        Self {
            entry,
            context,
            position,
            latest: RwLock::default(),
            pins_stamp: tokio::sync::Mutex::default(),
            claims_are_frozen: AtomicBool::new(false),
            listed_from: Mutex::default(),
        }
    }

    /// The last listing, once there was one.
    pub(crate) fn latest(&self) -> Option<Arc<ServerListing>> {
        self.latest.read().clone()
    }

    /// The number of tools that agents may see.
    pub(super) fn tool_count(&self) -> usize {
        self.latest().map_or(0, |listing| listing.catalogue.len())
    }

    /// Claims the tool names that the server's pins remember, until it has listed its tools.
    pub(super) async fn claim_pinned_names(&self) {
        let pinned = self.context.trust.known_claims(&self.entry).await;

        if self.latest().is_none() {
            self.context.claims.set(self.position, pinned);
        }
    }

    /// Lets other servers have the names of this server's tools.
    pub(crate) fn release_claims(&self) {
        self.context.claims.release(self.position);
    }

    /// Makes no more claims on names of tools, whatever the server still lists.
    pub(super) fn freeze_claims(&self) {
        self.claims_are_frozen.store(true, Ordering::Release);
    }

    /// When the last listing began, once there was one.
    pub(super) fn listed_from(&self) -> Option<Instant> {
        *self.listed_from.lock()
    }

    /// Lists everything that the server has, and remembers it. Dropped half-way, it has changed
    /// nothing. Those who wait for a listing that is under way share the next one.
    pub(super) async fn refresh(&self, connection: &Connection) -> Result<(), Failure> {
        let wanted_from = Instant::now();
        let mut stamp = self.pins_stamp.lock().await;
        if self.listed_from().is_some_and(|from| from > wanted_from) {
            return Ok(());
        }
        let began = Instant::now();
        // Taken before the listing begins: a change that is reported during it counts for the next.
        let reported = connection.take_reported_changes();

        let (catalogue, offer_listing) =
            tokio::join!(connection.list_tools(&self.entry), self.list_offer(connection));
        let catalogue = catalogue?;
        let OfferListing { offer, has_listed_prompts } = offer_listing;

        let identity = connection.identity.clone();
        let reviewing = self.context.trust.review_listing(&self.entry, identity, catalogue, offer);
        let reviewed = reviewing.await?;

        *stamp = reviewed.stamp;
        let mut reported = reported.mark_listed();
        // What was listed is known, whatever was said of it.
        reported.tools = false;
        reported.prompts &= !has_listed_prompts;
        self.store(reviewed, reported);
        *self.listed_from.lock() = Some(began);
        Ok(())
    }

    /// Lists what the server offers beside tools. A server that takes long to list it is connected
    /// all the same.
    async fn list_offer(&self, connection: &Connection) -> OfferListing {
        let previous = self.latest().map(|listing| listing.offer.clone());
        let limit = self.context.options.connect_timeout / 3;

        // Boxed: it is large, and part of every future that connects.
        Box::pin(connection.list_offer(previous, limit)).await
    }

    /// Puts a listing in the place of the last one, and announces it if it is another, or if a list
    /// that was not listed is reported to have changed.
    fn store(&self, reviewed: Reviewed, reported: ListKinds) {
        let Reviewed { identity, catalogue, offer, findings, claims, .. } = reviewed;
        let mut latest = self.latest.write();
        let previous = latest.as_deref();
        let mut reported_changes =
            previous.map(|previous| previous.reported_changes).unwrap_or_default();
        reported_changes.prompts += u64::from(reported.prompts);
        reported_changes.resources += u64::from(reported.resources);
        let revision = previous.map_or(0, |previous| previous.revision);
        let mut new = ServerListing {
            identity,
            catalogue,
            findings,
            offer,
            revision,
            revisions: McpRevisions::default(),
            reported_changes,
        };
        new.revisions = new.number_lists();
        if previous == Some(&new) {
            return;
        }

        let has_new_findings = previous.is_none_or(|previous| previous.findings != new.findings);
        new.revision = self.context.next_revision();
        let new = Arc::new(new);
        *latest = Some(Arc::clone(&new));
        drop(latest);

        if !self.claims_are_frozen.load(Ordering::Acquire) {
            self.context.claims.set(self.position, claims);
        }
        if has_new_findings {
            self.log_findings(&new.findings);
        }
        self.context.announce();
    }

    /// Logs what was found, except changes: those are logged when they are pinned.
    fn log_findings(&self, findings: &Findings) {
        let server = &self.entry.name;
        for name in &findings.unmatched.some {
            tracing::warn!(%server, name, "allowedTools or deniedTools names no tool of MCP server");
        }

        let others = Findings {
            withheld: Default::default(),
            changed: Vec::new(),
            unmatched: Default::default(),
            ..findings.clone()
        };
        for notice in others.notices(Reader::Operator) {
            tracing::warn!(%server, notice, "suspicious text in an MCP server's listing");
        }

        let clashes = self.context.claims.name_clashes(self.position);
        if !clashes.is_empty() {
            let tools = clashes.iter().take(CLASHES_LOGGED_MAX).map(|(tool, _)| &**tool);
            let tools: Vec<&str> = tools.collect();
            tracing::warn!(
                %server,
                clashes = clashes.len(),
                tools = tools.join(", "),
                "MCP server lists tools whose names another server had first"
            );
        }
    }

    /// Waits until an operator has edited the pins that hold something of the server back; for ever
    /// when nothing is held back.
    pub(super) async fn wait_for_pins_edit(&self) {
        let stamp = *self.pins_stamp.lock().await;
        let stamp = stamp.filter(|_| self.withholds_something());

        self.context.trust.wait_until_edited(&self.entry, stamp).await;
    }

    /// Whether anything waits to be accepted.
    fn withholds_something(&self) -> bool {
        self.latest().is_some_and(|listing| !listing.findings.withheld.is_empty())
    }

    /// Why a tool is held back, if it is: also under its name in another case, which the server may
    /// well take.
    pub(crate) fn find_withheld(&self, tool: &str) -> Option<Withheld> {
        let listing = self.latest()?;
        let withheld = &listing.findings.withheld;
        if withheld.is_empty() || listing.catalogue.find(tool).is_some() {
            return None;
        }

        let mut withheld = withheld.iter();
        let alike = withheld.find(|(item, _)| match item {
            PinnedItem::Tool(name) => name.eq_ignore_ascii_case(tool),
            _ => false,
        });
        alike.map(|(_, withheld)| withheld.clone())
    }

    /// The same for a prompt, with its name as it is listed.
    pub(crate) fn find_withheld_prompt(&self, prompt: &str) -> Option<(PinnedItem, Withheld)> {
        let listing = self.latest()?;
        if listing.offer.lists_prompt(prompt) {
            return None;
        }

        let mut withheld = listing.findings.withheld.iter();
        let alike = withheld.find(|(item, _)| match item {
            PinnedItem::Prompt(name) => name.eq_ignore_ascii_case(prompt),
            _ => false,
        });
        alike.map(|(item, withheld)| (item.clone(), withheld.clone()))
    }

    /// The warnings about the server's listing for this reader, line by line.
    pub(crate) fn notices(&self, reader: Reader) -> Vec<String> {
        self.latest().map(|listing| listing.findings.notices(reader)).unwrap_or_default()
    }

    /// Whether a tool of exactly this name may be seen.
    pub(crate) fn lists_tool(&self, tool: &str) -> bool {
        self.latest().is_some_and(|listing| listing.catalogue.find(tool).is_some())
    }

    /// Whether the server says that calling the tool twice does no harm.
    pub(crate) fn may_repeat(&self, tool: &str) -> bool {
        let listing = self.latest();
        let may_repeat = listing.and_then(|listing| Some(listing.catalogue.find(tool)?.may_repeat));
        may_repeat.unwrap_or(false)
    }
}
