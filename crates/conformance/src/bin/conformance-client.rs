//! `conformance-client URL`: does with the bridge's own client what a client scenario of the
//! official conformance suite wants of it. For tests only.
//!
//! The suite starts it with the address of its server as the last argument. Whatever the scenario,
//! a bridge does the same: it connects, lists the tools and calls what it is asked to call. Here
//! those are the calls that the suite names in `MCP_CONFORMANCE_CONTEXT`, else each tool once, with
//! arguments that fit its schema. It fails when it cannot connect; how calls end is printed, and
//! judged by the suite, which sees the requests.

#![allow(clippy::print_stderr, reason = "a tool of the terminal")]

use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolbus_bus::Deadline;
use toolbus_mcp::config::{Entry, Variables};
use toolbus_mcp::servers::{Options, Set};
use toolbus_mcp::{Call, State};
use toolbus_wire::message::mcp::McpToolDetails;

const SERVER: &str = "conformance";
/// How long a call may take. The suite gives the whole scenario half a minute.
const CALL_LIMIT: Duration = Duration::from_secs(8);
/// Most tools that are called.
const CALLS_MAX: usize = 32;

/// What the suite tells besides the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Wishes {
    tool_calls: Vec<ToolCall>,
}

#[derive(Debug, Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().next_back().context("usage: conformance-client URL")?;
    let wishes: Wishes = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("MCP_CONFORMANCE_CONTEXT")?,
        Err(_) => Wishes::default(),
    };
    let Value::Object(members) = json!({"type": "http", "url": url}) else { unreachable!() };
    let entry = Entry::parse(SERVER, members, Variables::Refused)
        .map_err(|mistakes| anyhow!("the entry cannot be used: {mistakes:?}"))?;
    let set = Set::start(vec![entry], Options::new(std::env::vars_os()))?;
    set.settled().await;
    let worked = work(&set, wishes).await;
    set.close(Duration::ZERO).await;
    worked
}

async fn work(set: &Set, wishes: Wishes) -> anyhow::Result<()> {
    let status = set.find(SERVER).context("the server is gone")?;
    if let State::Failed { failure, .. } = status.state {
        bail!("not connected: {failure}");
    }
    let details = set.details(SERVER).context("the server has listed nothing")?;
    let calls = match wishes.tool_calls {
        calls if calls.is_empty() => one_of_each(details.tools),
        calls => calls,
    };
    for ToolCall { name, arguments } in calls {
        let deadline = Deadline::after(CALL_LIMIT);
        match set.call(Call::new(Some(SERVER), name.clone(), arguments, deadline)).await {
            Ok(result) => eprintln!("{name}: {:?}", result.text),
            Err(error) => eprintln!("{name}: {}: {error}", error.code()),
        }
    }
    Ok(())
}

/// A call of each tool. One that wants a schema gets that of the first tool: a scenario compares it
/// with what its server has listed.
fn one_of_each(tools: Vec<McpToolDetails>) -> Vec<ToolCall> {
    let schema = |tool: &McpToolDetails| -> Value {
        let text = tool.parameters_schema.as_deref().unwrap_or("{}");
        serde_json::from_str(text).unwrap_or_default()
    };
    let first = tools.first().map(schema);
    let calls = tools.into_iter().map(|tool| {
        let mut arguments = fitting(&schema(&tool));
        if let (Some(wanted), Some(first)) = (arguments.get_mut("schema"), &first) {
            *wanted = first.clone();
        }
        ToolCall { name: tool.name, arguments }
    });
    calls.take(CALLS_MAX).collect()
}

/// Arguments that a schema takes: a value for each that it requires.
fn fitting(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), value(&schema["properties"][name]))).collect()
}

fn value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => Value::Object(fitting(schema)),
        _ => json!("text"),
    }
}
