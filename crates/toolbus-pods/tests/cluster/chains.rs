//! A chain in a pod, whose agent is on the other side of a broker.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_approvals::{
    Answer, Approval, ApprovalConfig, ApprovalState, ApprovalStore, Approvals, Approve,
};
use toolbus_bus::Bus;
use toolbus_bus::requester::Requester;
use toolbus_chain::{ChainDeps, ChainPolicy};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_scripts::ScriptClient;
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit::{self, Vhost};
use toolbus_tools::call::{Call, Invocation, Output};
use toolbus_tools::policy::{ApprovalDemand, Decision, PolicyRequest};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::fleet::manager;
use crate::once::{LIMIT, Place};

/// An agent with a tool that writes, whose calls need an approval.
struct Agent {
    invoker: Invoker,
    approvals: Approvals,
    store: ApprovalStore,
    written: Arc<Mutex<Vec<Value>>>,
    requester: Requester,
    _folder: TempDir,
}

fn decide(request: &PolicyRequest<'_>) -> Decision {
    if request.subject.id.as_str() == "test/write" {
        return Decision::Ask(ApprovalDemand::new("writes", "it writes"));
    }
    Decision::Allow
}

impl Agent {
    async fn start(vhost: &Vhost) -> Self {
        let config = Config::new(&vhost.amqp_url()).expect("an address");
        let bus: Arc<dyn Bus> = RabbitBus::connect(config).await.expect("a bus");
        let instance = InstanceId::random();
        let requester = Requester::start(bus, AgentName::standard(), &instance).await;
        let requester = requester.expect("a requester");

        let written = Arc::new(Mutex::new(Vec::new()));
        let registry = Arc::new(Registry::new());
        let kept = Arc::clone(&written);
        let write = move |call: Invocation| {
            kept.lock().push(Value::Object(call.arguments));
            std::future::ready(Ok(Output::text("written")))
        };
        let tool = Tool::new("write", "Writes.", "test").with_parameters(json!({"type": "object"}));
        registry.register(tool, write).expect("a tool");
        let scripts = ScriptClient::new(requester.clone());
        let policy = ChainPolicy::default();
        let deps = ChainDeps { scripts, artifacts: None, store: None, policy };
        toolbus_chain::register(&registry, deps).expect("a tool");

        let folder = tempfile::tempdir().expect("a folder");
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[toolbus_approvals::MIGRATIONS]);
        let config = ApprovalConfig { wait_for_operator: true, ..ApprovalConfig::default() };
        let approvals = Approvals::new(store.clone(), config, &AgentName::standard(), "host");
        let invoker = Invoker::builder(registry).policy(decide).gate(approvals.gate()).build();
        let store = ApprovalStore::new(store, false);
        Self { invoker, approvals, store, written, requester, _folder: folder }
    }

    async fn run(&self, code: &str) -> Output {
        let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
        let call = Call::by_name(&Arc::new(scope), "tool_chain", json!({"code": code}));
        self.invoker.invoke(call.expect("a name")).await.expect("a result")
    }

    async fn asked(&self) -> Approval {
        eventually(Duration::from_secs(60), async || {
            let mut pending =
                self.store.list(Some(ApprovalState::Pending), 2).await.expect("a list");
            pending.pop().ok_or("nothing is asked for")
        })
        .await
    }

    async fn approve(&self, asked: &Approval) {
        let answer = Answer::new(Approve::ONCE, &Principal::local());
        self.store.answer(&asked.id, answer).await.expect("an answer");
    }
}

/// Killed and resumed: the pod goes on, another manager takes up what it had asked for, and what
/// was approved runs once.
#[tokio::test]
async fn a_chain_that_waits_for_an_approval_outlives_its_manager() {
    let Some(place) = Place::new("chain").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let mut first = manager(&vhost, &place).await;
    let agent = Agent::start(&vhost).await;

    let code = "print(tools.write(n=1), flush=True)\nprint(tools.write(n=2))\nreturn 'done'";
    let meanwhile = async {
        let asked = agent.asked().await;
        agent.approve(&asked).await;
        let asked = agent.asked().await;
        // Its log tells so, by which the other manager knows.
        place.started().await;
        first.process().kill();
        let second = manager(&vhost, &place).await;
        agent.approve(&asked).await;
        second
    };
    let (output, _second) = tokio::join!(agent.run(code), meanwhile);

    let text = output.content.expect("a text");
    assert!(text.starts_with("written\nwritten\ndone\n[2 tool calls, "), "{text}");
    assert_eq!(*agent.written.lock(), [json!({"n": 1}), json!({"n": 2})]);
    place.is_empty(LIMIT).await;
    assert_eq!(place.ever(), 1, "one pod");
    agent.approvals.close().await;
    agent.requester.close().await;
}
