//! Artifacts of a test, and an invoker with them.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_artifacts::{ArtifactConfig, Artifacts, OffloadOutput, Place, ResolveReferences};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Call, Invocation, Outcome, Output};
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

/// Artifacts, for as long as this lives.
pub(crate) struct Bench {
    pub(crate) artifacts: Artifacts,
    pub(crate) store: LazyStore,
    pub(crate) folder: TempDir,
    _place: StatePlace,
}

pub(crate) fn config() -> ArtifactConfig {
    ArtifactConfig { inline_bytes: 100, ttl: Duration::from_secs(60), ..ArtifactConfig::default() }
}

impl Bench {
    /// One on each kind of database that there is here.
    pub(crate) async fn all(config: ArtifactConfig) -> Vec<Self> {
        let places = match cfg!(feature = "postgres") {
            true => StatePlace::all().await,
            false => vec![StatePlace::sqlite()],
        };
        places.into_iter().map(|place| Self::at(place, config.clone())).collect()
    }

    pub(crate) fn sqlite(config: ArtifactConfig) -> Self {
        Self::at(StatePlace::sqlite(), config)
    }

    fn at(place: StatePlace, config: ArtifactConfig) -> Self {
        let location: Location = place.location.parse().expect("a location");
        let store = LazyStore::new(location, &[toolbus_artifacts::MIGRATIONS]);
        let folder = tempfile::tempdir().expect("a folder");
        let bytes = Place::folder(folder.path());
        let artifacts = Artifacts::new(store.clone(), bytes, config);
        Self { artifacts, store, folder, _place: place }
    }

    /// An invoker of the tool `give`, which gives this back, and `take`, which keeps what it gets.
    pub(crate) fn invoker(&self, output: Output) -> (Invoker, Arc<parking_lot::Mutex<Vec<Value>>>) {
        let registry = Registry::new();
        let give = move |_: Invocation| std::future::ready(Outcome::Ok(output.clone()));
        registry.register(Tool::new("give", "Gives.", "test"), give).expect("a tool");

        let taken = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let keep = Arc::clone(&taken);
        let take = move |call: Invocation| {
            keep.lock().push(Value::Object(call.arguments));
            std::future::ready(Outcome::Ok(Output::text("taken")))
        };
        let parameters = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "list": {"type": "array", "items": {"type": ["integer", "object"]}},
                "any": {},
                "choice": {"anyOf": [{"type": "string"}, {"type": "number"}]},
            },
            "required": [],
            "additionalProperties": false,
        });
        let tool = Tool::new("take", "Takes.", "test").with_parameters(parameters);
        registry.register(tool, take).expect("a tool");

        let builder = Invoker::builder(Arc::new(registry))
            .shape(Arc::new(OffloadOutput::new(self.artifacts.clone())))
            .references(ResolveReferences::new(self.artifacts.clone()));
        (builder.build(), taken)
    }

    /// Files that have bytes of artifacts.
    pub(crate) fn files(&self) -> Vec<std::path::PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    }
}

/// The scope of a session, which comes in by a door that gets references.
pub(crate) fn scope(session: &str) -> Arc<Scope> {
    let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
    Arc::new(scope.with_session(Some(SessionId::parse(session).expect("a session"))))
}

pub(crate) async fn call(
    invoker: &Invoker,
    scope: &Arc<Scope>,
    tool: &str,
    arguments: Value,
) -> Outcome {
    invoker.invoke(Call::by_name(scope, tool, arguments).expect("a name")).await
}
