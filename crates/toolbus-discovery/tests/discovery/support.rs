//! A process with tools, calls of them, and discovery over both.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::time::timeout;
use toolbus_discovery::{
    Clock, Discovery, DiscoveryConfig, DiscoveryDeps, RetrieveFilter, RetrieveRequest, Retrieved,
    SplitTask,
};
use toolbus_search::ToolIndex;
use toolbus_store::LazyStore;
use toolbus_tools::call::{Call, CallError, Invocation, Outcome, Output};
use toolbus_tools::id::{SessionId, ToolId};
use toolbus_tools::policy::{ApprovalDemand, Decision, PolicyRequest};
use toolbus_tools::registry::{Offer, Provider};
use toolbus_tools::scope::Proof;
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

/// How long a test waits for what is to come.
pub(crate) const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
/// Noon of a day in 2026, in milliseconds of Unix time.
pub(crate) const NOON_MS: i64 = 1_795_780_800_000;
pub(crate) const DAY_MS: i64 = 24 * 60 * 60 * 1_000;

pub(crate) struct World {
    pub(crate) registry: Arc<Registry>,
    pub(crate) discovery: Discovery,
    pub(crate) invoker: Invoker,
    /// The ids that are denied, and those that need an approval.
    pub(crate) denied: Arc<RwLock<Vec<String>>>,
    pub(crate) asked: Arc<RwLock<Vec<String>>>,
    now_ms: Arc<AtomicI64>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(None, DiscoveryConfig::default())
    }

    pub(crate) fn with(store: Option<LazyStore>, config: DiscoveryConfig) -> Self {
        Self::with_splitter(store, config, None)
    }

    pub(crate) fn with_splitter(
        store: Option<LazyStore>,
        config: DiscoveryConfig,
        splitter: Option<Arc<dyn SplitTask>>,
    ) -> Self {
        let registry = Arc::new(Registry::new());
        let (denied, asked) = (Arc::<RwLock<Vec<String>>>::default(), Arc::default());
        let (not, ask) = (Arc::clone(&denied), Arc::<RwLock<Vec<String>>>::clone(&asked));
        let policy = Arc::new(move |request: &PolicyRequest<'_>| {
            let has = |ids: &RwLock<Vec<String>>| {
                ids.read().iter().any(|id| *id == request.subject.id.as_str())
            };
            if has(&not) {
                return Decision::Deny("on request".into());
            }
            match has(&ask) {
                true => Decision::Ask(ApprovalDemand::new("r", "r")),
                false => Decision::Allow,
            }
        });

        let now_ms = Arc::new(AtomicI64::new(NOON_MS));
        let clock = Arc::clone(&now_ms);
        let clock = Clock::new(move || {
            Duration::from_millis(u64::try_from(clock.load(Ordering::Relaxed)).unwrap_or_default())
        });
        let deps = DiscoveryDeps {
            registry: Arc::clone(&registry),
            policy: Arc::clone(&policy) as _,
            index: ToolIndex::new(),
            store,
            splitter,
        };
        let discovery = Discovery::start_with(deps, DiscoveryConfig { clock, ..config });
        let decide = move |request: &PolicyRequest<'_>| policy(request);
        let invoker = Invoker::builder(Arc::clone(&registry)).policy(decide);
        let invoker = invoker.observe(discovery.observer()).build();
        Self { registry, discovery, invoker, denied, asked, now_ms }
    }

    /// Publishes these tools of a server, and returns when they can be found.
    pub(crate) async fn serve(&self, server: &str, tools: &[(&str, &str)]) -> Provider {
        let provider = self.registry.provider(format!("mcp:{server}"));
        let offers = tools.iter().map(|(name, text)| offer(server, name, text)).collect();
        let errors = provider.publish(offers);
        assert!(errors.is_empty(), "{errors:?}");
        self.until_current().await;
        provider
    }

    /// Waits until discovery has followed the registry.
    pub(crate) async fn until_current(&self) {
        self.until(|discovery| discovery.state().is_current).await;
    }

    pub(crate) async fn until(&self, is_enough: impl Fn(&Discovery) -> bool) {
        let mut revision = self.discovery.revision();
        let waiting = async {
            while !is_enough(&self.discovery) {
                revision.changed().await.expect("discovery is there");
            }
        };
        timeout(WAIT_TIMEOUT, waiting).await.expect("it comes in time");
    }

    /// Calls a tool of a server, and returns when it is learned from.
    pub(crate) async fn call(&self, scope: &Arc<Scope>, tool: &str, arguments: Value) -> Outcome {
        let learned = self.discovery.state().learned_calls;
        let outcome = self.call_unlearned(scope, tool, arguments).await;
        self.until(|discovery| discovery.state().learned_calls > learned).await;
        outcome
    }

    pub(crate) async fn call_unlearned(
        &self,
        scope: &Arc<Scope>,
        tool: &str,
        arguments: Value,
    ) -> Outcome {
        let call = Call::by_name(scope, tool, arguments).expect("a name");
        self.invoker.invoke(call).await
    }

    pub(crate) async fn use_times(&self, scope: &Arc<Scope>, tool: &str, times: usize) {
        for _ in 0..times {
            self.call(scope, tool, json!({})).await.expect("it works");
        }
    }

    pub(crate) async fn find(&self, scope: &Scope, query: &str) -> Retrieved {
        self.discovery.retrieve(scope, &request(query)).await.expect("a request")
    }

    /// The names of what is found.
    pub(crate) async fn names(&self, scope: &Scope, query: &str) -> Vec<String> {
        names(&self.find(scope, query).await)
    }

    /// Sets the clock.
    pub(crate) fn set_ms(&self, now_ms: i64) {
        self.now_ms.store(now_ms, Ordering::Relaxed);
    }
}

