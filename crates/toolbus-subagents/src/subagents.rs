//! Subagents: spawning and cancelling them, and what they report.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::Bus;
use toolbus_policy::SessionOwner;
use toolbus_policy::spawn::Priority;
use toolbus_store::LazyStore;
use toolbus_tools::budget::Usage;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::CallId;
use toolbus_tools::{Lineage, Scope};
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::{AgentName, InstanceId};
use tracing::Span;

use crate::config::ms;
use crate::event::without_zeros;
use crate::metrics::{SubagentMetrics, subagent_span};
use crate::publish::publish_event;
use crate::rows::{Inserted, NewRow, SubagentRows};
use crate::run::Start;
use crate::scope::{child_scope, subagent_of, subagent_session};
use crate::{
    ActiveSubagent, Error, OnSubagent, RunSubagent, SubagentChange, SubagentEvent, SubagentsConfig,
};

/// How long an id is, in lower hex.
const ID_LENGTH: usize = 12;
/// How long it may take to tell progress.
const PROGRESS_TIMEOUT: Duration = Duration::from_secs(1);

/// The subagents of an agent. Clones are the same.
#[derive(Clone)]
pub struct Subagents(Arc<Inner>);

/// What they work with.
pub struct SubagentsDeps {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The state, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    pub store: LazyStore,
    /// The name that the agent has on the bus.
    pub agent: AgentName,
    /// This process.
    pub instance: InstanceId,
    /// How many there may be, and how much of everything.
    pub config: Arc<SubagentsConfig>,
    /// Does their work.
    pub work: Arc<dyn RunSubagent>,
    /// Is told what happens.
    pub on_subagent: Arc<dyn OnSubagent>,
}

/// A subagent that is to be spawned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSubagent {
    /// What it is to do.
    pub description: String,
    /// What it has to know for that.
    pub context: Option<String>,
    /// How long it may take. `None`: as the settings say.
    pub timeout: Option<Duration>,
    /// How much it matters.
    pub priority: Priority,
}

/// What the subagents of a process share.
pub(crate) struct Inner {
    pub(crate) deps: SubagentsDeps,
    pub(crate) rows: SubagentRows,
    pub(crate) metrics: SubagentMetrics,
    /// Those that this process runs, by their ids.
    running: Mutex<HashMap<String, Running>>,
    /// Room for more of them.
    pub(crate) room: Arc<Semaphore>,
    /// Wakes the runner.
    pub(crate) nudge: Notify,
    /// Everything that is under way.
    pub(crate) tasks: TaskTracker,
    /// Nothing more is begun.
    pub(crate) stopping: CancellationToken,
    /// What is under way is left to others.
    pub(crate) left: CancellationToken,
}

/// A subagent that this process runs.
#[derive(Clone)]
struct Running {
    owner: SessionOwner,
    description: String,
}

/// Notes that a subagent runs here, for as long as this lives.
pub(crate) struct RunningHere {
    subagents: Arc<Inner>,
    id: String,
    _room: OwnedSemaphorePermit,
}

