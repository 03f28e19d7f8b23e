//! An agent with a few tools, whose chains run in a sandbox.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus::tools::call::{Invocation, Outcome, Output};
use toolbus::tools::{Scope, Tool};
use toolbus::{Scripts, Toolbus, ToolbusBuilder};
use toolbus_artifacts::{ArtifactConfig, Artifacts, OffloadOutput, Place, ResolveReferences};
use toolbus_chain::{ChainDeps, ChainPolicy};
use toolbus_scripts::ScriptClient;
use toolbus_store::{LazyStore, Location, sqlx};
use toolbus_tools::id::SessionId;
use toolbus_tools::{CallError, Door, Principal};
use toolbus_wire::message::tool::{ContentBlock, ContentKind};

use super::ScriptPlace;

/// An agent whose chains run here.
pub(crate) struct Chains {
    pub(crate) toolbus: Toolbus,
    pub(crate) artifacts: Artifacts,
    /// Where artifacts, their pins and journals are.
    pub(crate) store: LazyStore,
    /// What the tool `write` was called with.
    pub(crate) written: Arc<Mutex<Vec<Value>>>,
    /// How many calls of the tool `wait` are under way.
    pub(crate) waiting: Arc<Mutex<usize>>,
    place: ScriptPlace,
    _folder: TempDir,
}

/// What chains are opened with.
pub(crate) struct ChainSetting {
    pub(crate) policy: ChainPolicy,
    pub(crate) keeps_artifacts: bool,
    /// How many programs run at a time.
    pub(crate) places: NonZeroU16,
}

impl Default for ChainSetting {
    fn default() -> Self {
        let places = NonZeroU16::new(4).expect("4 is not zero");
        Self { policy: ChainPolicy::default(), keeps_artifacts: true, places }
    }
}

/// What became of a chain.
#[derive(Debug)]
pub(crate) struct Ran {
    /// What the model reads.
    pub(crate) text: String,
    /// The result as a value.
    pub(crate) result: Value,
    pub(crate) is_error: bool,
}

impl Chains {
    /// `None` where nothing can run them; that is told.
    pub(crate) async fn open() -> Option<Self> {
        Self::with(ChainPolicy::default(), |builder| builder).await
    }

    pub(crate) async fn with(
        policy: ChainPolicy,
        set_up: impl FnOnce(ToolbusBuilder) -> ToolbusBuilder,
    ) -> Option<Self> {
        Self::open_as(ChainSetting { policy, ..ChainSetting::default() }, set_up).await
    }

    pub(crate) async fn open_as(
        setting: ChainSetting,
        set_up: impl FnOnce(ToolbusBuilder) -> ToolbusBuilder,
    ) -> Option<Self> {
        let ChainSetting { policy, keeps_artifacts, places } = setting;
        let place = ScriptPlace::open().await?;
        let folder = tempfile::tempdir().expect("a folder");
        let migrations = [toolbus_artifacts::MIGRATIONS, toolbus_chain::MIGRATIONS];
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &migrations);
        let kept_in = Place::folder(&folder.path().join("artifacts"));
        let artifacts = Artifacts::new(store.clone(), kept_in, ArtifactConfig::default());

