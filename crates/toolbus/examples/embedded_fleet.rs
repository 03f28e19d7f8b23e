//! The whole fleet in one process: MCP servers, sandboxed scripts, and a tool of its own.
//!
//! `cargo run -p toolbus --features mcp,sandbox --example embedded_fleet [MCP.JSON]`
//!
//! Without a file it starts a small server of its own, which takes `python3` and no network.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example shows what it does")]

use std::env;
use std::error::Error;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus::mcp::supervisor::{self, Supervisor};
use toolbus::sandbox::{Config, Sandbox};
use toolbus::scripts::Unavailable;
use toolbus::{McpServers, NoArguments, Outcome, Scripts, Toolbus, tool};

/// How long servers may take to come up.
const SERVERS_TIMEOUT: Duration = Duration::from_secs(20);
/// An MCP server with one tool, `shout`.
const SHOUT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/shout.py");

fn main() -> ExitCode {
    // First of all: this process may be the supervisor of an MCP server, and nothing else.
    let supervisor = match supervisor::enter() {
        ControlFlow::Continue(supervisor) => supervisor,
        ControlFlow::Break(exit) => return exit,
    };
    match run(supervisor) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(supervisor: Supervisor) -> Result<(), Box<dyn Error>> {
    let servers = match env::args_os().nth(1) {
        Some(file) => McpServers::file(file),
        None => McpServers::json(own_server().to_string()),
    };
    let who_am_i = tool("who_am_i", "Tells who calls.", |_: NoArguments, context| async move {
        Ok(context.scope().principal.name.to_string())
    });

    let toolbus = Toolbus::builder()
        .name("example")
        .mcp(servers.supervisor(supervisor))
        .direct_tools()
        .scripts(scripts().await)
        .tool(who_am_i.read_only())
        .open()
        .await?;

    if !toolbus.wait_for_servers(SERVERS_TIMEOUT).await {
        println!("some servers are slow; they are announced when they come");
    }
    for entry in toolbus.tools().tools() {
        println!("{}", entry.tool.name);
    }

    let scope = toolbus.local_scope();
    show(toolbus.call(&scope, "who_am_i", json!({})).await);
    show(toolbus.call(&scope, "own__shout", json!({"text": "hello"})).await);
    let script = json!({"script": "print(6 * 7)"});
    show(toolbus.call(&scope, "execute_python_script", script).await);

    toolbus.close().await;
    show(toolbus.call(&scope, "who_am_i", json!({})).await);
    Ok(())
}

/// An `mcp.json` as text.
fn own_server() -> Value {
    json!({"mcpServers": {"own": {"command": "python3", "args": ["-I", SHOUT]}}})
}

/// The sandbox, where it works. Where it does not, there is no weaker one: callers are told why.
async fn scripts() -> Scripts {
    match Sandbox::probe(Config::default()).await {
        Ok(sandbox) => Scripts::local(Arc::new(sandbox)),
        Err(why) => Scripts::local(Arc::new(Unavailable(why.to_string()))),
    }
}

fn show(outcome: Outcome) {
    match outcome {
        Ok(output) => println!("-> {}", output.content.unwrap_or_default().trim_end()),
        Err(error) => println!("-> {}: {error}", error.code),
    }
}
