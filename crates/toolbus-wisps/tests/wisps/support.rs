//! An invoker with `spawn_wisps`, and the tools that its gateways call: each does what its caller
//! asks for, and what was called is written down.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;
use toolbus_artifacts::{ArtifactConfig, Artifacts, OffloadOutput, Place};
use toolbus_memory::{
    MemoryConfig, MemoryDeps, MemoryOwner, Namespace, ResultThreshold, Summaries, WorkingMemory,
};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::budget::TurnUsage;
use toolbus_tools::call::{Call, Invocation, Outcome, Output};
use toolbus_tools::id::{CallId, SessionId, ToolId};
use toolbus_tools::invoker::InvokerBuilder;
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{
    CallError, Door, Executor, Invoker, Principal, Registry, Scope, Subject, Tool,
};
use toolbus_wire::ErrorCode;
use toolbus_wire::name::AgentName;
use toolbus_wisps::{
    AgentEnd, AwaitAgent, Complete, CompleteError, CompletionRequest, CompletionText, McpReady,
    NAME, WispsConfig, WispsDeps,
};

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A call that one of the tools got.
#[derive(Debug, Clone)]
pub(crate) struct Called {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) scope: Arc<Scope>,
}

/// What happened in a test, and what is to happen.
pub(crate) struct World {
    pub(crate) calls: Mutex<Vec<Called>>,
    /// How many calls run, and how many did at most.
    pub(crate) running: AtomicUsize,
    pub(crate) running_max: AtomicUsize,
    /// What calls of `wait` wait for.
    pub(crate) gate: Semaphore,
    /// The prompts that the model was given, and what it answers.
    pub(crate) prompts: Mutex<Vec<String>>,
    pub(crate) answers: Mutex<Vec<Result<CompletionText, CompleteError>>>,
    /// How the tasks of agents end; one that is not there never does.
    pub(crate) ends: Mutex<HashMap<String, AgentEnd>>,
    pub(crate) awaited: Mutex<Vec<String>>,
    pub(crate) cancelled: Mutex<Vec<String>>,
    /// Which servers were waited for, and whether they come.
    pub(crate) servers: Mutex<Vec<Vec<String>>>,
    pub(crate) servers_come: bool,
}

impl Default for World {
    fn default() -> Self {
        Self {
            calls: Mutex::default(),
            running: AtomicUsize::new(0),
            running_max: AtomicUsize::new(0),
            gate: Semaphore::new(0),
            prompts: Mutex::default(),
            answers: Mutex::default(),
            ends: Mutex::default(),
            awaited: Mutex::default(),
            cancelled: Mutex::default(),
            servers: Mutex::default(),
            servers_come: true,
        }
    }
}

/// A tool of the test.
struct TestTool {
    world: Arc<World>,
    name: &'static str,
}

/// One call that runs.
struct Running<'a>(&'a World);

