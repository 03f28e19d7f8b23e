//! Places to keep approvals at, and processes whose calls need them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use toolbus_approvals::{
    Answer, Approval, ApprovalConfig, ApprovalState, ApprovalStore, Approvals, Approve, MIGRATIONS,
};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::{eventually, postgres};
use toolbus_tools::call::{Arguments, Call, CallError, Invocation, Outcome, Output};
use toolbus_tools::id::{CallId, SessionId, ToolId, ToolName};
use toolbus_tools::policy::{ApprovalDemand, Decision, PolicyRequest};
use toolbus_tools::{Door, Executor, Invoker, Principal, Registry, Scope, Subject, Tool};
use toolbus_wire::name::AgentName;

/// How long something may take that has to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An empty place, for as long as this lives.
pub(crate) struct Place {
    pub(crate) location: Location,
    _folder: Option<TempDir>,
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let location = Location::Sqlite(folder.path().join("state.db"));
        Self { location, _folder: Some(folder) }
    }

    pub(crate) fn at(location: Location) -> Self {
        Self { location, _folder: None }
    }

    /// One of each kind.
    pub(crate) async fn all() -> Vec<Self> {
        let mut all = vec![Self::sqlite()];
        if let Some(url) = postgres::database().await {
            all.push(Self::at(url.parse().expect("a location")));
        }
        all
    }

    /// A connection of one's own, as another process has it.
    pub(crate) fn store(&self) -> LazyStore {
        LazyStore::new(self.location.clone(), &[MIGRATIONS])
    }

    /// Somebody who answers, in another process.
    pub(crate) fn operator(&self) -> Operator {
        Operator { store: ApprovalStore::new(self.store(), false) }
    }
}

/// Somebody who answers.
pub(crate) struct Operator {
    pub(crate) store: ApprovalStore,
}

impl Operator {
    /// The approvals that are pending, once there are so many.
    pub(crate) async fn pending(&self, count: usize) -> Vec<Approval> {
        let mut pending = Vec::new();
        eventually(PATIENCE, async || {
            pending = self.in_state(ApprovalState::Pending).await;
            if pending.len() == count { Ok(()) } else { Err(format!("{pending:?}")) }
        })
        .await;
        pending
    }

    pub(crate) async fn in_state(&self, state: ApprovalState) -> Vec<Approval> {
        self.store.list(Some(state), 1_000).await.expect("a list")
    }

    /// The only one that is pending.
    pub(crate) async fn asked(&self) -> Approval {
        self.pending(1).await.remove(0)
    }

    /// All there are, by their states.
    pub(crate) async fn states(&self) -> Vec<ApprovalState> {
        let all = self.store.list(None, 1_000).await.expect("a list");
        all.into_iter().map(|approval| approval.state).collect()
    }

    pub(crate) async fn say(&self, approval: &Approval, verdict: Approve) {
        self.try_say(approval, verdict).await.expect("an answer");
    }

    pub(crate) async fn try_say(
        &self,
        approval: &Approval,
        verdict: Approve,
    ) -> Result<(), toolbus_approvals::Error> {
        let answer = Answer::new(verdict, &Principal::local());
        self.store.answer(&approval.id, answer).await.map(drop)
    }
}

/// What the tools have run with.
pub(crate) type Ran = Arc<Mutex<Vec<Value>>>;

/// A process with tools. `pay` and all whose subjects are about money need an approval.
pub(crate) struct Host {
    pub(crate) approvals: Approvals,
    pub(crate) invoker: Invoker,
    pub(crate) ran: Ran,
}

/// Calls the tool that its arguments name.
struct Relay(Ran);

impl Executor for Relay {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        self.0.lock().push(Value::Object(call.arguments));
        Box::pin(std::future::ready(Ok(Output::text("relayed"))))
    }

    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        let tool = arguments["tool"].as_str().unwrap_or_default();
        Ok(Some(Subject {
            id: ToolId::of("mcp:bank", tool),
            definition: None,
            annotations: Default::default(),
            risk: toolbus_tools::tool::Risk::High,
            audience: Default::default(),
        }))
    }
}

pub(crate) fn agent() -> AgentName {
    AgentName::standard()
}

/// Asks for everything but what is called `free`.
pub(crate) fn policy(request: &PolicyRequest<'_>) -> Decision {
    if request.subject.id.as_str().contains("free") {
        return Decision::Allow;
    }
    Decision::Ask(ApprovalDemand::new("payments", "money moves"))
}

