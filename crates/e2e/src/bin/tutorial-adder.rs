//! A tool of one's own, called by this program.
#![allow(clippy::print_stdout, reason = "left out of the page")]

use std::error::Error;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolbus::{ToolFailure, Toolbus, tool};

/// The comments of members are what a model reads of them.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let add = tool("add", "Adds two numbers.", |args: Add, _| async move {
        args.a.checked_add(args.b).ok_or_else(|| ToolFailure::new("the sum is too large"))
    });
    let toolbus = Toolbus::builder().tool(add.read_only()).open().await?;

    let scope = toolbus.local_scope();
    for arguments in [json!({"a": 1, "b": 2}), json!({"a": i64::MAX, "b": 1}), json!({"a": 1})] {
        match toolbus.call(&scope, "add", arguments).await {
            Ok(output) => println!("{}", output.content.unwrap_or_default()),
            Err(error) => println!("{}: {error}", error.code),
        }
    }
    toolbus.close().await;
    Ok(())
}
