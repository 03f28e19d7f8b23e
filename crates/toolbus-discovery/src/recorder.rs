//! The recorder: hears of each call and never makes one wait. Ends of calls and queries go through
//! one bounded queue to a task that learns from them; what does not fit is dropped and counted.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use toolbus_policy::{owner_text, principal_text};
use toolbus_tools::id::{CallId, RunId, SERVER_PROVIDER_PREFIX, ToolId};
use toolbus_tools::observe::{CallEvent, CallEventKind, CallRecord, Observe};
use toolbus_tools::scope::Proof;
use toolbus_tools::tokens;
use toolbus_tools::{Principal, Registry, Scope};
use toolbus_wire::Execution;

use crate::config::Clock;
use crate::events::{ExecutionEvent, QueryEvent, split_id, timestamp};
use crate::learned::{Ended, Learned};
use crate::metrics::DiscoveryMetrics;
use crate::verdict::Verdict;

/// Events that may wait to be learned from.
const QUEUED_MAX: usize = 16_384;
/// Events that are learned from together.
const GROUP_MAX: usize = 1_024;
/// Calls that may run at once and be known to run.
const RUNNING_MAX: usize = 65_536;
/// Events of each kind that wait for the store, or stay where there is none.
pub(crate) const RECENT_EVENTS_MAX: usize = 4_096;

/// What is learned from.
pub(crate) enum Lesson {
    Ended(Box<(Ended, Option<ExecutionEvent>)>),
    Query(Box<QueryEvent>),
}

/// Hears of calls.
pub(crate) struct Recorder {
    pub(crate) registry: Arc<Registry>,
    pub(crate) clock: Clock,
    running: Mutex<HashMap<(RunId, CallId), Running>>,
    lessons: mpsc::Sender<Lesson>,
    pub(crate) dropped: Arc<AtomicU64>,
}

/// A call that runs.
struct Running {
    /// The server of the tool, by the name that it was called by.
    server: Option<Arc<str>>,
    /// The server of the tool that has made the call.
    parent_server: Option<Arc<str>>,
    started_at: Option<Instant>,
}

/// The events of late, of each kind.
#[derive(Debug, Default)]
pub(crate) struct RecentEvents {
    pub(crate) executions: VecDeque<(i64, ExecutionEvent)>,
    pub(crate) queries: VecDeque<(i64, QueryEvent)>,
}

/// Learns from what comes in.
pub(crate) struct Learner {
    pub(crate) lessons: mpsc::Receiver<Lesson>,
    pub(crate) learned: Arc<RwLock<Learned>>,
    pub(crate) events: Arc<Mutex<RecentEvents>>,
    pub(crate) clock: Clock,
    pub(crate) metrics: Arc<DiscoveryMetrics>,
    pub(crate) dropped: Arc<AtomicU64>,
    /// Sees each change of what was learned.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) stop: CancellationToken,
}

/// Returns the owner of the history of a caller with a proven identity. A later key with the same
/// name is another owner.
pub(crate) fn proven_owner(scope: &Scope) -> Option<Arc<str>> {
    let is_proven = scope.principal.proof != Proof::Claimed;
    is_proven.then(|| owner_text(&scope.principal).into())
}

pub(crate) fn session_text(scope: &Scope) -> Option<Arc<str>> {
    scope.session.as_ref().map(|session| session.as_str().into())
}

impl Recorder {
    pub(crate) fn new(registry: Arc<Registry>, clock: Clock) -> (Self, mpsc::Receiver<Lesson>) {
        let (lessons, queue) = mpsc::channel(QUEUED_MAX);
        let running = Mutex::default();
        (Self { registry, clock, running, lessons, dropped: Arc::default() }, queue)
    }

    /// Takes a query in, if there is room.
    pub(crate) fn record_query(&self, query: QueryEvent) {
        self.send(Lesson::Query(Box::new(query)));
    }

