//! `spawn_wisps`, as models call it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::task::TaskTracker;
use toolbus_artifacts::Artifacts;
use toolbus_memory::{MemoryOwner, WorkingMemory};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Executor, Guide, Subject, Tool};

use crate::WispsConfig;
use crate::batch::Batch;
use crate::breaker::Breaker;
use crate::check::{CheckContext, Rejected, check};
use crate::definition::Wisp;
use crate::ids::BatchId;
use crate::lenient;
use crate::metrics::WispMetrics;
use crate::ports::{AwaitAgent, Complete, McpReady};
use crate::under_way::UnderWay;

/// Name of the tool.
pub const NAME: &str = "spawn_wisps";
const SOURCE: &str = "wisp";
/// What is said of a missing argument.
const MISSING_ARGUMENT: &str = "Missing required argument: {}";
/// How much longer than the wisps a caller waits for the result.
const WAIT_BESIDE_TIMEOUT: Duration = Duration::from_secs(10);

/// What the tool is made with.
#[derive(Clone)]
pub struct WispsDeps {
    /// Keeps what steps give.
    pub memory: WorkingMemory,
    /// Keeps results that are large, where there are such: those of a call are let go at its end.
    pub artifacts: Option<Artifacts>,
    /// Answers `Llm` steps. `None`: definitions with one are refused.
    pub complete: Option<Arc<dyn Complete>>,
    /// Waits for other agents. `None`: definitions with the gateway `A2A` are refused.
    pub agents: Option<Arc<dyn AwaitAgent>>,
    /// Knows when MCP servers are there. `None`: nobody waits for them.
    pub mcp: Option<Arc<dyn McpReady>>,
    /// Runs what goes on after a call: giving up tasks of agents, letting artifacts go. Whoever
    /// ends the process closes it and waits for it.
    pub tasks: TaskTracker,
    /// What a call may ask for.
    pub config: Arc<WispsConfig>,
}

struct SpawnWisps {
    deps: WispsDeps,
    breaker: Breaker,
    metrics: WispMetrics,
    under_way: UnderWay,
}

/// Registers `spawn_wisps`.
///
/// # Errors
/// When its name is taken.
pub fn register(registry: &Registry, deps: WispsDeps) -> Result<(), registry::Error> {
    let definition = definition(&deps.config);
    let breaker = Breaker::new(&deps.config);
    let (metrics, under_way) = (WispMetrics::new(), UnderWay::default());
    let tool = SpawnWisps { deps, breaker, metrics, under_way };
    registry.register(definition, tool)
}

/// The guide to the tool.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Run pipelines of steps in one call: tools, scripts, the web, agents, a model"
            .to_owned(),
        document: include_str!("guides/wisp.md").to_owned(),
    }
}

fn definition(config: &WispsConfig) -> Tool {
    let description = format!(
        "Runs wisps: short pipelines whose steps call tools, scripts, the web, other agents or a \
         model, one after the other, without you in between. All wisps of a call run in parallel \
         (at most {} wisps, {} steps each), and the result comes when the last has ended. Nothing \
         runs where a definition has a mistake.",
        config.wisps_max, config.steps_max
    );
    let tool = Tool::new(NAME, description, SOURCE)
        .in_group(SOURCE)
        // Each of its calls is gated by itself.
        .with_risk(Risk::Low)
        .with_timeout(config.timeout + WAIT_BESIDE_TIMEOUT)
        .with_missing_argument(MISSING_ARGUMENT);

    tool.with_parameters(json!({
        "type": "object",
        "properties": {
            "definitions": {
                "type": "array",
                "description": "The wisps",
                "items": {
                    "type": "object",
                    "properties": {
                        "description": {"type": "string", "description": "What the wisp is for"},
                        "tools": {
                            "type": "array",
                            "items": {"type": "string"},
                            "description": "The only tools that its steps may use, such as \
                                            web_search or SERVER/TOOL; all that you may by default",
                        },
                        "steps": {
                            "type": "array",
                            "items": step_parameters(),
                            "description": "What it does, in this order",
                        },
                    },
                    "required": ["description", "steps"],
                },
            },
        },
        "required": ["definitions"],
    }))
}

fn step_parameters() -> Value {
    let described = |text: &str| json!({"type": "string", "description": text});

    json!({
        "type": "object",
        "properties": {
            "id": described("A short name, unique in the wisp"),
            "mode": described("Direct: a call of a tool; Llm: a question to a model"),
            "gateway": described("Of a Direct step: Mcp, A2A, Script or Web"),
            "server": described("Mcp: the server"),
            "tool": described("Mcp: the server's tool; Web: web_search or web_browse"),
            "language": described("Script: python"),
            "params": {
                "type": "object",
                "description": "The tool's arguments; of a Script {\"script\": \"…\"}. Texts in it \
                                may have {{steps.ID.result}} or {{steps.ID.result.a.b}}",
            },
            "prompt": described("Llm: what the model is to do; it is told all earlier results"),
            "agent": described("A2A: the agent"),
            "skill": described("A2A: the id of its skill"),
            "message": described("A2A: what it is to do"),
            "timeout_minutes": {"type": "number", "description": "How long the step may take"},
            "input_from": described("The id of an earlier step whose result is this one's input"),
            "output_to": described("A key of working memory that the output is put under, too"),
            "on_failure": {
                "type": "object",
                "properties": {
                    "action": described("abort (default) or skip_to"),
                    "skip_to": described("The id of a later step"),
                },
                "description": "What happens when the step fails",
            },
        },
        "required": ["id", "mode"],
    })
}

impl Executor for SpawnWisps {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let wisps = self.check(&call.arguments)?;
            let definitions = call.arguments.get("definitions").unwrap_or(&Value::Null);
            let id = BatchId::of(&call.scope, &call.id, definitions);

            let owner = MemoryOwner::of(&call.scope);
            let _begun = self.under_way.begin(&id, owner.as_str(), &self.deps.config)?;
            let Self { deps, breaker, metrics, .. } = self;
            Batch { deps, breaker, metrics, call: &call, id, wisps: &wisps }.run().await
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        lenient::coerce(arguments, &self.deps.config);
    }

    /// Says all that is wrong, before the schema says a part of it.
    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        if arguments.contains_key("definitions") {
            self.check(arguments)?;
        }
        Ok(None)
    }
}

impl SpawnWisps {
    fn check(&self, arguments: &Map<String, Value>) -> Result<Vec<Wisp>, Rejected> {
        let of = CheckContext {
            config: &self.deps.config,
            has_model: self.deps.complete.is_some(),
            has_agents: self.deps.agents.is_some(),
        };
        check(of, arguments.get("definitions").unwrap_or(&Value::Null))
    }
}
