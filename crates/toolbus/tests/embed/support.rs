//! What the tests share.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolbus::bus::responder::CallKey;
use toolbus::sandbox::Unavailable;
use toolbus::tools::bus::Remote;
use toolbus::{MemoryBus, NoArguments, Outcome, Tool, Toolbus, TypedTool, tool, wire};

/// How long anything may take that ends sooner on an idle machine. No test waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Add {
    pub(crate) a: i64,
    pub(crate) b: i64,
}

/// A tool that adds, of this name.
pub(crate) fn adding(name: &str) -> TypedTool {
    tool(name, "Adds two numbers.", |args: Add, _| async move { Ok(args.a + args.b) })
}

/// Calls a tool in a scope of this program.
pub(crate) async fn call(toolbus: &Toolbus, tool: &str, arguments: Value) -> Outcome {
    toolbus.call(&toolbus.local_scope(), tool, arguments).await
}

/// One and two, added by the tool of this name.
pub(crate) async fn sum(toolbus: &Toolbus, tool: &str) -> Outcome {
    call(toolbus, tool, json!({"a": 1, "b": 2})).await
}

/// The text of an outcome that is one.
pub(crate) fn text(outcome: Outcome) -> String {
    outcome.unwrap().content.unwrap_or_default()
}

/// The names of the tools that there are.
pub(crate) fn names(toolbus: &Toolbus) -> Vec<String> {
    toolbus.tools().tools().iter().map(|entry| entry.tool.name.clone()).collect()
}

/// Says that there is no sandbox to try scripts in, and fails the test where that is not allowed.
pub(crate) fn without_sandbox(why: &Unavailable) {
    let is_required = std::env::var("TOOLBUS_REQUIRE_REAL").as_deref() == Ok("1");
    assert!(!is_required, "no sandbox: {why} (TOOLBUS_REQUIRE_REAL=1 forbids skipping)");
    // Past the test harness, which hides what a passing test prints.
    let _ = writeln!(std::io::stderr(), "skipped: no sandbox: {why}");
}

/// A small MCP server with one tool, `shout`.
const SHOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shout.py");

/// An `mcp.json` with the small server as `own`, in processes that have this among their arguments.
pub(crate) fn own_server(mark: &str) -> String {
    let entry = json!({"command": "python3", "args": ["-I", SHOUT, mark]});
    json!({"mcpServers": {"own": entry}}).to_string()
}

/// How many processes have this among their arguments.
pub(crate) fn processes_with(mark: &str) -> usize {
    let has_mark = |process: &Path| {
        std::fs::read(process.join("cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == mark))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.filter(|process| has_mark(&process.path())).count()
}

/// A word that no other test has among its arguments.
pub(crate) fn mark() -> String {
    format!("mark-{:?}", CallKey::unique()).replace(['(', ')'], "")
}

/// An agent elsewhere on the bus, which has a tool of another agent as its own.
pub(crate) async fn caller_of(bus: &MemoryBus, agent: &Toolbus, tool: &str) -> Toolbus {
    let caller = Toolbus::builder().name("elsewhere").bus(Arc::new(bus.connect()));
    let caller = caller.open().await.unwrap();

    let topic = wire::topic::tool_invoke_agent(agent.name());
    let remote = Remote::new(caller.agent().requester().clone(), topic);
    let tool = Tool::new(tool, "", "remote").with_parameters(json!({"type": "object"}));
    caller.invoker().registry().register(tool, remote).unwrap();
    caller
}

/// A tool `work` that waits for its end, and what of it can be seen and done from outside. Clones
/// are of the same tool.
#[derive(Clone, Default)]
pub(crate) struct Work {
    /// Fires when a call runs.
    pub(crate) started: Arc<Notify>,
    /// Lets a call end.
    pub(crate) go: Arc<Notify>,
    /// A call has ended.
    pub(crate) is_done: Arc<AtomicBool>,
}

impl Work {
    pub(crate) fn tool(&self) -> TypedTool {
        let work = self.clone();
        tool("work", "Works.", move |_: NoArguments, _| {
            let work = work.clone();
            async move {
                work.started.notify_one();
                work.go.notified().await;
                work.is_done.store(true, Ordering::Release);
                Ok("done")
            }
        })
    }

    /// Lets a call end that has had this much time.
    pub(crate) async fn end_after(&self, time: Duration) {
        // sleeps: the clock of its callers is paused.
        tokio::time::sleep(time).await;
        self.go.notify_one();
    }

    pub(crate) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }
}
