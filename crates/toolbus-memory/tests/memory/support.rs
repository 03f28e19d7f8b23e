//! Memory of a test, and an invoker with its tools.

use std::sync::Arc;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_artifacts::{ArtifactConfig, Artifacts, OffloadOutput, Place};
use toolbus_memory::{
    MemoryConfig, MemoryDeps, ProtectResults, ResultThreshold, Summaries, WorkingMemory,
};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Call, Invocation, Outcome, Output};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

/// Memory, for as long as this lives.
pub(crate) struct Bench {
    pub(crate) store: LazyStore,
    pub(crate) memory: WorkingMemory,
    pub(crate) artifacts: Artifacts,
    pub(crate) invoker: Invoker,
    config: MemoryConfig,
    location: Location,
    _folder: TempDir,
    _place: StatePlace,
}

/// What the tool `give` gives back: a text of its caller's, as text or as it says.
fn give(call: &Invocation) -> Output {
    let text = call.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
    let structured = call.arguments.get("structured").map(toolbus_wire::json::RawJson::of);
    match call.arguments.get("times").and_then(Value::as_u64) {
        Some(times) => Output::text(text.repeat(usize::try_from(times).expect("it fits"))),
        None if text.is_empty() => Output { structured, ..Output::default() },
        None => Output { structured, ..Output::text(text) },
    }
}

/// How long a result is, in the tests, that is given as it is.
pub(crate) const THRESHOLD: usize = 1_000;

impl Bench {
    /// One on each kind of database that there is here.
    pub(crate) async fn all() -> Vec<Self> {
        let places = StatePlace::all().await.into_iter();
        places.map(|place| Self::at(place, MemoryConfig::default())).collect()
    }

    pub(crate) fn sqlite(config: MemoryConfig) -> Self {
        Self::at(StatePlace::sqlite(), config)
    }

    pub(crate) async fn all_with(config: &MemoryConfig) -> Vec<Self> {
        let places = StatePlace::all().await.into_iter();
        places.map(|place| Self::at(place, config.clone())).collect()
    }

    fn at(place: StatePlace, config: MemoryConfig) -> Self {
        let location: Location = place.location.parse().expect("a location");
        let folder = tempfile::tempdir().expect("a folder");
        let migrations = [toolbus_memory::MIGRATIONS, toolbus_artifacts::MIGRATIONS];
        let store = LazyStore::new(location.clone(), &migrations);
        let memory = WorkingMemory::new(store.clone(), config.clone());
        let bytes = Place::folder(folder.path());
        let artifacts = Artifacts::new(store.clone(), bytes, ArtifactConfig::default());
        let invoker = invoker(&store, &config, |protect| protect);
        Self { store, memory, artifacts, invoker, config, location, _folder: folder, _place: place }
    }

    /// An invoker whose large results become artifacts, too.
    pub(crate) fn with_artifacts(&self) -> Invoker {
        let artifacts = self.artifacts.clone();
        let builder =
            builder(&self.store, &self.config, |protect| protect.with_artifacts(artifacts));
        builder.shape(Arc::new(OffloadOutput::new(self.artifacts.clone()))).build()
    }

    /// An invoker whose large results are artifacts, and cut.
    pub(crate) fn cutting(&self) -> Invoker {
        let artifacts = self.artifacts.clone();
        let with = |protect: ProtectResults| protect.with_artifacts(artifacts).cutting();
        invoker(&self.store, &self.config, with)
    }

    /// The same memory in another process.
    pub(crate) fn other(&self) -> Invoker {
        let store = LazyStore::new(self.location.clone(), &[toolbus_memory::MIGRATIONS]);
        invoker(&store, &self.config, |protect| protect)
    }

    /// What a tool says in the session `session/s1`.
    pub(crate) async fn say(&self, tool: &str, arguments: Value) -> String {
        say(&self.invoker, &scope("session/s1"), tool, arguments).await
    }

    /// Why a tool refuses in the session `session/s1`.
    pub(crate) async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let outcome = call(&self.invoker, &scope("session/s1"), tool, arguments).await;
        outcome.expect_err("it is refused").message
    }
}

fn invoker(
    store: &LazyStore,
    config: &MemoryConfig,
    with: impl FnOnce(ProtectResults) -> ProtectResults,
) -> Invoker {
    builder(store, config, with).build()
}

fn builder(
    store: &LazyStore,
    config: &MemoryConfig,
    with: impl FnOnce(ProtectResults) -> ProtectResults,
) -> toolbus_tools::invoker::InvokerBuilder {
    let registry = Registry::new();
    let threshold = ResultThreshold::by(|_| THRESHOLD);
    let (store, config) = (store.clone(), config.clone());
    let memory = WorkingMemory::new(store.clone(), config.clone());
    let (threshold_of_tools, summaries) = (threshold.clone(), Summaries::default());
    let deps = MemoryDeps { store, config, threshold: threshold_of_tools, summaries };
    toolbus_memory::register(&registry, deps).expect("the names are free");

    let tool = Tool::new("give", "Gives.", "test").with_parameters(json!({"type": "object"}));
    let executor = |call: Invocation| std::future::ready(Outcome::Ok(give(&call)));
    registry.register(tool.clone(), executor).expect("a tool");
    let reader = Tool { name: "read".to_owned(), ..tool }.reading_stored();
    registry.register(reader, executor).expect("a tool");

    let protect = with(ProtectResults::new(memory, threshold));
    Invoker::builder(Arc::new(registry)).shape(Arc::new(protect))
}

/// The scope of a turn in this session.
pub(crate) fn scope(session: &str) -> Arc<Scope> {
    scope_of("model", Some(session))
}

pub(crate) fn scope_of(principal: &str, session: Option<&str>) -> Arc<Scope> {
    let scope = Scope::new(Door::Turn, Principal::claimed(principal), AgentName::standard());
    let session = session.map(|session| SessionId::parse(session).expect("a session"));
    Arc::new(scope.with_session(session))
}

pub(crate) async fn call(
    invoker: &Invoker,
    scope: &Arc<Scope>,
    tool: &str,
    arguments: Value,
) -> Outcome {
    invoker.invoke(Call::by_name(scope, tool, arguments).expect("a name")).await
}

pub(crate) async fn say(
    invoker: &Invoker,
    scope: &Arc<Scope>,
    tool: &str,
    arguments: Value,
) -> String {
    let output = call(invoker, scope, tool, arguments).await;
    output.expect("it is answered").content.expect("a text")
}

/// The text, with `…` in place of what is in each place between these two texts.
pub(crate) fn mask(text: &str, before: &str, after: &str) -> String {
    let mut masked = String::new();
    let mut rest = text;
    while let Some((start, found)) = rest.split_once(before) {
        let end = found.find(after).unwrap_or(found.len());
        masked.push_str(start);
        masked.push_str(before);
        masked.push('…');
        rest = &found[end..];
    }
    masked + rest
}