impl Subagents {
    /// The subagents of an agent. Nothing is told of them before a [`Runner`](crate::Runner) runs,
    /// and nothing goes on that a process has left which was lost.
    #[must_use]
    pub fn new(deps: SubagentsDeps) -> Self {
        let config = &deps.config;
        let rows = SubagentRows {
            store: deps.store.clone(),
            agent: deps.agent.clone(),
            instance: deps.instance.clone(),
            lease_ms: ms(config.lease_ttl),
            claim_ms: ms(config.claim_ttl),
            concurrent_max: config.concurrent_max,
            process_max: config.process_max,
            history_max: config.history_max,
        };
        let room = Arc::new(Semaphore::new(config.process_max.min(Semaphore::MAX_PERMITS)));

        Self(Arc::new(Inner {
            deps,
            rows,
            metrics: SubagentMetrics::new(),
            running: Mutex::default(),
            room,
            nudge: Notify::new(),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            left: CancellationToken::new(),
        }))
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    /// Spawns a subagent in the name of a call, and answers its id. The same call, made again, is
    /// the same subagent, whatever room there is.
    ///
    /// # Errors
    /// When it is not spawned, for a reason that is for models, too. Where the store does not know
    /// whether it has written it, it may go on nevertheless.
    pub async fn spawn(
        &self,
        scope: &Scope,
        call: &CallId,
        new: NewSubagent,
    ) -> Result<String, Error> {
        let owner = SessionOwner::of(scope).ok_or(Error::NoSession)?;
        check_not_inside(scope)?;
        let config = &self.0.deps.config;
        let context = new.context.unwrap_or_default();
        check_length("description", &new.description, 1..=config.description_bytes_max)?;
        check_length("context", &context, 0..=config.context_bytes_max)?;
        let timeout = new.timeout.unwrap_or(config.timeout);
        if timeout.is_zero() || timeout > config.timeout_max {
            return Err(Error::Timeout { max: config.timeout_max.as_secs() / 60 });
        }

        let id = new_id()[..ID_LENGTH].to_owned();
        let session = subagent_session(&id).ok_or_else(|| Error::Damaged(id.clone()))?;
        let child = child_scope(scope, call, session).ok_or(Error::TooDeep)?;
        let (depth, lineage) = (child.depth, Lineage::of(scope));
        let start = Start {
            id: id.clone(),
            owner: owner.clone(),
            description: without_zeros(new.description),
            context: without_zeros(context),
            lineage: Some(lineage.clone()),
            spent: Usage::default(),
            is_paused: false,
            is_resumed: false,
            timeout,
            scope: Some(Arc::new(child)),
            span: Span::none(),
        };
        let row = NewRow {
            id,
            call: same_call(&owner, call, &start, new.priority),
            owner,
            description: start.description.clone(),
            context: start.context.clone(),
            priority: new.priority,
            depth,
            lineage,
            timeout_ms: ms(timeout),
            has_room: false,
        };
        // Whoever waits for it may stop waiting; what was written down is to run all the same.
        let spawning = Arc::clone(&self.0).spawn(row, start, Span::current());
        let spawning = self.0.tasks.spawn(spawning);
        spawning.await.map_err(|_| Error::Stopping)?
    }

    /// Cancels a subagent, whichever process runs it. `false`: there is none of that id in the
    /// session that has not ended.
    ///
    /// # Errors
    /// When the state cannot be used, or a subagent asks.
    pub async fn cancel(&self, scope: &Scope, id: &str) -> Result<bool, Error> {
        let owner = SessionOwner::of(scope).ok_or(Error::NoSession)?;
        check_not_inside(scope)?;
        let is_id = id.len() == ID_LENGTH && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(is_id && self.0.rows.cancel(&owner, id).await?)
    }

    /// The subagents of a session that have not ended, from the oldest on.
    ///
    /// # Errors
    /// When the state cannot be used, or a subagent asks.
    pub async fn list(&self, scope: &Scope) -> Result<Vec<ActiveSubagent>, Error> {
        let owner = SessionOwner::of(scope).ok_or(Error::NoSession)?;
        check_not_inside(scope)?;
        self.0.rows.list(&owner).await
    }

    /// Tells how a subagent is going, in the name of its scope: to the session that has spawned it,
    /// and to whoever listens on the bus. It is lost where nobody takes it.
    ///
    /// # Errors
    /// When the scope is of no subagent that runs here, or the message is too long.
    pub async fn report_progress(&self, scope: &Scope, message: &str) -> Result<(), Error> {
        let id = scope.session.as_ref().and_then(subagent_of).ok_or(Error::NotInside)?;
        let running = self.0.running.lock().get(id).cloned().ok_or(Error::NotInside)?;
        if running.owner.principal != scope.principal {
            return Err(Error::NotInside);
        }
        check_length("message", message, 1..=self.0.deps.config.progress_bytes_max)?;

        let Running { owner, description } = running;
        let what = SubagentChange::Progress { message: without_zeros(message.to_owned()) };
        // It is told to a turn that is under way, or to none.
        let event = SubagentEvent { id: id.to_owned(), owner, description, what, lineage: None };
        let telling = async { self.0.deps.on_subagent.tell(&event).await };
        let telling = AssertUnwindSafe(telling).catch_unwind();
        let telling = tokio::time::timeout(PROGRESS_TIMEOUT, telling);
        let publishing = publish_event(&*self.0.deps.bus, &event);
        let (told, ()) = futures_util::future::join(telling, publishing).await;
        if !matches!(told, Ok(Ok(_))) {
            tracing::debug!(id = event.id, "the progress of a subagent was not taken");
        }
        Ok(())
    }

    /// Whose whiteboard it is that the calls of this scope see: that of the session, and within a
    /// subagent that of whoever has spawned it.
    pub(crate) async fn whiteboard_owner(&self, scope: &Scope) -> Result<SessionOwner, Error> {
        let own = SessionOwner::of(scope).ok_or(Error::NoSession)?;
        let Some(id) = subagent_of(&own.session) else { return Ok(own) };
        let running = self.0.running.lock().get(id).map(|running| running.owner.clone());
        let owner = match running {
            Some(owner) => Some(owner),
            None => self.0.rows.owner_of(id).await?,
        };
        // A session that somebody has given such a name has a whiteboard of its own.
        Ok(owner.filter(|owner| owner.principal == own.principal).unwrap_or(own))
    }
}

impl Inner {
    async fn spawn(
        self: Arc<Self>,
        row: NewRow,
        mut start: Start,
        spawner: Span,
    ) -> Result<String, Error> {
        if self.stopping.is_cancelled() {
            return Err(Error::Stopping);
        }
        let room = Arc::clone(&self.room).try_acquire_owned().ok();
        let row = NewRow { has_room: room.is_some(), ..row };

        match self.rows.insert(row).await? {
            Inserted::Same(id) => Ok(id),
            Inserted::New => {
                let id = start.id.clone();
                self.metrics.count_spawned();
                // It was written down on condition of that.
                if let Some(room) = room {
                    start.span = subagent_span(&id, &spawner);
                    let here = self.note_running(&start, room);
                    self.tasks.spawn(Arc::clone(&self).work(start, here));
                    self.nudge.notify_one();
                }
                Ok(id)
            }
        }
    }

