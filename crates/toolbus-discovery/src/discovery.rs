//! Discovery: what follows the registry, what learns, and the handle on both.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_search::ToolIndex;
use toolbus_store::{Error, LazyStore};
use toolbus_tools::id::ToolId;
use toolbus_tools::observe::Observe;
use toolbus_tools::policy::Policy;
use toolbus_tools::{Registry, Scope};

use crate::cache::AnswerCache;
use crate::catalogue::Catalogue;
use crate::config::DiscoveryConfig;
use crate::definition::DefinitionProblem;
use crate::events::{ExecutionEvent, QueryEvent};
use crate::keeper::{EXECUTIONS, Keeper, QUERIES};
use crate::learned::Learned;
use crate::lifecycle::Lifecycle;
use crate::lifecycle_watch::{self, LifecycleChange, LifecycleCounts, Lifecycles};
use crate::metrics::DiscoveryMetrics;
use crate::recorder::{Learner, RECENT_EVENTS_MAX, RecentEvents, Recorder};
use crate::request::{RetrieveError, RetrieveRequest, Retrieved};
use crate::rows;
use crate::splitting::{SplitTask, TaskSplits};
use crate::targets::{MissReporter, TargetMiss, misses};

/// How long changes of the registry are collected, so that many at once are one update.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(20);
/// Tools that the index is told of at once.
const UPDATE_GROUP: usize = 256;
/// How often tools are compared with their targets.
const TARGETS_INTERVAL: Duration = Duration::from_secs(10);
/// How long discovery waits for the store when it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What discovery works with.
pub struct DiscoveryDeps {
    /// The tools.
    pub registry: Arc<Registry>,
    /// Says who may call what.
    pub policy: Arc<dyn Policy>,
    /// Finds tools by what they are for.
    pub index: ToolIndex,
    /// Keeps what was learned; it knows [`MIGRATIONS`](crate::MIGRATIONS). `None`: it is forgotten
    /// with the process.
    pub store: Option<LazyStore>,
    /// Splits tasks of several steps. `None`: the rule of the index does.
    pub splitter: Option<Arc<dyn SplitTask>>,
}

/// The catalogue of tools. Clones are the same. Close it before the store.
#[derive(Clone)]
pub struct Discovery {
    pub(crate) inner: Arc<Inner>,
    tasks: Arc<Tasks>,
}

/// What discovery knows now, for whoever operates it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiscoveryState {
    /// Tools in the registry.
    pub registered: usize,
    /// Those of them that can be found.
    pub discoverable: usize,
    /// Whether the index knows all that is registered.
    pub is_current: bool,
    /// How many tools are in which state of their lives, as of a moment ago.
    pub lifecycles: LifecycleCounts,
    /// Calls that were learned from, in this process.
    pub learned_calls: u64,
    /// Calls and queries that were not learned from, because too many came at once.
    pub dropped: u64,
}

pub(crate) struct Inner {
    pub(crate) deps: DiscoveryDeps,
    pub(crate) config: DiscoveryConfig,
    pub(crate) catalogue: RwLock<Arc<Catalogue>>,
    /// Held by whoever makes a new catalogue.
    following: Mutex<()>,
    pub(crate) learned: Arc<RwLock<Learned>>,
    pub(crate) cache: Mutex<AnswerCache>,
    pub(crate) recorder: Arc<Recorder>,
    events: Arc<Mutex<RecentEvents>>,
    pub(crate) metrics: Arc<DiscoveryMetrics>,
    pub(crate) splits: Option<TaskSplits>,
    pub(crate) lifecycles: Mutex<Lifecycles>,
    pub(crate) revision: watch::Sender<u64>,
}

