//! Tools, a policy and a store, behind the interface.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::{Extension, Router};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolbus_discovery::{Discovery, DiscoveryDeps};
use toolbus_http::ApiSettings;
use toolbus_http::tool_api::{MIGRATIONS, Plan, SendWebhook, ToolApi, ToolApiConfig, ToolApiDeps};
use toolbus_policy::{LivePolicy, RuleBook};
use toolbus_search::ToolIndex;
use toolbus_store::LazyStore;
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::id::ToolId;
use toolbus_tools::registry::{Offer, Provider, ToolState};
use toolbus_tools::{Invoker, Registry, Tool, View};
use toolbus_vault::{KeySource, LazyVault, VaultGate, VaultKey};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::name::AgentName;
use tower::ServiceExt as _;

pub(crate) const ADMIN: &str = "the token of an admin";
pub(crate) const CLIENT: &str = "the token of a client";
/// How long anything may take on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// What is behind the interface.
pub(crate) struct Bench {
    pub(crate) api: ToolApi,
    pub(crate) router: Router,
    pub(crate) store: LazyStore,
    pub(crate) vault: Option<LazyVault>,
    /// How often credentials were asked for.
    pub(crate) secrets: Arc<AtomicUsize>,
    /// Calls of `sleep` that were cancelled.
    pub(crate) cancelled: Arc<AtomicUsize>,
    /// Lets calls of `wait` go on, one for each permit.
    pub(crate) gate: Arc<Semaphore>,
    _providers: Vec<Provider>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    pub(crate) fn code(&self) -> &str {
        self.body["error"]["code"].as_str().unwrap_or_default()
    }

    pub(crate) fn expect(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status.as_u16(), self.code()), (status, code), "{self:#?}");
        self
    }

    pub(crate) fn data(self) -> Value {
        assert_eq!(self.body["success"], true, "{self:#?}");
        self.body["data"].clone()
    }
}

/// Counts the requests for credentials, and finds the credentials of [`OPENS`].
struct SecretSpy(Arc<AtomicUsize>, Option<VaultGate>);

impl Gate for SecretSpy {
    fn name(&self) -> &'static str {
        "credentials"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match &self.1 {
            Some(vault) if passage.subject.id.as_str() == OPENS => vault.check(passage),
            _ => Verdict::Now(Ok(())),
        }
    }
}

/// Returns the tool that reports whether its call has the credential `TOKEN`.
pub(crate) const OPENS: &str = "test/opens";

/// Counts calls that are given up.
struct CountAtDrop(Arc<AtomicUsize>);

impl Drop for CountAtDrop {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

pub(crate) fn plans() -> BTreeMap<String, Plan> {
    let plan = |per_minute, per_month| Plan { per_minute, per_month };
    let plans = [
        ("free", Plan::FREE),
        ("pro", Plan::PRO),
        ("open", plan(100_000, 1_000_000)),
        ("tiny", plan(100_000, 3)),
    ];
    plans.map(|(name, plan)| (name.to_owned(), plan)).into()
}

pub(crate) fn config() -> ToolApiConfig {
    ToolApiConfig {
        plans: plans(),
        default_plan: "open".to_owned(),
        token_plan: "open".to_owned(),
        admins: vec!["root".to_owned()],
        ..ToolApiConfig::default()
    }
}

fn policy() -> LivePolicy {
    let settings = json!({
        "rules": [
            {"name": "no", "effect": "deny", "reason": "it is forbidden", "tools": ["test/forbidden"]},
        ],
        "limits": [
            {"name": "hourly", "calls": 1, "per": "hour", "by": ["tool"], "tools": ["test/limited"]},
            {"name": "monthly", "calls": 1, "per": "month", "tools": ["test/monthly"]},
        ],
    });
    LivePolicy::new(RuleBook::new(&serde_json::from_value(settings).unwrap()).unwrap())
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "times": {"type": "integer"},
            "kind": {"enum": ["a", "b"]},
            "inner": {"type": "object", "required": ["x"]},
        },
        "required": ["text"],
        "additionalProperties": false,
    })
}

/// The clients that settings name, with their tokens.
const CLIENTS: [(&str, &str); 2] = [("root", ADMIN), ("client", CLIENT)];

