//! Other agents on the bus: known, asked, and answered.

use std::sync::Arc;
use std::time::Duration;

use toolbus::{InstanceId, ToolbusBuilder};
use toolbus_a2a::{
    A2aConfig, A2aDeps, Caller, Directory, Presence, PresenceDeps, Tasks, TasksDeps, Worker,
    WorkerDeps,
};
use toolbus_agent::Agent;
use toolbus_bus::{Bus, SubscribeError};
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
}

/// What hears them, and is heard by them.
pub(crate) struct Conversing {
    caller: Caller,
    worker: Option<Worker>,
    presence: Presence,
}

impl OtherAgents {
    /// Those on a bus. `None` where they are not wanted, or there is no agent that could ask them.
    pub(crate) fn of(
        settings: &Settings,
        state: &KeptState,
        bus: &Arc<dyn Bus>,
        member: (AgentName, InstanceId, bool),
    ) -> Option<Self> {
        if !settings.a2a.enabled || settings.models.endpoints.is_empty() {
            return None;
        }
        let (name, instance, has_worker) = member;
        let config = Arc::new(settings.a2a.config(&name, has_worker));
        let directory = Directory::new(state.store().clone(), name.clone(), Arc::clone(&config));
        let tasks = Tasks::new(TasksDeps {
            bus: Arc::clone(bus),
            store: state.store().clone(),
            agent: name.clone(),
            instance: instance.clone(),
            config: Arc::clone(&config),
            directory,
            on_task: Arc::new(state.notices.clone()),
            keep: Arc::new(KeptResults(state.memory.clone())),
        });
        Some(Self { bus: Arc::clone(bus), name, instance, config, tasks })
    }

    /// The same with the tools that ask them.
    pub(crate) fn offer(&self, builder: ToolbusBuilder) -> ToolbusBuilder {
        let deps = A2aDeps { tasks: self.tasks.clone() };
        builder
            .guide(toolbus_a2a::guide())
            .remote_tools(move |registry, _| toolbus_a2a::register(registry, deps))
    }

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
    /// When a queue cannot be had.
    pub(crate) async fn converse(
        &self,
        agent: &Agent,
        store: &toolbus_store::LazyStore,
    ) -> Result<Conversing, SubscribeError> {
        let caller = Caller::start(&self.tasks).await?;

        let worker = match &self.config.card {
            Some(_) => Some(
                Worker::start(WorkerDeps {
                    bus: Arc::clone(&self.bus),
                    store: store.clone(),
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
        Ok(Conversing { caller, worker, presence: presence.await? })
    }
}

impl Conversing {
    /// Says goodbye, and waits up to `grace` for tasks of others that are under way. What is left
    /// goes on with another process.
    pub(crate) async fn close(self, grace: Duration) {
        self.presence.close().await;
        if let Some(worker) = self.worker {
            worker.close(grace).await;
        }
        self.caller.close().await;
    }
}