struct Tasks {
    tracker: TaskTracker,
    /// Fires when nothing more is to be followed and learned.
    stop: CancellationToken,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Discovery {
    /// Follows the registry from now on, with nothing set. Needs a tokio runtime.
    #[must_use]
    pub fn start(deps: DiscoveryDeps) -> Self {
        Self::start_with(deps, DiscoveryConfig::default())
    }

    /// Follows the registry from now on. Tools that are there already can be found when this
    /// returns. Needs a tokio runtime.
    #[must_use]
    pub fn start_with(deps: DiscoveryDeps, config: DiscoveryConfig) -> Self {
        let metrics = Arc::new(DiscoveryMetrics::new());
        let (recorder, lessons) = Recorder::new(Arc::clone(&deps.registry), config.clock.clone());
        let recorder = Arc::new(recorder);
        let learned = Arc::new(RwLock::new(Learned::new(&config.limits)));
        let (events, revision) = (Arc::default(), watch::Sender::new(0));
        let (stop, is_learned) = (CancellationToken::new(), CancellationToken::new());

        let learner = Learner {
            lessons,
            learned: Arc::clone(&learned),
            events: Arc::clone(&events),
            clock: config.clock.clone(),
            metrics: Arc::clone(&metrics),
            dropped: Arc::clone(&recorder.dropped),
            changed: revision.clone(),
            stop: stop.clone(),
        };
        let keeper = deps.store.clone().map(|store| Keeper {
            store,
            learned: Arc::clone(&learned),
            events: Arc::clone(&events),
            limits: config.limits.clone(),
            clock: config.clock.clone(),
            dropped: Arc::clone(&recorder.dropped),
            stop: is_learned.clone(),
            read_ms: [0; 3],
            is_failing: false,
        });
        let inner = Arc::new(Inner {
            splits: deps.splitter.clone().map(TaskSplits::new),
            lifecycles: Mutex::default(),
            cache: Mutex::new(AnswerCache::new(config.limits.clone())),
            deps,
            config,
            catalogue: RwLock::default(),
            following: Mutex::default(),
            learned,
            recorder,
            events,
            metrics,
            revision,
        });

        inner.follow();
        inner.observe_lifecycles();
        let tracker = TaskTracker::new();
        tracker.spawn(follow_registry(Arc::clone(&inner), stop.clone()));
        tracker.spawn(watch_targets(Arc::clone(&inner), stop.clone()));
        tracker.spawn(lifecycle_watch::watch(Arc::clone(&inner), stop.clone()));
        tracker.spawn(async move {
            learner.run().await;
            is_learned.cancel();
        });
        if let Some(keeper) = keeper {
            tracker.spawn(keeper.run());
        }
        Self { inner, tasks: Arc::new(Tasks { tracker, stop }) }
    }

    /// The tools for a task, of those that a caller may use.
    ///
    /// # Errors
    /// When the request is not well-formed.
    pub async fn retrieve(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<Retrieved, RetrieveError> {
        self.inner.retrieve(scope, request).await
    }

    /// The same, of which no event is kept: for what somebody said who has not asked for tools.
    ///
    /// # Errors
    /// When the request is not well-formed.
    pub async fn suggest(
        &self,
        scope: &Scope,
        request: &RetrieveRequest,
    ) -> Result<Retrieved, RetrieveError> {
        self.inner.find(scope, request).await.map(|(retrieved, _)| retrieved)
    }

    /// What hears of calls, to learn from them.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observe> {
        Arc::clone(&self.inner.recorder) as Arc<dyn Observe>
    }

    /// Sees a new number with each change of the tools and of what was learned of them.
    #[must_use]
    pub fn revision(&self) -> watch::Receiver<u64> {
        self.inner.revision.subscribe()
    }

    /// What discovery knows now. It counts tools that not everybody may see.
    #[must_use]
    pub fn state(&self) -> DiscoveryState {
        let snapshot = self.inner.deps.registry.snapshot();
        let catalogue = self.inner.catalogue();
        DiscoveryState {
            registered: snapshot.tools().len(),
            discoverable: catalogue.tools.len(),
            is_current: catalogue.registry_revision == snapshot.revision(),
            lifecycles: self.inner.lifecycles.lock().counts(),
            learned_calls: self.inner.learned.read().told(),
            dropped: self.inner.recorder.dropped.load(Ordering::Relaxed),
        }
    }

    /// Where a tool is in its life; for whoever operates the fleet.
    #[must_use]
    pub fn lifecycle(&self, tool: &ToolId) -> Lifecycle {
        let is_indexed = self.inner.catalogue().find(tool).is_some();
        let now_ms = self.inner.config.clock.now_ms();
        self.inner.learned.read().lifecycle(tool, is_indexed, now_ms)
    }

    /// The last tools that came into another state of their lives, the newest first; for whoever
    /// operates the fleet.
    #[must_use]
    pub fn lifecycle_changes(&self) -> Vec<LifecycleChange> {
        self.inner.lifecycles.lock().changes()
    }

    /// Why tools that a scope may see cannot be found.
    #[must_use]
    pub fn problems(&self, scope: &Scope) -> Vec<DefinitionProblem> {
        let snapshot = self.inner.deps.registry.snapshot();
        let policy = &*self.inner.deps.policy;
        let is_seen = |problem: &DefinitionProblem| {
            snapshot.seen_by(scope).any(|entry| {
                entry.id == problem.tool && {
                    let subject = entry.subject();
                    let request = toolbus_tools::policy::PolicyRequest { scope, subject: &subject };
                    !matches!(policy.decide(&request), toolbus_tools::policy::Decision::Deny(_))
                }
            })
        };
        let problems = &self.inner.catalogue().problems;
        problems.iter().filter(|problem| is_seen(problem)).cloned().collect()
    }

    /// The targets that tools miss which a scope may see.
    #[must_use]
    pub fn missed_targets(&self, scope: &Scope) -> Vec<TargetMiss> {
        let catalogue = self.inner.catalogue();
        let mut missed = self.inner.missed_targets();
        missed.retain(|miss| {
            let tool = catalogue.find(&miss.tool);
            tool.is_some_and(|tool| tool.is_seen_by(scope, &*self.inner.deps.policy))
        });
        missed
    }

    /// The last executions, the newest first; for whoever operates the fleet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn executions(&self, limit: usize) -> Result<Vec<ExecutionEvent>, Error> {
        let waiting: Vec<_> = {
            let events = self.inner.events.lock();
            events.executions.iter().rev().map(|(_, event)| event.clone()).collect()
        };
        self.inner.with_stored(EXECUTIONS, waiting, limit).await
    }

