//! Other agents, on the bus and over HTTP: known, asked, and answered.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use toolbus::{InstanceId, ToolbusBuilder};
use toolbus_a2a::{
    A2aConfig, A2aDeps, Caller, Directory, HttpAgent, HttpAgentError, HttpCaller, HttpCallerDeps,
    Presence, PresenceDeps, TaskIntake, Tasks, TasksDeps, Worker, WorkerDeps,
};
use toolbus_agent::Agent;
use toolbus_bus::{Bus, SubscribeError};
use toolbus_store::LazyStore;
use toolbus_tools::CredentialSource;
use toolbus_wire::name::AgentName;

use crate::agent_tasks::AgentTasks;
use crate::session_notices::KeptResults;
use crate::settings::Settings;
use crate::state::KeptState;
use crate::wisp_parts::{AgentAnswers, TaskEnds};

/// The other agents, as this process knows them.
pub(crate) struct OtherAgents {
    bus: Arc<dyn Bus>,
    name: AgentName,
    instance: InstanceId,
    config: Arc<A2aConfig>,
    tasks: Tasks,
    store: LazyStore,
    /// Those that are asked over HTTP.
    http_agents: Vec<HttpAgent>,
    credentials: Option<Arc<dyn CredentialSource>>,
}

/// The other agents, once there is a bus. Clones are the same.
pub(crate) type LateOtherAgents = Arc<OnceLock<OtherAgents>>;

/// What a process does among agents.
pub(crate) struct Part {
    /// What tells it from others of its name.
    pub(crate) instance: InstanceId,
    /// Whether it does tasks of others.
    pub(crate) works: bool,
    /// Whether nobody else is on its bus.
    pub(crate) is_embedded: bool,
}

/// What hears them, and is heard by them.
pub(crate) struct Conversing {
    http_caller: Option<HttpCaller>,
    caller: Caller,
    worker: Option<Worker>,
    presence: Presence,
}

/// Why they cannot be heard.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// A queue cannot be had.
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    /// An agent of the settings cannot be asked.
    #[error(transparent)]
    Http(#[from] HttpAgentError),
}

/// The same builder with the tools that ask other agents. `None`: they are not wanted, or there is
/// nobody to ask or to answer.
pub(crate) fn offer(
    builder: ToolbusBuilder,
    settings: &Settings,
    state: &KeptState,
    part: Part,
) -> (ToolbusBuilder, Option<LateOtherAgents>) {
    let a2a = &settings.a2a;
    let is_served = part.works && settings.http.address.is_some();
    let has_others = !part.is_embedded || is_served || !a2a.agents.is_empty();
    if !a2a.enabled || settings.models.endpoints.is_empty() || !has_others {
        return (builder, None);
    }

    let made = LateOtherAgents::default();
    let (set, a2a, store) = (Arc::clone(&made), a2a.clone(), state.store().clone());
    let (notices, memory) = (state.notices.clone(), state.memory.clone());
    let vault = state.vault.clone();
    let builder = builder.guide(toolbus_a2a::guide()).remote_tools(move |registry, requester| {
        let (bus, name) = (Arc::clone(requester.bus()), requester.agent().clone());
        let config = Arc::new(a2a.config(&name, part.works));
        let directory = Directory::new(store.clone(), name.clone(), Arc::clone(&config));
        let tasks = Tasks::new(TasksDeps {
            bus: Arc::clone(&bus),
            store: store.clone(),
            agent: name.clone(),
            instance: part.instance.clone(),
            config: Arc::clone(&config),
            directory,
            on_task: Arc::new(notices),
            keep: Arc::new(KeptResults(memory)),
        });
        let deps = A2aDeps { tasks: tasks.clone() };
        let _ = set.set(OtherAgents {
            bus,
            name,
            instance: part.instance,
            config,
            tasks,
            store,
            http_agents: a2a.http_agents(),
            credentials: vault.map(|vault| Arc::new(vault) as Arc<dyn CredentialSource>),
        });
        toolbus_a2a::register(registry, deps)
    });
    (builder, Some(made))
}

impl OtherAgents {
    /// What waits for their answers.
    pub(crate) fn answers(&self, ends: &TaskEnds) -> AgentAnswers {
        AgentAnswers { tasks: self.tasks.clone(), ends: ends.clone() }
    }

    /// Those that are known.
    pub(crate) fn directory(&self) -> &Directory {
        self.tasks.directory()
    }

    /// Begins to hear what becomes of tasks, and, for a process that does those of others, to take
    /// them. Last, others are told that the agent is there.
    ///
    /// # Errors
    /// When a queue cannot be had, or the settings of an agent are wrong.
    pub(crate) async fn converse(&self, agent: &Agent) -> Result<Conversing, Error> {
        // No task for one of these goes to the bus.
        let http_caller = match self.http_agents.is_empty() {
            true => None,
            false => {
                let agents = self.http_agents.clone();
                let credentials = self.credentials.clone();
                Some(HttpCaller::start(&self.tasks, HttpCallerDeps { agents, credentials })?)
            }
        };
        let caller = Caller::start(&self.tasks).await?;

        let worker = match &self.config.card {
            Some(_) => Some(
                Worker::start(WorkerDeps {
                    bus: Arc::clone(&self.bus),
                    store: self.store.clone(),
                    agent: self.name.clone(),
                    instance: self.instance.clone(),
                    config: Arc::clone(&self.config),
                    work: Arc::new(AgentTasks { agent: agent.clone(), name: self.name.clone() }),
                })
                .await?,
            ),
            None => None,
        };

        let presence = Presence::start(PresenceDeps {
            bus: Arc::clone(&self.bus),
            agent: self.name.clone(),
            instance: self.instance.clone(),
            config: Arc::clone(&self.config),
            directory: self.directory().clone(),
        });
        Ok(Conversing { http_caller, caller, worker, presence: presence.await? })
    }
}

impl Conversing {
    /// The way in for tasks that come over HTTP, where tasks of others are done.
    pub(crate) fn intake(&self) -> Option<TaskIntake> {
        self.worker.as_ref().map(Worker::intake)
    }

    /// Says goodbye, and waits up to `grace` for tasks of others that are under way. What is left
    /// goes on with another process.
    pub(crate) async fn close(self, grace: Duration) {
        self.presence.close().await;
        if let Some(worker) = self.worker {
            worker.close(grace).await;
        }
        if let Some(http_caller) = self.http_caller {
            http_caller.close().await;
        }
        self.caller.close().await;
    }
}