/// A tool of a server, which fails where its arguments say so.
pub(crate) fn offer(server: &str, name: &str, description: &str) -> Offer {
    let tool = Tool::new(format!("{server}__{name}"), description, format!("mcp:{server}"));
    let tool = tool.with_parameters(json!({
        "type": "object",
        "properties": {"fail": {"type": "boolean"}},
        "required": [],
    }));
    Offer::new(tool, work).with_identity(ToolId::of(&format!("mcp:{server}"), name), None)
}

pub(crate) async fn work(call: Invocation) -> Outcome {
    match call.arguments.contains_key("fail") {
        true => Err(CallError::execution_failed("on request")),
        false => Ok(Output::text("the result")),
    }
}

/// Somebody who is proven to be this.
pub(crate) fn user(name: &str) -> Arc<Scope> {
    user_with_id(name, None)
}

/// Returns the holder of the key with this name and id.
pub(crate) fn user_with_id(name: &str, id: Option<&str>) -> Arc<Scope> {
    let proof = Proof::Token { issuer: "here".into(), id: id.map(Into::into) };
    let principal = Principal { name: name.into(), proof };
    Arc::new(Scope::new(Door::Http, principal, AgentName::standard()))
}

pub(crate) fn in_session(name: &str, session: &str) -> Arc<Scope> {
    let session = SessionId::parse(session).expect("a session");
    Arc::new(Scope::clone(&user(name)).with_session(Some(session)))
}

/// Somebody who says to be this.
pub(crate) fn stranger(name: &str) -> Arc<Scope> {
    Arc::new(Scope::new(Door::Bus, Principal::claimed(name), AgentName::standard()))
}

pub(crate) fn request(query: &str) -> RetrieveRequest {
    RetrieveRequest {
        query: query.to_owned(),
        limit: 50,
        filter: RetrieveFilter::default(),
        source: "api".into(),
        debug: true,
    }
}

pub(crate) fn names(found: &Retrieved) -> Vec<String> {
    found.tools.iter().map(|tool| tool.entry.tool.name.clone()).collect()
}
