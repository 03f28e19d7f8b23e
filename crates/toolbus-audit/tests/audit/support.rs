//! A process with an audit log.

use std::sync::Arc;

use serde_json::json;
use toolbus_audit::{Audit, AuditConfig, AuditLog, MIGRATIONS};
use toolbus_store::LazyStore;
use toolbus_tools::call::{Call, CallError, Invocation, Outcome, Output};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::{Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

pub(crate) struct Host {
    pub(crate) invoker: Invoker,
    pub(crate) audit: Audit,
    store: LazyStore,
    scope: Arc<Scope>,
}

impl Host {
    pub(crate) fn new(location: &str, config: AuditConfig) -> Self {
        let store = LazyStore::new(location.parse().expect("a location"), &[MIGRATIONS]);
        let audit = Audit::start(store.clone(), config);
        let registry = Registry::new();
        let work = |call: Invocation| async move {
            match call.arguments.contains_key("fail") {
                true => Err(CallError::execution_failed("on request")),
                false => Ok(Output::text("the result")),
            }
        };
        registry.register(Tool::new("work", "works", "test"), work).expect("a tool");
        let secret = Tool::new("secret", "is not for all", "test");
        registry.register(secret, work).expect("a tool");

        let policy = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
            "test/secret" => Decision::Deny("on request".into()),
            _ => Decision::Allow,
        };
        let invoker = Invoker::builder(Arc::new(registry)).policy(policy);
        let invoker = invoker.observe(audit.observer()).build();
        let alice = Principal::claimed("alice");
        let scope = Scope::new(toolbus_tools::Door::Bus, alice, AgentName::standard());
        Self { invoker, audit, store, scope: Arc::new(scope) }
    }

    pub(crate) async fn call(&self, tool: &str, arguments: serde_json::Value) -> Outcome {
        self.call_in(&self.scope, tool, arguments).await
    }

    pub(crate) async fn call_in(
        &self,
        scope: &Arc<Scope>,
        tool: &str,
        arguments: serde_json::Value,
    ) -> Outcome {
        let call = Call::by_name(scope, tool, arguments).expect("a name");
        self.invoker.invoke(call).await
    }

    pub(crate) async fn work(&self, times: u64) {
        for n in 0..times {
            assert!(self.call("work", json!({"n": n})).await.is_ok());
        }
    }

    pub(crate) fn run(&self) -> &str {
        self.scope.run.as_str()
    }

    pub(crate) async fn close(self) {
        self.audit.close().await;
        self.store.close().await;
    }
}

/// The log as another process reads it.
pub(crate) fn log(location: &str) -> AuditLog {
    AuditLog::new(LazyStore::new(location.parse().expect("a location"), &[MIGRATIONS]))
}
