//! An agent whose model is a script, and which has a few tools.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolbus_agent::{
    Agent, AgentDeps, ContextBuilder, Event, SessionRef, Sessions, TurnContext, TurnEvent,
    TurnLimits, TurnReport,
};
use toolbus_bus::Asker;
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Completion, Model, ModelCall, ModelError,
    ModelEvent, ModelRequest, OnEvent, StopReason, TokenUsage,
};
use toolbus_search::KnownServices;
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_testkit::eventually;
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::id::SessionId;
use toolbus_tools::{CallError, Door, Invoker, Lineage, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

/// What the model answers, once.
pub(crate) enum Answer {
    Says(&'static str),
    /// The same once the test releases it.
    SaysLate(&'static str),
    Calls(Vec<(&'static str, &'static str, Value)>),
    SaysAndCalls(&'static str, Vec<(&'static str, &'static str, Value)>),
    Fails(ModelError),
}

/// A model that answers as it is told, in order.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<VecDeque<Answer>>,
    /// What it was asked.
    pub(crate) asked: Mutex<Vec<ModelRequest>>,
    /// Releases an answer that is late.
    pub(crate) release: Notify,
}

impl Script {
    pub(crate) fn add(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().extend(answers);
    }
}

pub(crate) fn usage() -> TokenUsage {
    TokenUsage { input: 100, output: 10, cost_micro_usd: Some(5), ..TokenUsage::default() }
}

/// An answer without anything in it.
pub(crate) fn completion() -> Completion {
    Completion {
        message: AssistantMessage::default(),
        stop: StopReason::End,
        usage: usage(),
        model: "script".to_owned(),
    }
}

impl Model for Script {
    fn name(&self) -> &str {
        "script"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.lock().push(request.clone());
        let answer = self.answers.lock().pop_front().unwrap_or(Answer::Says("the script is over"));
        async move {
            if matches!(answer, Answer::SaysLate(_)) {
                self.release.notified().await;
            }
            let (parts, stop) = match answer {
                Answer::Says(text) | Answer::SaysLate(text) => {
                    on_event(ModelEvent::Text { delta: text.to_owned() });
                    (vec![AssistantPart::Text { text: text.to_owned() }], StopReason::End)
                }
                Answer::Calls(calls) => {
                    (calls.into_iter().map(part_of).collect(), StopReason::ToolCalls)
                }
                Answer::SaysAndCalls(text, calls) => {
                    on_event(ModelEvent::Text { delta: text.to_owned() });
                    let text = AssistantPart::Text { text: text.to_owned() };
                    let calls = calls.into_iter().map(part_of);
                    (std::iter::once(text).chain(calls).collect(), StopReason::ToolCalls)
                }
                Answer::Fails(error) => return Err(error),
            };
            let message = AssistantMessage { parts };
            Ok(Completion { message, stop, ..completion() })
        }
        .boxed()
    }
}

fn part_of((id, name, value): (&str, &str, Value)) -> AssistantPart {
    AssistantPart::Call(ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments: CallArguments::Json { value },
        written: None,
    })
}

/// An agent at a store, for as long as this lives.
pub(crate) struct Bench {
    pub(crate) agent: Agent,
    pub(crate) script: Arc<Script>,
    pub(crate) store: LazyStore,
    /// Services for the hints of turns.
    pub(crate) services: KnownServices,
    /// What the tool `write` was called with.
    pub(crate) written: Arc<Mutex<Vec<Value>>>,
    /// How often the tool `look` was called.
    pub(crate) looked: Arc<Mutex<usize>>,
    /// The ids of the calls of the tool `never`.
    pub(crate) ids: Arc<Mutex<Vec<String>>>,
    place: Arc<StatePlace>,
}

impl Bench {
    /// One on each kind of database that there is here.
    pub(crate) async fn all() -> Vec<Self> {
        let places = StatePlace::all().await.into_iter().map(Arc::new);
        places.map(|place| Self::at(place, Invocations::default())).collect()
    }

    pub(crate) fn sqlite() -> Self {
        Self::at(Arc::new(StatePlace::sqlite()), Invocations::default())
    }

    /// Another process with the same store, in the place of one that was killed.
    pub(crate) fn again(&self) -> Self {
        let (written, looked) = (Arc::clone(&self.written), Arc::clone(&self.looked));
        let ids = Arc::clone(&self.ids);
        Self::at(Arc::clone(&self.place), Invocations { written, looked, ids })
    }

    fn at(place: Arc<StatePlace>, invocations: Invocations) -> Self {
        let location: Location = place.location.parse().expect("a location");
        let store = LazyStore::new(location, &[toolbus_agent::MIGRATIONS]);
        let script = Arc::new(Script::default());
        let services = KnownServices::default();
        let agent = Agent::new(AgentDeps {
            invoker: Invoker::new(Arc::new(registry(&invocations))),
            model: Arc::clone(&script) as Arc<dyn Model>,
            sessions: Sessions::new(store.clone(), TurnLimits::default(), "bench"),
            context: ContextBuilder::new("You are a test.").with_services(services.clone()).into(),
        });
        let Invocations { written, looked, ids } = invocations;
        Self { agent, script, store, services, written, looked, ids, place }
    }

    /// What happened in all sessions.
    pub(crate) async fn events_of_all(&self) -> Vec<Event> {
        let store = self.store.open().await.expect("a store");
        let texts: Vec<String> = sqlx::query_scalar("SELECT event FROM agent_events")
            .fetch_all(store.readers())
            .await
            .expect("events");
        texts.iter().map(|text| serde_json::from_str(text).expect("an event")).collect()
    }

    /// Waits until the tool `never` was called so many times.
    pub(crate) async fn eventually_called(&self, times: usize) {
        eventually(Duration::from_secs(20), async || {
            let called = self.ids.lock().len();
            if called >= times { Ok(()) } else { Err(called) }
        })
        .await;
    }

    /// Writes an event of a session down, as another process would.
    pub(crate) async fn record(&self, session: &str, event: Event) {
        let mut open = self.agent.sessions().open(&at(session)).await.expect("a session");
        open.record(event).await.expect("it is written");
        open.close().await;
    }

    /// Says something in this session.
    pub(crate) async fn say(&self, session: &str, text: &str) -> TurnReport {
        self.say_in(&scope(session), text).await.0
    }

    pub(crate) async fn say_in(
        &self,
        scope: &Arc<Scope>,
        text: &str,
    ) -> (TurnReport, Vec<TurnEvent>) {
        let events = Mutex::new(Vec::new());
        let on_event = |event| events.lock().push(event);
        let (scope, asker) = (Arc::clone(scope), Asker::none());
        let context = TurnContext { scope, asker, on_event: &on_event };
        let report = self.agent.say(context, text.to_owned()).await.expect("a report");
        (report, events.into_inner())
    }
}

#[derive(Default)]
struct Invocations {
    written: Arc<Mutex<Vec<Value>>>,
    looked: Arc<Mutex<usize>>,
    ids: Arc<Mutex<Vec<String>>>,
}

fn registry(invocations: &Invocations) -> Registry {
    let registry = Registry::new();
    let any = || json!({"type": "object"});
    let tool = |name: &str| Tool::new(name, "A tool.", "test").with_parameters(any());

    let written = Arc::clone(&invocations.written);
    let write = move |call: Invocation| {
        written.lock().push(Value::Object(call.arguments));
        std::future::ready(Ok(Output::text("written")))
    };
    registry.register(tool("write"), write).expect("a tool");

    let looked = Arc::clone(&invocations.looked);
    let look = move |_: Invocation| {
        let mut looked = looked.lock();
        *looked += 1;
        std::future::ready(Ok(Output::text(format!("look {looked}"))))
    };
    registry.register(tool("look").read_only(), look).expect("a tool");

    let late = |call: Invocation| async move {
        let text = call.arguments.get("after").and_then(Value::as_u64).unwrap_or_default();
        // sleeps: as long as its call says.
        tokio::time::sleep(Duration::from_millis(text)).await;
        Ok(Output::text(format!("after {text}")))
    };
    registry.register(tool("late").read_only(), late).expect("a tool");
    let echo = |call: Invocation| {
        let text = call.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        std::future::ready(Ok(Output::text(text.to_owned())))
    };
    registry.register(tool("echo").read_only(), echo).expect("a tool");
    // Whatever its call inherits.
    let inherited = |call: Invocation| {
        let lineage = serde_json::to_string(&Lineage::of(&call.scope));
        std::future::ready(Ok(Output::text(lineage.expect("a lineage is JSON"))))
    };
    registry.register(tool("inherited").read_only(), inherited).expect("a tool");
    let stuck = |_: Invocation| std::future::pending();
    let stuck_tool = tool("stuck").with_timeout(Duration::from_millis(50));
    registry.register(stuck_tool.read_only(), stuck).expect("a tool");
    let ids = Arc::clone(&invocations.ids);
    let never = move |call: Invocation| {
        ids.lock().push(call.id.to_string());
        std::future::pending()
    };
    registry.register(tool("never").read_only(), never).expect("a tool");
    let never_write = |_: Invocation| std::future::pending();
    registry.register(tool("never_write"), never_write).expect("a tool");
    let fail =
        |_: Invocation| std::future::ready(Err(CallError::execution_failed("it broke\u{7} \u{0}")));
    registry.register(tool("fail"), fail).expect("a tool");
    registry
}

/// The scope of a session.
pub(crate) fn scope(session: &str) -> Arc<Scope> {
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    Arc::new(scope.with_session(Some(SessionId::parse(session).expect("a session"))))
}

/// The same, as a session is named.
pub(crate) fn at(session: &str) -> SessionRef {
    SessionRef::of(&scope(session)).expect("a session")
}