    /// The last queries of those who are known, the newest first; for whoever operates the fleet.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn queries(&self, limit: usize) -> Result<Vec<QueryEvent>, Error> {
        let waiting: Vec<_> = {
            let events = self.inner.events.lock();
            events.queries.iter().rev().map(|(_, event)| event.clone()).collect()
        };
        self.inner.with_stored(QUERIES, waiting, limit).await
    }

    /// Stops following the registry, and writes what was learned.
    pub async fn close(&self) {
        self.tasks.stop.cancel();
        self.tasks.tracker.close();
        if timeout(CLOSE_TIMEOUT, self.tasks.tracker.wait()).await.is_err() {
            tracing::error!("discovery was closed before all that it learned was written");
        }
    }
}

impl Inner {
    pub(crate) fn catalogue(&self) -> Arc<Catalogue> {
        Arc::clone(&self.catalogue.read())
    }

    /// Makes catalogue and index what the registry has now.
    fn follow(&self) {
        let _following = self.following.lock();
        let snapshot = self.deps.registry.snapshot();
        let before = self.catalogue();
        if before.version > 0 && before.registry_revision == snapshot.revision() {
            return;
        }

        let (next, change) = before.next(&snapshot, &self.config);
        self.metrics.count_updates(change.changed.len(), change.gone.len());
        let mut changed = change.changed;
        let mut gone = change.gone.as_slice();
        while !changed.is_empty() || !gone.is_empty() {
            let rest = changed.split_off(changed.len().min(UPDATE_GROUP));
            self.deps.index.update(std::mem::replace(&mut changed, rest), gone);
            gone = &[];
        }

        *self.catalogue.write() = Arc::new(next);
        self.cache.lock().clear();
        self.revision.send_modify(|number| *number += 1);
    }

    /// The targets that tools of the catalogue miss.
    fn missed_targets(&self) -> Vec<TargetMiss> {
        let catalogue = self.catalogue();
        let now_ms = self.config.clock.now_ms();
        let learned = self.learned.read();
        let tools = catalogue.tools.iter().map(|tool| tool.id());
        tools.flat_map(|tool| misses(tool, &learned.statistics(tool, now_ms))).collect()
    }

    /// Events that wait, and those of the store behind them.
    async fn with_stored<E: serde::de::DeserializeOwned>(
        &self,
        table: &'static str,
        mut events: Vec<E>,
        limit: usize,
    ) -> Result<Vec<E>, Error> {
        events.truncate(limit);
        let room = limit.min(RECENT_EVENTS_MAX).saturating_sub(events.len());
        if let Some(store) = &self.deps.store
            && room > 0
            && store.may_hold_something()
        {
            let texts = rows::last_events(store.open().await?, table, room).await?;
            events.extend(texts.iter().filter_map(|text| toolbus_json::from_trusted(text).ok()));
        }
        Ok(events)
    }
}

/// Follows the registry until it is stopped.
async fn follow_registry(inner: Arc<Inner>, stop: CancellationToken) {
    let mut changes = inner.deps.registry.changes();
    loop {
        inner.follow();
        tokio::select! {
            // A change that was not seen is seen the next time.
            changed = changes.changed() => {
                if changed.is_err() {
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
        // A moment in which more may come; what is found meanwhile is compared with the registry.
        let _ = timeout(FOLLOW_INTERVAL, stop.cancelled()).await;
    }
}

/// Compares tools with their targets from time to time, where something was learned.
async fn watch_targets(inner: Arc<Inner>, stop: CancellationToken) {
    let mut reporter = MissReporter::default();
    let mut seen = 0;
    while timeout(TARGETS_INTERVAL, stop.cancelled()).await.is_err() {
        let told = inner.learned.read().told();
        if std::mem::replace(&mut seen, told) != told {
            reporter.report(inner.missed_targets());
        }
        let now_ms = inner.config.clock.now_ms();
        inner.learned.write().forget_old(now_ms);
    }
}
