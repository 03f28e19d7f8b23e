//! One configured server: a task that keeps it connected, and the calls that go there.
//!
//! Invariants: at most one connection is open for new calls. A call is sent twice only when the
//! first was provably not sent, or the server says of the tool that this does no harm. What the
//! server listed last is known while it is away.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::message::mcp::{McpGetServiceDetailsResponse, McpRevisions, McpServerSummary};

use crate::call::{Call, CallError};
use crate::call_result::CallResult;
use crate::catalogue::Catalogue;
use crate::claims::Position;
use crate::config::Entry;
use crate::connection::{Connection, Ended, Handshake, Identity, Reach};
use crate::failure::Failure;
use crate::offer::Offer;
use crate::servers::Shared;
use crate::summary::summary;
use crate::transport::tap::Lists;
use crate::trust::findings::{Findings, Reader, WithheldTool};
use crate::trust::{FileStamp, Reviewed};

mod call;
mod keep;
mod lookup;
mod places;
mod subscribe;

use places::Places;
pub(crate) use places::{LOOKUPS_PER_SERVER_MAX, SUBSCRIPTIONS_PER_SERVER_MAX};

/// How long after a failed attempt a call that needs the server has the next one made.
const ON_DEMAND_PAUSE: Duration = Duration::from_secs(1);

/// Whose a server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The operator's: agents can neither replace nor remove it.
    Operator,
    /// An agent has registered it.
    Agent,
}

/// One configured server.
pub(crate) struct Server {
    pub(crate) entry: Entry,
    pub(crate) origin: Origin,
    /// It is written down somewhere, and there for as long as it is.
    pub(crate) is_kept: AtomicBool,
    /// The place of its name among those of its set. Who replaces it has the same.
    pub(crate) position: Position,
    pub(crate) shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    /// The attempt that a call wants made without waiting for its time.
    wanted_attempt: watch::Sender<u64>,
    /// The handshake that worked last time.
    handshake: Mutex<Handshake>,
    reach: Reach,
    listed: RwLock<Option<Arc<Listed>>>,
    /// Why it is away, as agents are told. One that comes back at the next attempt was never away.
    away: RwLock<Option<Arc<str>>>,
    /// One listing at a time. Which state of its pins the last one was compared with.
    listing: tokio::sync::Mutex<Option<FileStamp>>,
    running: Places,
    lookups: Places,
    subscriptions: Places,
    /// Counts calls, for an orderly end.
    calls: TaskTracker,
    stop: CancellationToken,
}

/// Where a server stands.
#[derive(Clone)]
enum Phase {
    Configured,
    Connecting,
    Connected(Arc<Connection>, Instant),
    Failed(Arc<FailedAttempt>),
    Stopped,
}

struct FailedAttempt {
    failure: Failure,
    /// Counts every attempt there was.
    attempt: u64,
    failed_in_a_row: u32,
    at: Instant,
    next_at: Instant,
}

/// What a server said of itself when it was last asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) identity: Identity,
    pub(crate) catalogue: Catalogue,
    pub(crate) findings: Findings,
    pub(crate) offer: Offer,
    /// Grows with every change, over all servers.
    pub(crate) revision: u64,
    /// The same for each of its lists alone.
    pub(crate) revisions: McpRevisions,
}

/// Where a server stands, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Nothing was tried yet.
    Configured,
    /// An attempt is being made.
    Connecting,
    /// It is there.
    Connected {
        /// For how long.
        since: Duration,
        /// How many tools it has that may be seen.
        tools: usize,
        /// The protocol's version that was agreed on.
        protocol: String,
    },
    /// The last attempt failed, or the connection was lost.
    Failed {
        /// Why.
        failure: Failure,
        /// How many attempts have failed in a row.
        attempts: u32,
        /// When the next one is made, unless a call wants it sooner.
        next_try_in: Duration,
    },
    /// It was removed or everything is closed.
    Stopped,
}

