//! The interface to tools, for programs: finding them, calling them, jobs, and keys.
//!
//! Every call goes through the invoker, whose gates check that the tool exists, the permission, the
//! schema and the limits of tools, in this order and before any credential is read. What is here
//! beside it is the door: who asks ([`access`]), how many requests they have left ([`plans`]), and
//! the envelope that every answer has ([`answer`]).

mod access;
mod answer;
mod api_error;
mod catalogue;
mod clients;
mod execution;
mod fields;
mod job_runner;
mod jobs;
mod keys;
mod openapi;
mod owners;
mod plans;
mod routes;
mod tables;
mod webhook_runner;
mod webhooks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use axum::routing::{any, delete, get, post};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_discovery::Discovery;
use toolbus_policy::LivePolicy;
use toolbus_store::LazyStore;
use toolbus_tools::visitors::{ApiSettings, Visitors};
use toolbus_tools::{Invoker, View};
use toolbus_vault::LazyVault;
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

use crate::BODY_BYTES_MAX;
use api_error::ApiError;
use catalogue::Catalogue;
use job_runner::JobRunner;
use jobs::JobRows;
use keys::Keys;
use plans::Counts;
use webhooks::Webhooks;

pub use access::Role;
pub use api_error::{ApiErrorCode, ErrorBody};
pub use clients::client_ids;
pub use execution::EXECUTION_TIMEOUT_DEFAULT;
pub use job_runner::{JobConfig, RESULT_BYTES_MAX};
pub use keys::KEY_ISSUER;
pub use openapi::document as openapi_document;
pub use owners::current_owner;
pub use plans::Plan;
pub use tables::MIGRATIONS;
pub use webhooks::{
    SendWebhook, SignedWebhook, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, WebhookConfig, WebhookError,
    WebhookRequest, sign_webhook, verify_webhook,
};

/// How many connections a server of this interface may have.
pub const CONNECTIONS_MAX: usize = 64;
/// How many clients may follow jobs at once: a half of the connections is for those that do not.
const STREAMS_MAX: usize = CONNECTIONS_MAX / 2;

/// Who may come, and how much they may ask for.
#[derive(Debug, Clone)]
pub struct ToolApiConfig {
    /// The plans by name.
    pub plans: BTreeMap<String, Plan>,
    /// The plan of keys where nobody says.
    pub default_plan: String,
    /// The plan of clients with a token of the settings, and of those without any key.
    pub token_plan: String,
    /// The clients with a token of the settings that may give out keys, by name. The others may
    /// find tools and call them.
    pub admins: Vec<String>,
    /// What clients without any key may do. `None`: nothing.
    pub anonymous: Option<Role>,
    /// How jobs are run.
    pub jobs: JobConfig,
    /// How webhooks are sent.
    pub webhooks: WebhookConfig,
}

impl Default for ToolApiConfig {
    fn default() -> Self {
        let plans = [("free".to_owned(), Plan::FREE), ("pro".to_owned(), Plan::PRO)];
        Self {
            plans: plans.into(),
            default_plan: "free".to_owned(),
            token_plan: "pro".to_owned(),
            admins: Vec::new(),
            anonymous: None,
            jobs: JobConfig::default(),
            webhooks: WebhookConfig::default(),
        }
    }
}

/// What answers.
pub struct ToolApiDeps {
    /// The agent's name.
    pub name: AgentName,
    /// What calls tools.
    pub invoker: Invoker,
    /// The policy of the invoker.
    pub policy: LivePolicy,
    /// What finds tools.
    pub discovery: Discovery,
    /// Where keys, counts and jobs are kept; it knows [`MIGRATIONS`].
    pub store: LazyStore,
    /// What clients see of the tools.
    pub view: View,
    /// What sends webhooks. `None`: jobs have none.
    pub webhooks: Option<Arc<dyn SendWebhook>>,
    /// Where the secrets are that webhooks are signed with. `None`: jobs have no webhooks.
    pub vault: Option<LazyVault>,
}

