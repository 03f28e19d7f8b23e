//! What the tests share.

use std::io::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use toolbus::sandbox::Unavailable;
use toolbus::{Outcome, Toolbus, TypedTool, tool};

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