impl Listed {
    /// A list has another number than before when it is another, or is said to be: what is not
    /// known of it here, such as the resources of a server, may have changed.
    fn revisions_after(&self, known: Option<&Self>, said: Lists) -> McpRevisions {
        let number = |is_other: bool, before: u64| if is_other { self.revision } else { before };
        let McpRevisions { tools, prompts, resources } = self.revisions;
        let is_other =
            |other: fn(&Self, &Self) -> bool| known.is_none_or(|known| other(known, self));
        let other_tools = is_other(|known, new| known.catalogue != new.catalogue);
        let other_prompts = is_other(|known, new| known.offer.prompts != new.offer.prompts);
        let other_resources = is_other(|known, new| known.offer.resources != new.offer.resources);
        McpRevisions {
            tools: number(said.tools || other_tools, tools),
            prompts: number(said.prompts || other_prompts, prompts),
            resources: number(said.resources || other_resources, resources),
        }
    }
}

impl Server {
    pub(crate) fn new(entry: Entry, origin: Origin, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self {
            origin,
            is_kept: AtomicBool::new(false),
            running: Places::new(shared.options.calls_per_server_max),
            lookups: Places::new(LOOKUPS_PER_SERVER_MAX),
            subscriptions: Places::new(SUBSCRIPTIONS_PER_SERVER_MAX),
            stop: shared.stop.child_token(),
            position: shared.claims.position(&entry.name),
            reach: Reach::new(&entry, &shared.means),
            entry,
            shared,
            phase: watch::Sender::new(Phase::Configured),
            wanted_attempt: watch::Sender::new(0),
            handshake: Mutex::new(Handshake::Discover),
            listed: RwLock::default(),
            away: RwLock::default(),
            listing: tokio::sync::Mutex::default(),
            calls: TaskTracker::new(),
        })
    }

    /// Where it stands.
    pub(crate) fn state(&self) -> State {
        match &*self.phase.borrow() {
            Phase::Configured => State::Configured,
            Phase::Connecting => State::Connecting,
            Phase::Stopped => State::Stopped,
            Phase::Connected(connection, since) => State::Connected {
                since: since.elapsed(),
                tools: self.listed().map_or(0, |listed| listed.catalogue.len()),
                protocol: connection.identity.protocol.clone(),
            },
            Phase::Failed(failed) => State::Failed {
                failure: failed.failure.clone(),
                attempts: failed.failed_in_a_row,
                next_try_in: failed.next_at.saturating_duration_since(Instant::now()),
            },
        }
    }

    /// What it listed last.
    pub(crate) fn listed(&self) -> Option<Arc<Listed>> {
        self.listed.read().clone()
    }

    /// Why it is away, if it is.
    pub(crate) fn away(&self) -> Option<Arc<str>> {
        self.away.read().clone()
    }

    /// Takes note that it is away, or there, and tells who wants to know.
    fn set_away(&self, why: Option<&Failure>) {
        let why = why.map(|failure| Arc::from(failure.to_string()));
        let mut away = self.away.write();
        if *away != why {
            *away = why;
            drop(away);
            self.shared.announce();
        }
    }

    /// Waits until the first attempt has ended, one way or the other.
    pub(crate) async fn settled(&self) -> Result<(), Failure> {
        let mut phase = self.phase.subscribe();
        let settled = |phase: &Phase| !matches!(phase, Phase::Configured | Phase::Connecting);
        match phase.wait_for(settled).await.as_deref() {
            Ok(Phase::Failed(failed)) => Err(failed.failure.clone()),
            Ok(Phase::Stopped) | Err(_) => Err(Failure::new("it was closed")),
            Ok(_) => Ok(()),
        }
    }

    /// A connection that is open for new calls: the one there is, or the one that an attempt under
    /// way or a new one gives.
    async fn connection(
        &self,
        cancelled: &CancellationToken,
        until: Instant,
    ) -> Result<Arc<Connection>, Ended> {
        let mut phase = self.phase.subscribe();
        // The last attempt that is not to be this call's answer: it was over before this call.
        let mut before = None;
        let mut asked = false;
        loop {
            let mut wanted = None;
            match &*phase.borrow_and_update() {
                Phase::Connected(connection, _) if !connection.is_over() => {
                    return Ok(Arc::clone(connection));
                }
                Phase::Failed(failed) => {
                    if *before.get_or_insert(failed.attempt) != failed.attempt {
                        return Err(Ended::NotSent(failed.failure.clone()));
                    }
                    wanted = Some((failed.attempt + 1, failed.at)).filter(|_| !asked);
                }
                Phase::Stopped => return Err(closed()),
                // The outcome of an attempt that is being made is this call's answer.
                Phase::Connecting | Phase::Configured => drop(before.get_or_insert(0)),
                // A connection that is over: its keeper is about to see that.
                Phase::Connected(..) => {}
            }
            // Every arm only waits, and the phase is looked at again after each.
            tokio::select! {
                changed = phase.changed() => {
                    if changed.is_err() {
                        return Err(closed());
                    }
                }
                attempt = self.may_want(wanted) => {
                    self.wanted_attempt.send_replace(attempt);
                    asked = true;
                }
                () = cancelled.cancelled() => return Err(Ended::Cancelled),
                () = sleep_until(until) => return Err(Ended::TimedOut),
            }
        }
    }

    /// Waits until a new attempt may be made after the one that failed at that time.
    async fn may_want(&self, wanted: Option<(u64, Instant)>) -> u64 {
        let Some((attempt, failed_at)) = wanted else { return std::future::pending().await };
        sleep_until(failed_at + ON_DEMAND_PAUSE).await;
        attempt
    }

    /// Asks for the list of tools again, without connecting anew where there is a connection.
    /// Bounded by the time that connecting may take.
    pub(crate) async fn refresh(&self) -> Result<(), Failure> {
        let limit = self.shared.options.connect_timeout;
        let until = Instant::now() + limit;
        let connection = self.connection(&self.stop, until).await.map_err(|ended| match ended {
            Ended::NotSent(failure) | Ended::Lost(failure) => failure,
            _ => Failure::timeout(limit),
        })?;
        timeout_at(until, self.list(&connection)).await.unwrap_or(Err(Failure::timeout(limit)))
    }

    async fn list(&self, connection: &Connection) -> Result<(), Failure> {
        let mut stamp = self.listing.lock().await;
        let said = connection.lists_said();
        let (catalogue, offer) =
            tokio::join!(connection.list(&self.entry), self.offer_of(connection));
        let catalogue = catalogue?;
        let trust = &self.shared.trust;
        let reviewed = trust.review(&self.entry, connection.identity.clone(), catalogue).await?;
        *stamp = reviewed.stamp;
        self.learn(reviewed, offer, said.listed());
        Ok(())
    }

    fn learn(&self, reviewed: Reviewed, offer: Offer, said: Lists) {
        let Reviewed { identity, catalogue, mut findings, claims, .. } = reviewed;
        findings.add(&offer.findings);
        let (revision, revisions) = (0, McpRevisions::default());
        let mut new = Listed { identity, catalogue, findings, offer, revision, revisions };
        let mut listed = self.listed.write();
        let known = listed.as_deref();
        if let Some(known) = known {
            (new.revision, new.revisions) = (known.revision, known.revisions);
            if said == Lists::default() && *known == new {
                return;
            }
        }
        let found = known.is_none_or(|known| known.findings != new.findings);
        new.revision = self.shared.next_revision();
        new.revisions = new.revisions_after(known, said);
        let new = Arc::new(new);
        *listed = Some(Arc::clone(&new));
        drop(listed);
        // One that was replaced has no say any more in what belongs to its name.
        if !self.is_closing() {
            self.shared.claims.set(self.position, claims);
        }
        if found {
            self.report(&new.findings);
        }
        self.shared.announce();
    }

    /// Logs what was found beside changes, which are logged when they are pinned.
    fn report(&self, findings: &Findings) {
        let others =
            Findings { withheld: Default::default(), changed: Vec::new(), ..findings.clone() };
        for notice in others.notices(Reader::Operator) {
            tracing::warn!(server = %self.entry.name, notice, "found in what a server tells of itself");
        }
        let clashes = self.shared.claims.clashes(self.position);
        if !clashes.is_empty() {
            let tools: Vec<&str> = clashes.iter().take(10).map(|(tool, _)| &**tool).collect();
            tracing::warn!(
                server = %self.entry.name,
                clashes = clashes.len(),
                tools = tools.join(", "),
                "tools whose names another server had first"
            );
        }
    }

    /// Why a tool is held back, if it is: also under its name in another case, which the server may
    /// well take.
    pub(crate) fn withheld(&self, tool: &str) -> Option<WithheldTool> {
        let listed = self.listed()?;
        let withheld = &listed.findings.withheld;
        if withheld.is_empty() || listed.catalogue.find(tool).is_some() {
            return None;
        }
        let mut alike = withheld.iter().filter(|(name, _)| name.eq_ignore_ascii_case(tool));
        alike.next().map(|(_, withheld)| withheld.clone())
    }

    /// Whether any of its tools waits to be accepted.
    pub(crate) fn holds_back(&self) -> bool {
        self.listed().is_some_and(|listed| !listed.findings.withheld.is_empty())
    }

    /// What somebody should know of it, line by line.
    pub(crate) fn notices(&self, reader: Reader) -> Vec<String> {
        self.listed().map(|listed| listed.findings.notices(reader)).unwrap_or_default()
    }

    /// Ends everything: waits up to `grace` for running calls, then closes the connection. At once
    /// when all servers are closed.
    pub(crate) async fn close(&self, grace: Duration) {
        for places in [&self.running, &self.lookups, &self.subscriptions] {
            places.close();
        }
        self.calls.close();
        let ended = self.stop.run_until_cancelled(timeout(grace, self.calls.wait())).await;
        if !matches!(ended, Some(Ok(()))) {
            tracing::warn!(server = %self.entry.name, calls = self.calls.len(), "calls are cut off");
        }
        self.stop.cancel();
        // An error means that the keeper is gone already.
        let _ = self.phase.subscribe().wait_for(|phase| matches!(phase, Phase::Stopped)).await;
    }

    /// Whether it takes no more calls.
    pub(crate) fn is_closing(&self) -> bool {
        self.running.are_closed()
    }

    /// The longest that a call may take here.
    pub(crate) fn longest_call(&self) -> Duration {
        let granted = self.entry.call_timeout.unwrap_or(self.shared.options.call_timeout_max);
        self.entry.tool_timeouts.values().copied().fold(granted, Duration::max)
    }

    /// Ends everything at once, without waiting for it.
    pub(crate) fn abandon(&self) {
        self.stop.cancel();
    }

    /// The line about it for agents, once it has listed its tools or could not be reached.
    pub(crate) fn summary(&self) -> Option<McpServerSummary> {
        let unavailable = self.away().map(|why| why.to_string());
        let Some(listed) = self.listed() else {
            let why = unavailable?;
            return Some(McpServerSummary {
                server_name: self.name(),
                summary: Some(format!("Not available: {why}.")),
                unavailable: Some(why),
                ..McpServerSummary::default()
            });
        };
        let names = || listed.catalogue.tools().map(|tool| tool.name.as_str());
        Some(McpServerSummary {
            server_name: self.name(),
            summary: Some(summary(names())),
            unavailable,
            tool_count: u32::try_from(listed.catalogue.len()).unwrap_or(u32::MAX),
            tool_names: names().map(str::to_owned).collect(),
            prompt_count: listed.offer.prompt_count(),
            prompt_names: listed.offer.prompt_names(),
            resource_count: listed.offer.resource_count(),
            features: listed.offer.features.to_wire(),
            revisions: Some(listed.revisions),
            ..McpServerSummary::default()
        })
    }

    /// All about it, once it has listed its tools.
    pub(crate) fn details(&self) -> Option<McpGetServiceDetailsResponse> {
        let listed = self.listed()?;
        let identity = listed.identity.clone();
        Some(McpGetServiceDetailsResponse {
            server_name: self.name(),
            tools: listed.catalogue.details(),
            implementation_name: identity.name,
            title: identity.title,
            version: identity.version,
            description: identity.description,
            instructions: identity.instructions,
            prompts: listed.offer.prompt_details(),
            resource_count: listed.offer.resource_count(),
            notices: Some(self.notices(Reader::Model)).filter(|notices| !notices.is_empty()),
            ..McpGetServiceDetailsResponse::default()
        })
    }

    /// Whether a tool of exactly this name may be seen.
    pub(crate) fn lists(&self, tool: &str) -> bool {
        self.listed().is_some_and(|listed| listed.catalogue.find(tool).is_some())
    }

    pub(crate) fn may_repeat(&self, tool: &str) -> bool {
        let listed = self.listed();
        listed.and_then(|l| l.catalogue.find(tool).map(|t| t.may_repeat)).unwrap_or(false)
    }

    fn name(&self) -> String {
        self.entry.name.as_str().to_owned()
    }
}

fn closed() -> Ended {
    Ended::NotSent(Failure::new("it was closed"))
}
