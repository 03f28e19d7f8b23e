//! Turns of an agent whose model is a script: it makes the calls that a test plans.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_agent::{
    Agent, AgentDeps, ContextBuilder, Sessions, TurnContext, TurnEnd, TurnLimits, TurnReport,
};
use toolbus_artifacts::Artifacts;
use toolbus_bus::Asker;
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Completion, Model, ModelCall, ModelError,
    ModelRequest, OnEvent, StopReason, TokenUsage,
};
use toolbus_tools::Scope;

use super::calls::ToolCall;
use super::chains::{NamedCall, Order, write_program};
use super::world::{World, store_contents};

/// Calls that a model makes at the same time.
const AT_A_TIME: usize = 3;
/// Calls of a turn that it makes in a program.
const IN_PROGRAM: usize = 4;

/// The turns of an agent, once there is one. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<OnceLock<Inner>>);

struct Inner {
    agent: Agent,
    script: Arc<Script>,
    artifacts: Artifacts,
}

/// A model that makes the calls of each round in turn, and then has nothing more to say.
#[derive(Default)]
struct Script {
    rounds: Mutex<VecDeque<Vec<NamedCall>>>,
}

impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn complete<'a>(
        &'a self,
        _request: &'a ModelRequest,
        _on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        let (parts, stop) = match self.rounds.lock().pop_front() {
            Some(calls) => {
                let calls = calls.into_iter().enumerate();
                let parts = calls.map(|(number, (name, value))| {
                    AssistantPart::Call(ModelCall {
                        id: format!("call_{number}"),
                        name,
                        arguments: CallArguments::Json { value },
                        written: None,
                    })
                });
                (parts.collect(), StopReason::ToolCalls)
            }
            None => (vec![AssistantPart::Text { text: "done".to_owned() }], StopReason::End),
        };

        let message = AssistantMessage { parts };
        let (usage, model) = (TokenUsage::default(), "script".to_owned());
        std::future::ready(Ok(Completion { message, stop, usage, model })).boxed()
    }
}

impl Turns {
    /// Has an agent with the tools of this world make them.
    pub(crate) fn begin(&self, world: &World) {
        let limits = TurnLimits { rounds_max: 1_000, ..TurnLimits::default() };
        let script = Arc::<Script>::default();
        let agent = Agent::new(AgentDeps {
            invoker: world.toolbus.invoker().clone(),
            model: Arc::clone(&script) as Arc<dyn Model>,
            sessions: Sessions::new(world.parts.store.clone(), limits, "judged"),
            context: ContextBuilder::new("You are a test.").into(),
        });
        let inner = Inner { agent, script, artifacts: world.parts.artifacts.clone() };
        assert!(self.0.set(inner).is_ok(), "there is an agent already");
    }

    pub(crate) fn agent(&self) -> &Agent {
        &self.inner().agent
    }

    /// Has the model make these calls in the next turn, which is one of this scope: the last of
    /// them in a program.
    pub(crate) async fn plan(&self, scope: &Scope, calls: &[ToolCall]) {
        let Inner { script, artifacts, .. } = self.inner();
        let references = store_contents(artifacts, scope).await;
        let named = calls.iter().map(|call| (call.tool.to_owned(), call.arguments(&references)));
        let named: Vec<NamedCall> = named.collect();

        let (own, of_program) = named.split_at(named.len() - IN_PROGRAM);
        let code = write_program(of_program, Order::OneByOne);
        let program = ("tool_chain".to_owned(), json!({"code": code}));
        let mut rounds = script.rounds.lock();
        rounds.extend(own.chunks(AT_A_TIME).map(<[NamedCall]>::to_vec));
        rounds.push_back(vec![program]);
    }

    /// Makes the model add this call after the planned calls.
    pub(crate) fn plan_call(&self, tool: &str, arguments: Value) {
        self.inner().script.rounds.lock().push_back(vec![(tool.to_owned(), arguments)]);
    }

    /// Checks that the model has made all calls of a turn that ended so.
    pub(crate) fn check_end(&self, report: &TurnReport) {
        let is_whole = matches!(report.end, TurnEnd::Answered { limit: None, .. });
        assert!(is_whole && self.inner().script.rounds.lock().is_empty(), "{report:?}");
    }

    fn inner(&self) -> &Inner {
        self.0.get().expect("the world is open")
    }
}

/// A turn of this scope, at which nobody looks on.
pub(crate) fn turn_of(scope: Scope) -> TurnContext<'static> {
    TurnContext { scope: Arc::new(scope), asker: Asker::none(), on_event: &|_| {} }
}