        let (written, waiting) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(0)));
        let mut builder =
            Toolbus::builder().scripts(Scripts::local(place.runner()).concurrency(places));
        let kept = keeps_artifacts.then(|| artifacts.clone());
        if let Some(kept) = &kept {
            builder = builder
                .references(ResolveReferences::new(kept.clone()))
                .shape(Arc::new(OffloadOutput::new(kept.clone())));
        }
        let journals = Some(store.clone());
        let builder = builder.remote_tools(move |registry, requester| {
            let scripts = ScriptClient::new(requester.clone());
            let deps = ChainDeps { scripts, artifacts: kept, store: journals, policy };
            toolbus_chain::register(registry, deps)
        });
        let builder = set_up(add_tools(builder, &written, &waiting));
        let toolbus = builder.open().await.expect("it opens");
        Some(Self { toolbus, artifacts, store, written, waiting, place, _folder: folder })
    }

    /// How many pins there are of artifacts.
    pub(crate) async fn pins(&self) -> i64 {
        let store = self.store.open().await.expect("a store");
        let pins = sqlx::query_scalar("SELECT COUNT(*) FROM artifacts_pins");
        pins.fetch_one(store.readers()).await.expect("a number")
    }

    /// A scope in this session, whose own results are given as they are.
    pub(crate) fn scope(&self, session: &str) -> Arc<Scope> {
        let name = self.toolbus.name().clone();
        let scope = Scope::new(Door::Embedded, Principal::claimed("model"), name);
        Arc::new(scope.with_session(Some(SessionId::parse(session).expect("a session"))))
    }

    /// Runs a program that fails or does not.
    pub(crate) async fn run(&self, code: &str) -> Ran {
        self.run_with(json!({"code": code})).await
    }

    pub(crate) async fn run_with(&self, arguments: Value) -> Ran {
        let output = self.call(arguments).await.expect("it has a result");
        let result = output.structured.expect("a value");
        Ran {
            text: output.content.expect("a text"),
            result: serde_json::from_str(result.text()).expect("JSON"),
            is_error: output.is_error,
        }
    }

    pub(crate) async fn call(&self, arguments: Value) -> Outcome {
        let outcome = self.toolbus.call(&self.scope("session/a"), "tool_chain", arguments).await;
        self.place.settle().await;
        outcome
    }

    /// Runs a program that ends well, and gives what it printed and returned.
    pub(crate) async fn output(&self, code: &str) -> String {
        let ran = self.run(code).await;
        assert!(!ran.is_error, "{}", ran.text);
        ran.result["output_text"].as_str().expect("a text").trim_end().to_owned()
    }
}

impl Ran {
    pub(crate) fn statuses(&self) -> Vec<&str> {
        let trace = self.result["call_trace"].as_array().expect("a trace");
        trace.iter().map(|record| record["status"].as_str().expect("a status")).collect()
    }
}

fn add_tools(
    builder: ToolbusBuilder,
    written: &Arc<Mutex<Vec<Value>>>,
    waiting: &Arc<Mutex<usize>>,
) -> ToolbusBuilder {
    let any = json!({"type": "object"});
    let named = |name: &str| Tool::new(name, "A tool.", "test").with_parameters(any.clone());
    let offer = |tool: Tool, work: fn(Invocation) -> Outcome| {
        toolbus::tools::registry::Offer::new(tool, move |call| std::future::ready(work(call)))
    };
    let write = {
        let written = Arc::clone(written);
        move |call: Invocation| {
            let mut written = written.lock();
            written.push(Value::Object(call.arguments));
            std::future::ready(Ok(Output::text(format!("written {}", written.len()))))
        }
    };
    let wait = {
        let waiting = Arc::clone(waiting);
        move |_: Invocation| {
            let waiting = Arc::clone(&waiting);
            async move {
                *waiting.lock() += 1;
                let _end = End(waiting);
                std::future::pending::<Outcome>().await
            }
        }
    };

    builder
        .tool(offer(named("echo").read_only(), |call| {
            let arguments = Value::Object(call.arguments);
            let text = arguments["text"].as_str().unwrap_or_default().to_owned();
            let structured = Some(toolbus_wire::json::RawJson::of(&arguments));
            Ok(Output { structured, ..Output::text(text) })
        }))
        .tool(offer(named("create-pull-request").read_only(), |_| Ok(Output::text("created"))))
        .tool(offer(named("large").read_only(), |call| {
            let length = call.arguments.get("length").and_then(Value::as_u64).unwrap_or(10_000);
            Ok(Output::text("x".repeat(usize::try_from(length).unwrap_or(0))))
        }))
        .tool(offer(named("picture").read_only(), |_| {
            let data = Some("AAECAw==".to_owned());
            let mime_type = Some("image/png".to_owned());
            let (text, uri) = (None, None);
            let picture = ContentBlock { kind: ContentKind::Image, text, data, mime_type, uri };
            Ok(Output { blocks: vec![picture], ..Output::default() })
        }))
        .tool(offer(named("fail").read_only(), |_| Ok(Output::error("it did not work"))))
        .tool(offer(named("crash").read_only(), |_| Err(CallError::execution_failed("it broke"))))
        .tool(toolbus::tools::registry::Offer::new(named("write"), write))
        .tool(toolbus::tools::registry::Offer::new(
            named("wait").read_only().with_timeout(Duration::from_secs(600)),
            wait,
        ))
}

/// Counts a call as ended.
struct End(Arc<Mutex<usize>>);

impl Drop for End {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
    }
}
