//! State that outlives the process: where it is, and what is kept there.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use toolbus_approvals::Approvals;
use toolbus_artifacts::{Artifacts, Sweeper};
use toolbus_audit::Audit;
use toolbus_bus::responder::ParkedRequest;
use toolbus_config::Secret;
use toolbus_memory::{MemoryConfig, MemorySweeper, Summaries, WorkingMemory};
use toolbus_policy::LivePolicy;
use toolbus_schedule::Schedules;
use toolbus_store::{LazyStore, Location, LocationError, Migrations};
use toolbus_subagents::Subagents;
use toolbus_vault::LazyVault;
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

use crate::month_counts::{self, MonthCounts};
use crate::scheduled_turns::KeptZones;
use crate::session_notices::SessionNotices;
use crate::settings::Settings;
use crate::subagent_turns::SubagentTurns;
use crate::wisp_parts::AgentModel;

/// How long summaries of skills are waited for that a model is writing.
const SUMMARIES_GRACE: Duration = Duration::from_secs(3);

/// How long is waited for what wisps leave behind: tasks of other agents are given up.
const WISP_TASKS_GRACE: Duration = Duration::from_secs(3);

/// The tables of all that is kept there.
const MIGRATIONS: [Migrations; 13] = [
    toolbus_a2a::MIGRATIONS,
    toolbus_agent::MIGRATIONS,
    toolbus_approvals::MIGRATIONS,
    toolbus_artifacts::MIGRATIONS,
    toolbus_audit::MIGRATIONS,
    toolbus_chain::MIGRATIONS,
    toolbus_discovery::MIGRATIONS,
    toolbus_http::tool_api::MIGRATIONS,
    toolbus_memory::MIGRATIONS,
    toolbus_schedule::MIGRATIONS,
    toolbus_subagents::MIGRATIONS,
    toolbus_vault::MIGRATIONS,
    month_counts::MIGRATIONS,
];

/// State that outlives the process. Nothing is opened before something needs it.
pub(crate) struct KeptState {
    store: LazyStore,
    pub(crate) approvals: Approvals,
    /// Where one is wanted.
    pub(crate) audit: Option<Audit>,
    /// Where they are wanted, and there is a place for them.
    pub(crate) artifacts: Option<Artifacts>,
    sweeper: Option<Sweeper>,
    pub(crate) memory: WorkingMemory,
    memory_sweeper: MemorySweeper,
    pub(crate) summaries: Summaries,
    /// What the agent is to do later.
    pub(crate) schedules: Schedules,
    /// Tells sessions what happens beside them.
    pub(crate) notices: SessionNotices,
    /// Those that the agent splits its work among, once their tools are there.
    pub(crate) subagents: Arc<OnceLock<Subagents>>,
    pub(crate) subagent_turns: SubagentTurns,
    /// Answers within wisps.
    pub(crate) agent_model: AgentModel,
    /// What wisps leave behind.
    pub(crate) wisp_tasks: TaskTracker,
    /// Where there is a key for it.
    pub(crate) vault: Option<LazyVault>,
    months: MonthCounts,
}

/// Where state is kept. `None` where nothing is set and there is no folder for it.
pub(crate) fn location(settings: &Settings) -> Result<Option<Location>, LocationError> {
    Location::or_default(settings.store.as_ref().map(Secret::expose))
}

/// The store of the settings.
pub(crate) fn store(settings: &Settings) -> Option<LazyStore> {
    // Checked when the settings were read.
    let location = location(settings).ok().flatten()?;
    Some(LazyStore::new(location, &MIGRATIONS))
}

/// The vault of the settings in their store, where there is a key for it.
pub(crate) fn vault(settings: &Settings, store: &LazyStore) -> Option<LazyVault> {
    settings.vault.key().map(|key| LazyVault::new(store.clone(), key))
}

/// The artifacts of the settings. Where there is no place for them, outputs stay whole.
pub(crate) fn open_artifacts(settings: &Settings, store: &LazyStore) -> Option<Artifacts> {
    if !settings.artifacts.enabled {
        return None;
    }
    match settings.artifacts.place()? {
        Ok(place) => Some(Artifacts::new(store.clone(), place, settings.artifacts.config())),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::error!(error, "there are no artifacts: their place cannot be used");
            None
        }
    }
}