impl<'a> Running<'a> {
    fn begin(world: &'a World) -> Self {
        let running = world.running.fetch_add(1, Ordering::SeqCst) + 1;
        world.running_max.fetch_max(running, Ordering::SeqCst);
        Self(world)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl TestTool {
    /// Does what the text asks for, in the arguments of any of the tools.
    async fn act(&self, call: &Invocation) -> Outcome {
        let _running = Running::begin(&self.world);
        let arguments = &call.arguments;
        let inner = arguments.get("arguments").and_then(Value::as_object).unwrap_or(arguments);
        let names = ["query", "url", "do", "script", "message"];
        let told = names.into_iter().find_map(|name| inner.get(name)?.as_str()).unwrap_or_default();

        let (word, rest) = told.split_once(':').unwrap_or((told, ""));
        match word {
            "fail" => Ok(Output::error(format!("it failed: {rest}"))),
            "busy" => Err(CallError::new(ErrorCode::Busy, "no room")),
            "break" => Err(CallError::execution_failed(rest)),
            "hang" => std::future::pending().await,
            "wait" => {
                self.world.gate.acquire().await.expect("open").forget();
                Ok(Output::text("waited"))
            }
            "give" => Ok(Output::text(rest)),
            "big" => Ok(Output::text("x".repeat(rest.parse().expect("a number")))),
            "input" => Ok(Output::text(inner["input_data"].as_str().unwrap_or("no input"))),
            "arguments" => Ok(Output::text(Value::Object(inner.clone()).to_string())),
            _ if self.name == "invoke_agent" => Ok(Output::text(format!(
                "Task dispatched to agent 'x' with task_id: {told}. The result will arrive."
            ))),
            _ => Ok(Output::text(format!("{}: {told}", self.name))),
        }
    }
}

impl Executor for TestTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Outcome> {
        self.world.calls.lock().push(Called {
            id: call.id.to_string(),
            tool: self.name.to_owned(),
            arguments: Value::Object(call.arguments.clone()),
            scope: Arc::clone(&call.scope),
        });
        Box::pin(async move { self.act(&call).await })
    }

    /// As `mcp_invoke_tool` does: `alias` is the server `secret`.
    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        if self.name != "mcp_invoke_tool" {
            return Ok(None);
        }
        let text = |name: &str| arguments[name].as_str().unwrap_or_default().to_lowercase();
        let server =
            if text("server_name") == "alias" { "secret".into() } else { text("server_name") };
        let tool = text("tool_name");
        let read_only = tool.starts_with("read");
        Ok(Some(Subject {
            id: ToolId::of(&format!("mcp:{server}"), &tool),
            definition: None,
            annotations: Annotations { read_only, idempotent: read_only, destructive: false },
            risk: Risk::Medium,
            audience: Default::default(),
        }))
    }
}

impl Complete for World {
    fn complete<'a>(
        &'a self,
        request: CompletionRequest<'a>,
    ) -> BoxFuture<'a, Result<CompletionText, CompleteError>> {
        self.prompts.lock().push(request.prompt.to_owned());
        let answer = self.answers.lock().pop();
        Box::pin(async move {
            match answer {
                Some(answer) => answer,
                None => std::future::pending().await,
            }
        })
    }
}

impl AwaitAgent for World {
    fn wait<'a>(&'a self, _: &'a Scope, task_id: &'a str) -> BoxFuture<'a, AgentEnd> {
        self.awaited.lock().push(task_id.to_owned());
        let end = self.ends.lock().get(task_id).cloned();
        Box::pin(async move {
            match end {
                Some(end) => end,
                None => std::future::pending().await,
            }
        })
    }

    fn cancel<'a>(&'a self, _: &'a Scope, task_id: &'a str) -> BoxFuture<'a, ()> {
        self.cancelled.lock().push(task_id.to_owned());
        Box::pin(std::future::ready(()))
    }
}

impl McpReady for World {
    fn wait<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()> {
        self.servers.lock().push(servers.to_vec());
        let come = self.servers_come;
        Box::pin(async move {
            if !come {
                std::future::pending::<()>().await;
            }
        })
    }
}

/// An invoker with the tool, for as long as this lives.
pub(crate) struct Bench {
    pub(crate) world: Arc<World>,
    pub(crate) invoker: Invoker,
    pub(crate) memory: WorkingMemory,
    pub(crate) tasks: TaskTracker,
    pub(crate) store: LazyStore,
    place: Arc<StatePlace>,
}

