//! Tasks for other agents: asking, cancelling, and what is known of those that are open.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use toolbus_bus::{Bus, Envelope, PublishError};
use toolbus_policy::SessionOwner;
use toolbus_store::LazyStore;
use toolbus_tools::{Lineage, Scope};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::a2a::{
    AgentMessage, AgentTaskCancelRequest, AgentTaskRequest, DEPTH_HEADER, DOORS_HEADER, ROLE_USER,
};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{header, topic};

use crate::asked::{AskedRow, AskedTasks, NewAsked, NewSent, Recorded};
use crate::config::ms;
use crate::event::TaskChange;
use crate::metrics::{Direction, EndedTask, Outcome, TaskMetrics, Transport};
use crate::{A2aConfig, Directory, Error, KeepResult, OnTask, TaskLineage};

/// Longest message of a task, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 512 << 10;
/// Longest name of a skill, in bytes.
pub const SKILL_BYTES_MAX: usize = 256;
/// How much of a name is said again that is none, in characters.
const PREVIEW_CHARS: usize = 80;
/// How far the content of a task may be trusted.
const TRUST: &str = "agent-message";

/// The tasks that an agent asks others for. Clones are the same.
#[derive(Clone)]
pub struct Tasks(Arc<Inner>);

/// What they work with.
pub struct TasksDeps {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The state, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    pub store: LazyStore,
    /// The name that the agent has on the bus.
    pub agent: AgentName,
    /// This process.
    pub instance: InstanceId,
    /// How much may be asked.
    pub config: Arc<A2aConfig>,
    /// Who is known.
    pub directory: Directory,
    /// Is told what happens.
    pub on_task: Arc<dyn OnTask>,
    /// Keeps the texts of results.
    pub keep: Arc<dyn KeepResult>,
}

struct Inner {
    deps: TasksDeps,
    rows: AskedTasks,
    metrics: TaskMetrics,
    /// What this process has asked for and is open, as last seen.
    open: Mutex<HashMap<String, AskedRow>>,
    nudge: Notify,
    http: HttpTargets,
}

/// The agents that are asked over HTTP, and who is told of tasks for them.
#[derive(Default)]
struct HttpTargets {
    /// Their names in lower case.
    names: OnceLock<HashSet<String>>,
    /// Wakes whoever takes up tasks.
    nudge: Notify,
    /// Wakes whoever has one.
    wake: Notify,
}

/// A task that is to be asked for.
#[derive(Debug, Clone)]
pub struct NewTask {
    /// The agent, in any case.
    pub target: String,
    /// The skill.
    pub skill: String,
    /// What is to be done.
    pub message: String,
    /// How long it may take. `None`: as the settings say.
    pub timeout: Option<Duration>,
}

/// A task that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    /// Its id.
    pub task_id: String,
    /// The agent, as it calls itself.
    pub target: AgentName,
}

/// What became of the wish to cancel a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAsked {
    /// The agent was asked. What it makes of that is told as an event.
    Sent,
    /// Nothing of that id is open: it has ended, or was never asked for.
    NotOpen,
}

impl Tasks {
    /// The tasks of an agent. Nothing is told of them before a [`Caller`](crate::Caller) runs.
    #[must_use]
    pub fn new(deps: TasksDeps) -> Self {
        let rows = AskedTasks {
            store: deps.store.clone(),
            agent: deps.agent.clone(),
            instance: deps.instance.clone(),
        };

        Self(Arc::new(Inner {
            deps,
            rows,
            metrics: TaskMetrics::new(),
            open: Mutex::default(),
            nudge: Notify::new(),
            http: HttpTargets::default(),
        }))
    }

    pub(crate) fn deps(&self) -> &TasksDeps {
        &self.0.deps
    }

    pub(crate) fn rows(&self) -> &AskedTasks {
        &self.0.rows
    }

    /// Waits until something was changed through this or a clone.
    pub(crate) async fn nudged(&self) {
        self.0.nudge.notified().await;
    }

    pub(crate) fn wake(&self) {
        self.0.nudge.notify_one();
    }

    /// Has these agents be asked over HTTP, by their names in lower case. `false`: others are.
    pub(crate) fn set_http_agents(&self, names: HashSet<String>) -> bool {
        self.0.http.names.set(names).is_ok()
    }

    /// Whether an agent is asked over HTTP.
    pub(crate) fn is_over_http(&self, agent: &str) -> bool {
        let names = self.0.http.names.get();
        names.is_some_and(|names| names.contains(&agent.to_ascii_lowercase()))
    }

    /// Waits until there may be something to send over HTTP.
    pub(crate) async fn http_nudged(&self) {
        self.0.http.nudge.notified().await;
    }

    /// Waits until something may have become of a task over HTTP.
    pub(crate) async fn http_woken(&self) {
        self.0.http.wake.notified().await;
    }

    /// The directory.
    #[must_use]
    pub fn directory(&self) -> &Directory {
        &self.0.deps.directory
    }