impl Bench {
    pub(crate) fn new(place: &StatePlace) -> Self {
        Self::with(place, config(), None)
    }

    pub(crate) fn with(
        place: &StatePlace,
        config: ToolApiConfig,
        webhooks: Option<Arc<dyn SendWebhook>>,
    ) -> Self {
        Self::of_parts(place, config, webhooks, true, &CLIENTS)
    }

    /// The same with these clients.
    pub(crate) fn with_clients(place: &StatePlace, clients: &[(&str, &str)]) -> Self {
        Self::of_parts(place, config(), None, true, clients)
    }

    /// The same without a vault.
    pub(crate) fn without_vault(place: &StatePlace, webhooks: Arc<dyn SendWebhook>) -> Self {
        Self::of_parts(place, config(), Some(webhooks), false, &CLIENTS)
    }

    fn of_parts(
        place: &StatePlace,
        config: ToolApiConfig,
        webhooks: Option<Arc<dyn SendWebhook>>,
        has_vault: bool,
        clients: &[(&str, &str)],
    ) -> Self {
        let migrations = [MIGRATIONS, toolbus_vault::MIGRATIONS];
        let store = LazyStore::new(place.location.parse().unwrap(), &migrations);
        let key = VaultKey::parse(&"5a".repeat(32)).unwrap();
        let vault = has_vault.then(|| LazyVault::new(store.clone(), KeySource::Given(key)));
        let registry = Arc::new(Registry::new());
        let cancelled = Arc::new(AtomicUsize::new(0));
        let gate = Arc::new(Semaphore::new(0));
        register(&registry, &cancelled, &gate);
        let providers = publish(&registry);

        let policy = policy();
        let secrets = Arc::new(AtomicUsize::new(0));
        let invoker = Invoker::builder(Arc::clone(&registry))
            .policy(policy.clone())
            .gate(policy.rate_limit())
            .credentials(SecretSpy(Arc::clone(&secrets), vault.clone().map(VaultGate)))
            .build();
        let discovery = Discovery::start(DiscoveryDeps {
            registry,
            policy: Arc::new(policy.clone()),
            index: ToolIndex::new(),
            store: None,
            splitter: None,
        });
        let tokens = clients.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned()));
        let tokens = tokens.collect();
        let settings = ApiSettings { tokens, ..ApiSettings::default() };
        let deps = ToolApiDeps {
            name: AgentName::standard(),
            invoker,
            policy,
            discovery,
            store: store.clone(),
            view: View::all(),
            webhooks,
            vault: vault.clone(),
        };
        let api = ToolApi::start(settings, config, deps);
        // As the server of an agent says it.
        let here = SocketAddr::from(([127, 0, 0, 1], 40_000));
        let router = api.router().layer(Extension(here));
        Self { router, api, store, vault, secrets, cancelled, gate, _providers: providers }
    }

    pub(crate) fn secrets_read(&self) -> usize {
        self.secrets.load(Ordering::SeqCst)
    }

    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = tokio::time::timeout(LIMIT, to_bytes(body, usize::MAX)).await.unwrap().unwrap();
        let body = serde_json::from_slice(&body).unwrap_or_default();
        Answer { status: parts.status, headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, token: &str, path: &str) -> Answer {
        self.send(request("GET", token, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn delete(&self, token: &str, path: &str) -> Answer {
        self.send(request("DELETE", token, path).body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&self, token: &str, path: &str, body: Value) -> Answer {
        let request = request("POST", token, path).header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap()).await
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, params: Value) -> Answer {
        self.post(CLIENT, "/v1/execute_tool", json!({"tool_name": tool, "params": params})).await
    }

    /// Gives out a key.
    pub(crate) async fn key(&self, body: Value) -> Value {
        let answer = self.post(ADMIN, "/v1/keys", body).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{answer:#?}");
        answer.data()
    }
}

pub(crate) fn request(method: &str, token: &str, path: &str) -> axum::http::request::Builder {
    let request = Request::builder().method(method).uri(path).header("host", "localhost");
    match token {
        "" => request,
        token => request.header("authorization", format!("Bearer {token}")),
    }
}

fn register(registry: &Registry, cancelled: &Arc<AtomicUsize>, gate: &Arc<Semaphore>) {
    let echo = |call: Invocation| {
        std::future::ready(Ok(Output::text(call.arguments["text"].as_str().unwrap_or_default())))
    };
    for name in ["echo", "forbidden", "limited", "monthly"] {
        let mut tool = Tool::new(name, "Says it again.", "test").with_parameters(schema());
        tool.tags = vec!["messaging".to_owned(), "loud".to_owned()];
        registry.register(tool, echo).unwrap();
    }
    let opens = |call: Invocation| {
        let opens = call.credentials.get("TOKEN").is_some();
        std::future::ready(Ok(Output::text(if opens { "open" } else { "closed" })))
    };
    registry.register(Tool::new("opens", "Opens.", "test"), opens).unwrap();
    let fail = |_: Invocation| std::future::ready(Ok(Output::error("it broke")));
    registry.register(Tool::new("fail", "Fails.", "test"), fail).unwrap();
    let busy = |_: Invocation| {
        std::future::ready(Err::<Output, _>(CallError::new(ErrorCode::Busy, "no room")))
    };
    registry.register(Tool::new("busy", "Has no room.", "test"), busy).unwrap();

    let cancelled = Arc::clone(cancelled);
    let sleep = move |_: Invocation| {
        let ended = CountAtDrop(Arc::clone(&cancelled));
        async move {
            std::future::pending::<()>().await;
            drop(ended);
            Ok(Output::text("it never ends"))
        }
    };
    registry.register(Tool::new("sleep", "Sleeps.", "test"), sleep).unwrap();

    let until = Arc::clone(gate);
    let flood = move |call: Invocation| {
        let until = Arc::clone(&until);
        async move {
            let message = Some("x".repeat(64 << 10));
            let mut step = 0.0;
            while until.try_acquire().is_err() {
                step += 1.0;
                let (progress, message) = (Some(step), message.clone());
                call.context.progress.send(ToolProgress {
                    progress,
                    message,
                    ..Default::default()
                });
                // sleeps: the pace of the flood.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Ok(Output::text("flooded"))
        }
    };
    registry.register(Tool::new("flood", "Tells of a lot.", "test"), flood).unwrap();

    let gate = Arc::clone(gate);
    let wait = move |call: Invocation| {
        let gate = Arc::clone(&gate);
        async move {
            call.context.progress.send(ToolProgress {
                progress: Some(1.0),
                total: Some(2.0),
                message: Some("half".to_owned()),
                ..ToolProgress::default()
            });
            gate.acquire().await.unwrap().forget();
            Ok(Output::text("waited"))
        }
    };
    registry.register(Tool::new("wait", "Waits.", "test"), wait).unwrap();
}

/// Two servers with a tool of the same name, and one that is away.
fn publish(registry: &Arc<Registry>) -> Vec<Provider> {
    let publish = |server: &str| {
        let provider = registry.provider(server.to_owned());
        let tool = Tool::new(format!("{server}__create"), "Creates.", format!("mcp:{server}"));
        let answer = format!("by {server}");
        let offer = Offer::new(tool, move |_: Invocation| {
            std::future::ready(Ok(Output::text(answer.clone())))
        });
        let id = ToolId::of(&format!("mcp:{server}"), "create");
        let errors = provider.publish(vec![offer.with_identity(id, None)]);
        assert!(errors.is_empty());
        provider
    };
    let providers = vec![publish("github"), publish("gitlab")];

    let away = registry.provider("away".to_owned());
    let tool = Tool::new("gone", "Is away.", "mcp:away");
    let offer = Offer::new(tool, |_: Invocation| std::future::ready(Ok(Output::text("here"))));
    assert!(away.publish(vec![offer]).is_empty());
    away.set_state(ToolState::Away);
    providers.into_iter().chain([away]).collect()
}

/// Waits until something holds.
pub(crate) async fn until<F: Future<Output = bool>>(is_so: impl Fn() -> F) {
    toolbus_testkit::eventually(LIMIT, async || {
        if is_so().await { Ok(()) } else { Err("it does not hold") }
    })
    .await;
}
