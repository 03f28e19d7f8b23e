//! State that outlives the process: where it is, and what is kept there.

use std::path::PathBuf;

use serde_json::{Value, json};
use toolbus_approvals::Approvals;
use toolbus_audit::Audit;
use toolbus_bus::responder::ParkedRequest;
use toolbus_config::Secret;
use toolbus_policy::LivePolicy;
use toolbus_store::{LazyStore, Location, LocationError, Migrations};
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

use crate::month_counts::{self, MonthCounts};
use crate::settings::Settings;

/// The file that state is kept in where nothing else is set, in the folder of this program.
const DEFAULT_FILE: &str = "state.db";

/// The tables of all that is kept there.
const MIGRATIONS: [Migrations; 3] =
    [toolbus_approvals::MIGRATIONS, toolbus_audit::MIGRATIONS, month_counts::MIGRATIONS];

/// State that outlives the process. Nothing is opened before something needs it.
pub(crate) struct KeptState {
    store: LazyStore,
    pub(crate) approvals: Approvals,
    /// Where one is wanted.
    pub(crate) audit: Option<Audit>,
    months: MonthCounts,
}

/// The folder of this user's state; `None` where there is no place for it.
pub(crate) fn folder() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| std::env::home_dir().map(|home| home.join(".local/state")))?;
    Some(state.join("toolbus"))
}

/// Where state is kept. `None` where nothing is set and there is no folder for it.
pub(crate) fn location(set: Option<&Secret>) -> Result<Option<Location>, LocationError> {
    match set {
        Some(set) => set.expose().parse().map(Some),
        None => Ok(folder().map(|folder| Location::Sqlite(folder.join(DEFAULT_FILE)))),
    }
}

/// The store of the settings.
pub(crate) fn store(settings: &Settings) -> Option<LazyStore> {
    // Checked when the settings were read.
    let location = location(settings.store.as_ref()).ok().flatten()?;
    Some(LazyStore::new(location, &MIGRATIONS))
}

impl KeptState {
    /// The state of one process of this agent. `None` where there is no place for it: then no call
    /// can be approved.
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
        let audit = &settings.audit;
        let audit = audit.enabled.then(|| Audit::start(store.clone(), audit.config()));
        let months = MonthCounts::start(policy.clone(), store.clone()).await;
        Some(Self { store, approvals, audit, months })
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
        match &self.audit {
            Some(_) => tracing::info!(%location, "approvals and the audit log are kept here"),
            None => tracing::info!(%location, "approvals are kept here, once there are any"),
        }
    }

    /// The same for `/status`.
    pub(crate) fn describe(&self) -> Value {
        let location = self.store.location().to_string();
        let Some(audit) = &self.audit else {
            return json!({"location": location, "keeps": ["approvals"]});
        };
        json!({
            "location": location,
            "keeps": ["approvals", "audit"],
            "auditRowsDropped": audit.dropped(),
        })
    }

    /// Ends what works with it, and closes it.
    pub(crate) async fn close(&self) {
        self.approvals.close().await;
        self.months.close().await;
        if let Some(audit) = &self.audit {
            audit.close().await;
        }
        self.store.close().await;
    }
}