/// The interface to the tools of one agent. Before its server is closed, [`drain`](ToolApi::drain)
/// it.
pub struct ToolApi {
    router: Router,
    shared: Arc<Shared>,
}

/// What its requests share.
struct Shared {
    config: ToolApiConfig,
    agent: AgentName,
    invoker: Invoker,
    view: View,
    visitors: Visitors,
    catalogue: Catalogue,
    store: LazyStore,
    keys: Keys,
    counts: Counts,
    jobs: JobRunner,
    /// Places for clients that follow jobs.
    streams: Arc<Semaphore>,
    /// Calls that clients wait for.
    calls: TaskTracker,
    /// Fires when those are given up.
    stop: CancellationToken,
}

impl ToolApi {
    /// The interface for these clients. Jobs that were queued before begin to run.
    #[must_use]
    pub fn start(settings: ApiSettings, config: ToolApiConfig, deps: ToolApiDeps) -> Self {
        let ToolApiDeps { name, invoker, policy, discovery, store, view, webhooks, vault } = deps;
        let registry = Arc::clone(invoker.registry());
        let rows = JobRows { store: store.clone(), agent: name.clone(), holder: new_id() };
        let webhooks = webhooks.map(|send| Webhooks::new(config.webhooks, send));

        let shared = Arc::new(Shared {
            jobs: JobRunner::new(rows, config.jobs, webhooks),
            visitors: Visitors::new(settings),
            catalogue: Catalogue { registry, policy, discovery },
            keys: Keys::new(store.clone(), vault),
            counts: Counts::new(store.clone()),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            calls: TaskTracker::new(),
            stop: CancellationToken::new(),
            agent: name,
            config,
            invoker,
            view,
            store,
        });
        job_runner::start(&shared);
        Self { router: router(&shared), shared }
    }

    /// What is to be served.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Takes no more calls, and waits up to `grace` for those that are under way, of jobs too.
    /// Jobs that wait are run when the agent is there again.
    pub async fn drain(&self, grace: Duration) {
        self.shared.calls.close();
        let calls = async {
            if tokio::time::timeout(grace, self.shared.calls.wait()).await.is_err() {
                tracing::debug!("gave up calls that clients wait for");
            }
            self.shared.stop.cancel();
            self.shared.calls.wait().await;
        };
        futures_util::future::join(calls, self.shared.jobs.drain(grace)).await;
    }
}

fn router(shared: &Arc<Shared>) -> Router {
    let retrieve = post(routes::retrieve::post).get(routes::retrieve::get);
    let keys = post(routes::keys::create).get(routes::keys::list);
    let job = get(routes::jobs::read).delete(routes::jobs::delete);

    Router::new()
        .route("/v1/retrieve_tools", retrieve)
        .route("/v1/tools", get(routes::tools::list))
        // A name may have its server before it.
        .route("/v1/tools/{*name}", get(routes::tools::describe))
        .route("/v1/execute_tool", post(routes::execute::post))
        .route("/v1/servers", get(routes::servers::list))
        .route("/v1/servers/{name}", get(routes::servers::describe))
        .route("/v1/health", get(routes::health::get))
        .route("/v1/openapi.json", get(openapi::serve))
        .route("/v1/jobs", post(routes::jobs::create))
        .route("/v1/jobs/{id}", job)
        .route("/v1/jobs/{id}/cancel", post(routes::jobs::cancel))
        .route("/v1/jobs/{id}/events", get(routes::jobs::events))
        .route("/v1/keys", keys)
        .route("/v1/keys/{id}", delete(routes::keys::revoke))
        .route("/v1/{*other}", any(no_address))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(shared), answer::wrap))
        .with_state(Arc::clone(shared))
}

/// No code of the table is for this alone.
async fn no_address() -> ApiError {
    let error = ApiError::new(ApiErrorCode::InvalidRequest, "there is nothing at this address");
    error.with_status(axum::http::StatusCode::NOT_FOUND)
}