impl KeptState {
    /// Where it is.
    pub(crate) fn store(&self) -> &LazyStore {
        &self.store
    }

    /// The state of one process of this agent. `None` where there is no place for it: then no call
    /// can be approved, and there is no vault.
    pub(crate) async fn of(
        settings: &Settings,
        agent: &AgentName,
        policy: &LivePolicy,
    ) -> Option<Self> {
        let store = store(settings)?;

        // Each process is a host of its own: one that takes over from a dead one of its name must
        // not be taken for that.
        let approvals =
            Approvals::new(store.clone(), settings.approvals.config(), agent, &new_id());
        let vault = vault(settings, &store);
        let audit = &settings.audit;
        let audit = audit.enabled.then(|| Audit::start(store.clone(), audit.config()));
        let artifacts = open_artifacts(settings, &store);
        let sweeper = artifacts.clone().map(Sweeper::start);
        let memory = WorkingMemory::new(store.clone(), MemoryConfig::default());
        let memory_sweeper = MemorySweeper::start(memory.clone());
        let zones = Arc::new(KeptZones::new(store.clone()));
        let schedules = Schedules::new(store.clone(), settings.schedules.config(), zones);
        let months = MonthCounts::start(policy.clone(), store.clone()).await;
        Some(Self {
            store,
            approvals,
            audit,
            artifacts,
            sweeper,
            memory,
            memory_sweeper,
            summaries: Summaries::default(),
            schedules,
            notices: SessionNotices::default(),
            subagents: Arc::default(),
            subagent_turns: SubagentTurns::default(),
            agent_model: AgentModel::default(),
            wisp_tasks: TaskTracker::new(),
            vault,
            months,
        })
    }

    /// The calls that an earlier process has left, for an agent that is about to answer. Where the
    /// store cannot be had, it serves without them.
    pub(crate) async fn take_over(&self) -> Vec<ParkedRequest> {
        if !self.store.may_hold_something() {
            return Vec::new();
        }
        self.approvals.take_over().await.unwrap_or_else(|error| {
            let location = self.store.location();
            tracing::error!(%error, %location, "calls that wait for approval are not brought back");
            Vec::new()
        })
    }

    /// Says what is kept where.
    pub(crate) fn report(&self) {
        let location = self.store.location();
        let kept = self.kept();
        let kept = match kept.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => return,
        };
        tracing::info!(%location, "{kept} are kept here, once there are any");
    }

    /// The same for `/status`.
    pub(crate) fn describe(&self) -> Value {
        let mut status =
            json!({"location": self.store.location().to_string(), "keeps": self.kept()});
        if let Some(audit) = &self.audit {
            status["auditRowsDropped"] = audit.dropped().into();
        }
        status
    }

    fn kept(&self) -> Vec<&'static str> {
        let of_vault = self.vault.as_ref().map(|_| "credentials");
        let of_audit = self.audit.as_ref().map(|_| "audit log");
        let of_artifacts = self.artifacts.as_ref().map(|_| "artifacts");
        let others = [of_vault, of_audit, of_artifacts].into_iter().flatten();
        ["approvals", "sessions", "memory", "schedules"].into_iter().chain(others).collect()
    }

    /// Ends what works with it, and closes it.
    pub(crate) async fn close(&self) {
        self.wisp_tasks.close();
        if tokio::time::timeout(WISP_TASKS_GRACE, self.wisp_tasks.wait()).await.is_err() {
            tracing::info!("what wisps have left behind is not all put away");
        }
        self.summaries.close(SUMMARIES_GRACE).await;
        self.approvals.close().await;
        self.months.close().await;
        if let Some(audit) = &self.audit {
            audit.close().await;
        }
        if let Some(sweeper) = &self.sweeper {
            sweeper.close().await;
        }
        self.memory_sweeper.close().await;
        self.store.close().await;
    }
}

#[cfg(test)]
mod tests;