    /// Sends a task to another agent. It is written down first, so that its result comes back
    /// whatever becomes of this process.
    ///
    /// # Errors
    /// When it is not sent, for a reason that is for models, too. What may have been sent counts
    /// as sent.
    pub async fn invoke(&self, scope: &Scope, task: NewTask) -> Result<Dispatched, Error> {
        let owner = SessionOwner::of(scope).ok_or(Error::NoSession)?;
        let TasksDeps { bus, config, .. } = self.deps();
        let target = self.target(&task.target)?;
        let timeout = task.timeout.unwrap_or(config.timeout);
        if timeout.is_zero() || timeout > config.timeout_max {
            return Err(Error::Timeout { max: config.timeout_max.as_secs() / 60 });
        }
        check_length("skill", &task.skill, SKILL_BYTES_MAX)?;
        check_length("message", &task.message, MESSAGE_BYTES_MAX)?;
        let lineage = TaskLineage::of(scope).ok_or(Error::TooDeep)?;

        let id = new_id();
        let is_over_http = self.is_over_http(target.as_str());
        let sent = || NewSent { message: task.message.clone(), lineage };
        let new = NewAsked {
            id: id.clone(),
            owner,
            target: target.to_string(),
            skill: task.skill.replace('\0', "\u{fffd}"),
            timeout_ms: ms(timeout),
            lineage: Lineage::of(scope),
            over_http: is_over_http.then(sent),
        };
        let row = self.rows().insert(new, config).await?;
        self.0.open.lock().insert(id.clone(), row);
        // Its deadline is waited for from now on.
        self.wake();
        if is_over_http {
            self.0.http.nudge.notify_one();
            return Ok(Dispatched { task_id: id, target });
        }

        let request = AgentTaskRequest {
            task_id: id.clone(),
            context_id: None,
            skill: task.skill,
            message: AgentMessage::of_text(ROLE_USER, task.message),
        };
        let envelope = self
            .envelope(Envelope::of(&request, self.deps().agent.as_str()), &id)
            .with_header(header::CONTENT_TRUST, TRUST)
            .with_header(header::TIMEOUT_MS, timeout.as_millis().to_string())
            .with_header(DEPTH_HEADER, lineage.depth.to_string())
            .with_header(DOORS_HEADER, lineage.doors.to_string())
            .with_expiry(timeout);
        match bus.publish(&topic::agent_task(&target), envelope).await {
            // It may be there, and if it is not, its time runs out.
            Ok(()) | Err(PublishError::Unconfirmed) => Ok(Dispatched { task_id: id, target }),
            Err(error) => {
                self.rows().forget(&id).await?;
                Err(match error {
                    PublishError::Unroutable(_) => Error::NotThere(target.to_string()),
                    source => Error::Publish { agent: target.to_string(), source },
                })
            }
        }
    }

    /// Asks the agent to give a task up.
    ///
    /// # Errors
    /// When it cannot be asked.
    pub async fn cancel(&self, owner: &SessionOwner, task_id: &str) -> Result<CancelAsked, Error> {
        let Some(row) = self.rows().find_open(owner, task_id).await? else {
            return Ok(CancelAsked::NotOpen);
        };
        self.rows().mark_cancelled(&row.id).await?;
        match self.send_cancel(&row).await {
            Ok(()) => Ok(CancelAsked::Sent),
            Err(PublishError::Unroutable(_)) => Err(Error::NotThere(row.target)),
            Err(source) => Err(Error::Publish { agent: row.target, source }),
        }
    }

    pub(crate) async fn send_cancel(&self, row: &AskedRow) -> Result<(), PublishError> {
        if self.is_over_http(&row.target) {
            // Whoever has it sees it in the row.
            self.0.http.wake.notify_waiters();
            return Ok(());
        }
        // It was a name when the task was written down.
        let Ok(target) = AgentName::parse(&row.target) else { return Ok(()) };
        let request = AgentTaskCancelRequest { task_id: row.id.clone(), context_id: None };
        let envelope = Envelope::of(&request, self.deps().agent.as_str());
        let envelope = self.envelope(envelope, &row.id);
        self.deps().bus.publish(&topic::agent_task_cancel(&target), envelope).await
    }

    /// Writes down how a task ended, once, where `source` is the agent that was asked, and counts
    /// it.
    pub(crate) async fn end(
        &self,
        id: &str,
        source: Option<&str>,
        change: &TaskChange,
    ) -> Result<Recorded, Error> {
        let recorded = self.rows().end(id, source, change).await?;
        if let Recorded::Ended { target, took_ms } = &recorded {
            self.0.metrics.record(EndedTask {
                direction: Direction::Asked,
                transport: Transport::of(self.is_over_http(target)),
                outcome: Outcome::of_change(change),
                took_ms: *took_ms,
            });
        }
        Ok(recorded)
    }

    fn envelope(&self, envelope: Envelope, task_id: &str) -> Envelope {
        let responses = topic::agent_response(&self.deps().agent);
        envelope.with_correlation_id(task_id).with_reply_to(responses)
    }

    /// The agent that is meant, as it calls itself where it is known.
    fn target(&self, name: &str) -> Result<AgentName, Error> {
        let name = name.trim();
        let known = self.directory().find(name);
        let called = known.as_ref().map_or(name, |known| &known.card.agent_name);
        let target = AgentName::parse(called).map_err(|reason| Error::Name {
            name: name.chars().take(PREVIEW_CHARS).collect(),
            reason,
        })?;
        if target.as_str().eq_ignore_ascii_case(self.deps().agent.as_str()) {
            return Err(Error::Itself(target.to_string()));
        }
        Ok(target)
    }

    /// Takes note of the tasks that this process has asked for and that are open.
    pub(crate) fn note_open(&self, rows: &[AskedRow]) {
        let instance = self.deps().instance.as_str();
        let ours = rows.iter().filter(|row| row.is_open && row.holder == instance);
        *self.0.open.lock() = ours.map(|row| (row.id.clone(), row.clone())).collect();
    }

    /// An open task of this process, as last seen.
    pub(crate) fn find_noted(&self, task_id: &str) -> Option<AskedRow> {
        self.0.open.lock().get(task_id).cloned()
    }
}

fn check_length(what: &'static str, text: &str, max: usize) -> Result<(), Error> {
    match text.trim().len() {
        1.. if text.len() <= max => Ok(()),
        _ => Err(Error::Length { what, bytes: text.len(), max }),
    }
}