impl Host {
    pub(crate) fn new(store: LazyStore, config: ApprovalConfig) -> Self {
        Self::with_policy(store, config, policy)
    }

    pub(crate) fn with_policy(
        store: LazyStore,
        config: ApprovalConfig,
        policy: impl Fn(&PolicyRequest<'_>) -> Decision + Send + Sync + 'static,
    ) -> Self {
        Self::with_description(store, config, policy, "Pays.")
    }

    pub(crate) fn with_description(
        store: LazyStore,
        config: ApprovalConfig,
        policy: impl Fn(&PolicyRequest<'_>) -> Decision + Send + Sync + 'static,
        description: &str,
    ) -> Self {
        let ran = Ran::default();
        let registry = Arc::new(Registry::new());
        let parameters = json!({
            "type": "object",
            "properties": {
                "to": {"type": "string"},
                "amount": {"type": "number"},
                "ms": {"type": "integer"},
            },
            "required": ["to"],
        });
        let paid = Arc::clone(&ran);
        let pay = move |call: Invocation| {
            let paid = Arc::clone(&paid);
            async move {
                let ms = call.arguments.get("ms").and_then(Value::as_u64).unwrap_or_default();
                // sleeps: as long as the call says, in which nothing else happens.
                tokio::time::sleep(Duration::from_millis(ms)).await;
                paid.lock().push(Value::Object(call.arguments));
                Ok(Output::text("paid"))
            }
        };
        let tool = Tool::new("pay", description, "test").with_parameters(parameters);
        registry.register(tool, pay).expect("a tool");
        let free = |_: Invocation| std::future::ready(Ok(Output::text("free")));
        registry.register(Tool::new("free", "", "test"), free).expect("a tool");
        let relayed = json!({"type": "object", "properties": {"tool": {"type": "string"}}});
        let relay = Tool::new("relay", "", "test").with_parameters(relayed);
        registry.register(relay, Relay(Arc::clone(&ran))).expect("a tool");

        let host = toolbus_wire::envelope::new_id();
        let approvals = Approvals::new(store, config, &agent(), &host);
        let invoker = Invoker::builder(registry).policy(policy).gate(approvals.gate());
        Self { approvals, invoker: invoker.build(), ran }
    }

    /// The same, whose calls pass one gate more after that of approvals.
    pub(crate) fn with_gate(self, gate: impl toolbus_tools::gate::Gate + 'static) -> Self {
        let registry = Arc::clone(self.invoker.registry());
        let invoker = Invoker::builder(registry).policy(policy).gate(self.approvals.gate());
        Self { invoker: invoker.gate(gate).build(), ..self }
    }

    /// What has run.
    pub(crate) fn ran(&self) -> Vec<Value> {
        self.ran.lock().clone()
    }
}

/// Calls wait for whoever answers at the store.
pub(crate) fn with_operator() -> ApprovalConfig {
    ApprovalConfig { wait_for_operator: true, ..ApprovalConfig::default() }
}

pub(crate) fn call_of(scope: Scope, tool: &str, arguments: Value) -> Call {
    let tool = ToolName::parse(tool).expect("a name");
    Call::new(&Arc::new(scope), CallId::random(), tool, Arguments::Value(arguments))
}

/// A call of the local person.
pub(crate) fn pay(arguments: Value) -> Call {
    call_of(Scope::new(Door::CommandLine, Principal::local(), agent()), "pay", arguments)
}

/// A scope of somebody else, in a session.
pub(crate) fn stranger(name: &str, session: Option<&str>) -> Scope {
    let session = session.map(|session| SessionId::parse(session).expect("a session"));
    Scope::new(Door::Mcp, Principal::claimed(name), agent()).with_session(session)
}

/// The code of an outcome that is an error, and what it says.
pub(crate) fn refusal(outcome: Outcome) -> (String, String) {
    let error = outcome.expect_err("it was not to run");
    assert_eq!(error.execution.as_str(), "not_started", "{error}");
    (error.code.to_string(), error.message)
}

pub(crate) fn denied(outcome: Outcome) -> String {
    let (code, text) = refusal(outcome);
    assert_eq!(code, "denied", "{text}");
    text
}

pub(crate) fn text(outcome: Outcome) -> String {
    outcome.expect("an output").content.unwrap_or_default()
}