/// What a test sets.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) config: WispsConfig,
    pub(crate) memory: MemoryConfig,
    pub(crate) world: World,
    /// The tool that is there beside those of memory: all of them where it is `None`.
    pub(crate) only: Option<&'static str>,
    pub(crate) place: Option<Arc<StatePlace>>,
    /// Results of more than 1,000 bytes become artifacts.
    pub(crate) has_artifacts: bool,
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(Setup::default())
    }

    pub(crate) fn with_config(config: WispsConfig) -> Self {
        Self::with(Setup { config, ..Setup::default() })
    }

    pub(crate) fn with(setup: Setup) -> Self {
        Self::build(setup, |builder| builder)
    }

    pub(crate) fn build(
        setup: Setup,
        build: impl FnOnce(InvokerBuilder) -> InvokerBuilder,
    ) -> Self {
        let place = setup.place.unwrap_or_else(|| Arc::new(StatePlace::sqlite()));
        let location: Location = place.location.parse().expect("a location");
        let store =
            LazyStore::new(location, &[toolbus_memory::MIGRATIONS, toolbus_artifacts::MIGRATIONS]);
        let memory = WorkingMemory::new(store.clone(), setup.memory.clone());
        let world = Arc::new(setup.world);
        let artifacts = setup.has_artifacts.then(|| {
            let bytes = Place::folder(&place.folder().expect("a folder").join("bytes"));
            let config = ArtifactConfig { inline_bytes: 1_000, ..ArtifactConfig::default() };
            Artifacts::new(store.clone(), bytes, config)
        });
        let tasks = TaskTracker::new();

        let registry = Registry::new();
        let deps = MemoryDeps {
            store: store.clone(),
            config: setup.memory,
            threshold: ResultThreshold::default(),
            summaries: Summaries::default(),
        };
        toolbus_memory::register(&registry, deps).expect("the names are free");
        for name in
            ["mcp_invoke_tool", "execute_python_script", "web_search", "web_browse", "invoke_agent"]
        {
            if setup.only.is_none_or(|only| only == name) {
                let tool = TestTool { world: Arc::clone(&world), name };
                registry.register(definition(name), tool).expect("the name is free");
            }
        }
        let deps = WispsDeps {
            memory: memory.clone(),
            artifacts: artifacts.clone(),
            complete: Some(Arc::clone(&world) as _),
            agents: Some(Arc::clone(&world) as _),
            mcp: Some(Arc::clone(&world) as _),
            tasks: tasks.clone(),
            config: Arc::new(setup.config),
        };
        toolbus_wisps::register(&registry, deps).expect("the name is free");
        let mut builder = build(Invoker::builder(Arc::new(registry)));
        if let Some(artifacts) = &artifacts {
            builder = builder.shape(Arc::new(OffloadOutput::new(artifacts.clone())));
        }
        let invoker = builder.build();
        Self { world, invoker, memory, tasks, store, place }
    }

    /// Where its state is.
    pub(crate) fn place(&self) -> Arc<StatePlace> {
        Arc::clone(&self.place)
    }

    /// The same state in another process.
    pub(crate) fn restarted(&self) -> Self {
        Self::with(Setup { place: Some(Arc::clone(&self.place)), ..Setup::default() })
    }

    /// Runs wisps in the session `session/s1`, and gives what is told.
    pub(crate) async fn spawn(&self, definitions: Value) -> Output {
        self.try_spawn(definitions).await.expect("it is run")
    }

    pub(crate) async fn try_spawn(&self, definitions: Value) -> Outcome {
        self.spawn_in(&scope(), definitions).await
    }

    pub(crate) async fn spawn_in(&self, scope: &Arc<Scope>, definitions: Value) -> Outcome {
        let call = Call::by_name(scope, NAME, json!({"definitions": definitions})).expect("a name");
        tokio::time::timeout(LIMIT, self.invoker.invoke(call)).await.expect("it ends")
    }

    /// The same under this id.
    pub(crate) async fn spawn_as(&self, id: &str, definitions: Value) -> Outcome {
        tokio::time::timeout(LIMIT, self.invoker.invoke(call_as(id, definitions)))
            .await
            .expect("it ends")
    }

    /// What a tool of memory says to a principal.
    pub(crate) async fn say(&self, scope: &Arc<Scope>, tool: &str, arguments: Value) -> String {
        let call = Call::by_name(scope, tool, arguments).expect("a name");
        self.invoker.invoke(call).await.expect("it is answered").content.expect("a text")
    }

    /// What is in working memory under a key, for the owner of the session `session/s1`.
    pub(crate) async fn kept(&self, key: &str) -> Option<toolbus_memory::Entry> {
        let session = SessionId::parse("session/s1").expect("a session");
        let path =
            Namespace::of_session(&session).expect("a namespace").path_of(key).expect("a key");
        self.memory.find(&MemoryOwner::of(&scope()), &path).await.expect("it is read")
    }

    pub(crate) fn calls(&self) -> Vec<Called> {
        self.world.calls.lock().clone()
    }

    /// The calls, each by its tool and what it was asked for.
    pub(crate) fn told(&self) -> Vec<String> {
        let told = |called: Called| format!("{} {}", called.tool, called.arguments);
        self.calls().into_iter().map(told).collect()
    }
}