    fn send(&self, lesson: Lesson) {
        if self.lessons.try_send(lesson).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn began(&self, event: &CallEvent<'_>) {
        let entry = self.registry.find(event.tool.as_str());
        let server = entry.map(|entry| Arc::from(split_id(&entry.id).0));
        let mut running = self.running.lock();
        if running.len() >= RUNNING_MAX {
            return;
        }
        let parent = event.scope.parent.clone().map(|parent| (event.scope.run.clone(), parent));
        let parent_server =
            parent.and_then(|parent| running.get(&parent)).and_then(|call| call.server.clone());
        let call = Running { server, parent_server, started_at: None };
        running.insert(key(event), call);
    }

    fn started(&self, event: &CallEvent<'_>) {
        if let Some(call) = self.running.lock().get_mut(&key(event)) {
            call.started_at = Some(Instant::now());
        }
    }

    fn ended(&self, event: &CallEvent<'_>, record: &CallRecord) {
        let call = self.running.lock().remove(&key(event));
        let Some(tool) = record.subject.clone() else { return };
        let started_at = call.as_ref().and_then(|call| call.started_at);
        let ran = started_at.map_or(record.took, |at| at.elapsed());
        let verdict = Verdict::of(record, ran);
        let is_executed = record.execution != Execution::NotStarted && record.refused_by.is_none();
        if !is_executed && verdict == Verdict::Nothing {
            return;
        }

        let (server, name) = split_id(&tool);
        let parent_server = call.and_then(|call| call.parent_server);
        let is_own_call = parent_server.as_deref() == Some(server)
            || is_server_itself(&event.scope.principal, &tool);
        let at_ms = self.clock.now_ms();
        let execution = ExecutionEvent {
            tool_name: name.to_owned(),
            server: server.to_owned(),
            user_id: principal_text(&event.scope.principal),
            timestamp: timestamp(at_ms),
            duration_ms: u64::try_from(ran.as_millis()).unwrap_or(u64::MAX),
            status: status_of(verdict).to_owned(),
            input_tokens: record.input_bytes.map(tokens::estimate),
            output_tokens: record.output_bytes.map(tokens::estimate),
            // A peer may send any text as its code.
            error: record.error.as_ref().map(|code| code.label().to_owned()),
        };
        let ended = Ended {
            verdict,
            ran,
            owner: proven_owner(event.scope),
            session: session_text(event.scope),
            is_self_promotion: is_own_call,
            at_ms,
            tool,
        };
        self.send(Lesson::Ended(Box::new((ended, is_executed.then_some(execution)))));
    }
}

impl Observe for Recorder {
    fn on_event(&self, event: &CallEvent<'_>) {
        match &event.kind {
            CallEventKind::Began(_) => self.began(event),
            CallEventKind::Started => self.started(event),
            CallEventKind::Ended(record) => self.ended(event, record),
            _ => {}
        }
    }
}

/// Whether a principal has the name of the MCP server that provides a tool. Whoever runs this
/// process is none, whatever servers are called.
fn is_server_itself(principal: &Principal, tool: &ToolId) -> bool {
    principal.proof != Proof::Local
        && tool.as_str().starts_with(SERVER_PROVIDER_PREFIX)
        && principal.name.eq_ignore_ascii_case(split_id(tool).0)
}

fn key(event: &CallEvent<'_>) -> (RunId, CallId) {
    (event.scope.run.clone(), event.call.clone())
}

fn status_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Success => "success",
        Verdict::Timeout => "timeout",
        Verdict::Failure | Verdict::Unavailable | Verdict::Nothing => "error",
    }
}

/// Adds an event; the oldest falls out where there are too many.
fn push<T>(events: &mut VecDeque<T>, event: T) {
    if events.len() >= RECENT_EVENTS_MAX {
        events.pop_front();
    }
    events.push_back(event);
}

impl Learner {
    /// Learns until it is stopped, and then from what waits.
    pub(crate) async fn run(mut self) {
        let mut group = Vec::with_capacity(GROUP_MAX);
        let mut told_dropped = 0;
        loop {
            let stop = self.stop.clone();
            tokio::select! {
                biased;
                // Nothing is taken out where another arm is first.
                count = self.lessons.recv_many(&mut group, GROUP_MAX) => {
                    if count == 0 {
                        return;
                    }
                }
                () = stop.cancelled() => {
                    self.lessons.close();
                    while let Ok(lesson) = self.lessons.try_recv() {
                        group.push(lesson);
                    }
                    self.learn(&mut group);
                    return;
                }
            }

            self.learn(&mut group);
            let dropped = self.dropped.load(Ordering::Relaxed);
            self.metrics.count_events("dropped", dropped - told_dropped);
            told_dropped = dropped;
        }
    }

    fn learn(&self, group: &mut Vec<Lesson>) {
        self.metrics.count_events("learned", group.len() as u64);
        let has_calls = group.iter().any(|lesson| matches!(lesson, Lesson::Ended(_)));

        for lesson in group.drain(..) {
            match lesson {
                Lesson::Ended(ended) => {
                    let (ended, execution) = *ended;
                    self.learned.write().learn(&ended);
                    if let Some(execution) = execution {
                        push(&mut self.events.lock().executions, (ended.at_ms, execution));
                    }
                }
                Lesson::Query(query) => {
                    let at_ms = self.clock.now_ms();
                    push(&mut self.events.lock().queries, (at_ms, *query));
                }
            }
        }

        if has_calls {
            self.changed.send_modify(|number| *number += 1);
        }
    }
}