    pub(crate) fn note_running(
        self: &Arc<Self>,
        start: &Start,
        room: OwnedSemaphorePermit,
    ) -> RunningHere {
        let Start { id, owner, description, .. } = start;
        let running = Running { owner: owner.clone(), description: description.clone() };
        self.running.lock().insert(id.clone(), running);
        self.metrics.add_running(1);
        RunningHere { subagents: Arc::clone(self), id: id.clone(), _room: room }
    }

    pub(crate) fn runs_here(&self, id: &str) -> bool {
        self.running.lock().contains_key(id)
    }
}

impl Drop for RunningHere {
    fn drop(&mut self) {
        self.subagents.running.lock().remove(&self.id);
        self.subagents.metrics.add_running(-1);
    }
}

fn check_not_inside(scope: &Scope) -> Result<(), Error> {
    match scope.session.as_ref().and_then(subagent_of) {
        Some(_) => Err(Error::Nested),
        None => Ok(()),
    }
}

pub(crate) fn check_length(
    what: &'static str,
    text: &str,
    bytes: RangeInclusive<usize>,
) -> Result<(), Error> {
    let (min, max) = bytes.into_inner();
    if text.trim().len() < min || text.len() > max {
        return Err(Error::Length { what, bytes: text.len(), min, max });
    }
    Ok(())
}

/// What says that a call is the same as one before. Clients may number their calls alike, so what
/// they ask for is a part of it.
fn same_call(owner: &SessionOwner, call: &CallId, start: &Start, priority: Priority) -> String {
    let Start { description, context, timeout, .. } = start;
    let call = (
        owner.key(),
        owner.session.as_str(),
        call.as_str(),
        (description, context, timeout.as_millis(), priority as i64),
    );
    // Texts and numbers are always JSON.
    sha256_hex(&serde_json::to_string(&call).unwrap_or_default())
}