/// A call of the tool with this id.
pub(crate) fn call_as(id: &str, definitions: Value) -> Call {
    let id = CallId::parse(id).expect("an id");
    Call {
        id,
        ..Call::by_name(&scope(), NAME, json!({"definitions": definitions})).expect("a name")
    }
}

fn definition(name: &'static str) -> Tool {
    let tool = Tool::new(name, "Of a test.", "test").with_parameters(json!({"type": "object"}));
    match name {
        "web_search" | "web_browse" => tool.read_only(),
        _ => tool.with_risk(Risk::Medium),
    }
}

/// The scope of a turn in the session `session/s1`.
pub(crate) fn scope() -> Arc<Scope> {
    scope_of("model")
}

pub(crate) fn scope_of(principal: &str) -> Arc<Scope> {
    let scope = Scope::new(Door::Turn, Principal::claimed(principal), AgentName::standard());
    Arc::new(scope.with_session(Some(SessionId::parse("session/s1").expect("a session"))))
}

/// A search for this.
pub(crate) fn search(id: &str, query: &str) -> Value {
    json!({"id": id, "mode": "Direct", "gateway": "Web", "tool": "web_search", "params": {"query": query}})
}

/// A script, which may change something.
pub(crate) fn script(id: &str, script: &str) -> Value {
    json!({"id": id, "mode": "Direct", "gateway": "Script", "params": {"script": script}})
}

/// A call of a tool of an MCP server.
pub(crate) fn mcp(id: &str, server: &str, tool: &str, params: Value) -> Value {
    json!({"id": id, "mode": "Direct", "gateway": "Mcp", "server": server, "tool": tool, "params": params})
}

/// A task for another agent, whose id is its message.
pub(crate) fn agent(id: &str, message: &str) -> Value {
    json!({"id": id, "mode": "Direct", "gateway": "A2A", "agent": "Other", "skill": "s", "message": message})
}

/// A question to a model.
pub(crate) fn llm(id: &str, prompt: &str) -> Value {
    json!({"id": id, "mode": "Llm", "prompt": prompt})
}

/// A step with more members.
pub(crate) fn with(mut step: Value, members: Value) -> Value {
    for (name, value) in members.as_object().expect("an object") {
        step[name] = value.clone();
    }
    step
}

/// A wisp of these steps.
pub(crate) fn wisp(steps: Vec<Value>) -> Value {
    json!({"description": "A wisp", "steps": steps})
}

pub(crate) fn answer(text: &str, tokens: u64) -> Result<CompletionText, CompleteError> {
    let usage = TurnUsage { tokens, ..TurnUsage::default() };
    Ok(CompletionText { text: text.to_owned(), usage, is_cut_off: false })
}

/// The ids of the wisps that a result names, in order.
pub(crate) fn wisp_ids(text: &str) -> Vec<String> {
    let ids = text.lines().filter_map(|line| line.strip_prefix("- `wisp-"));
    ids.filter_map(|rest| Some(format!("wisp-{}", rest.split_once('`')?.0))).collect()
}

/// The text with ids and times masked.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        masked.push_str(&rest[..at]);
        let end = rest[at..]
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '-')
            .unwrap_or(rest.len() - at);
        let word = &rest[at..at + end];
        let is_id = |prefix: &str, digits: usize| {
            word.strip_prefix(prefix)
                .is_some_and(|id| id.len() == digits && id.chars().all(|c| c.is_ascii_hexdigit()))
        };
        let is_time = |word: &str| {
            word.strip_suffix("ms").is_some_and(|number| number.parse::<u64>().is_ok())
        };
        match word {
            _ if is_id("wisp-", 11) => masked.push_str("wisp-ID"),
            _ if is_id("batch-", 12) => masked.push_str("batch-ID"),
            _ if is_time(word) => masked.push_str("0ms"),
            _ => masked.push_str(word),
        }
        rest = &rest[at + end..];
    }
    masked += rest;

    match (masked.find(" failed, "), masked.find("s total):")) {
        (Some(from), Some(to)) if from < to => {
            masked.replace_range(from + " failed, ".len()..to, "0.0");
            masked
        }
        _ => masked,
    }
}
