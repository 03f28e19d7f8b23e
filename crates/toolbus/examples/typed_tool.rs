//! Tools from Rust functions, offered to an agent and called.
//!
//! `cargo run -p toolbus --example typed_tool`

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolbus::{Budget, Outcome, Principal, Toolbus, tool};

/// The comments of members are what a model reads of them.
#[derive(Deserialize, JsonSchema)]
struct Add {
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CountWords {
    /// The text whose words are counted.
    text: String,
}

/// A result with members is the tool's structured output, and its schema is the output schema.
#[derive(Serialize, JsonSchema)]
struct WordCounts {
    total: usize,
    by_word: BTreeMap<String, usize>,
}

#[derive(Deserialize, JsonSchema)]
struct ReadNumber {
    /// A whole number, as text.
    text: String,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let add = tool("add", "Adds two numbers.", |args: Add, _| async move {
        Ok(args.a.saturating_add(args.b))
    });
    let count_words =
        tool("count_words", "Counts words.", |args: CountWords, context| async move {
            context.report("counting");
            Ok(count(&args.text))
        });
    // Any error goes on with `?`, and its text is what the caller is told.
    let read_number = tool("read_number", "Reads a number.", |args: ReadNumber, _| async move {
        Ok(args.text.trim().parse::<i64>()?)
    });

    let toolbus = Toolbus::builder()
        .tool(add.read_only())
        .tool(count_words.read_only().title("Count words"))
        .tool(read_number.read_only())
        .open()
        .await?;

    for entry in toolbus.tools().tools() {
        println!("{}: {} {}", entry.tool.name, entry.tool.description, entry.tool.parameters);
    }

    // This program calls for itself,
    let scope = toolbus.local_scope();
    show(toolbus.call(&scope, "add", json!({"a": 1, "b": 2})).await);
    show(toolbus.call(&scope, "count_words", json!({"text": "to be or not to be"})).await);
    show(toolbus.call(&scope, "add", json!({"a": "one", "b": 2})).await);
    show(toolbus.call(&scope, "read_number", json!({"text": "forty-two"})).await);

    // and for somebody who may make one call.
    let scope = toolbus.scope(Principal::claimed("alice")).with_budget(Budget::calls(1));
    let scope = Arc::new(scope);
    show(toolbus.call(&scope, "add", json!({"a": 20, "b": 22})).await);
    show(toolbus.call(&scope, "add", json!({"a": 20, "b": 22})).await);

    toolbus.close().await;
    Ok(())
}

fn count(text: &str) -> WordCounts {
    let mut by_word = BTreeMap::new();
    for word in text.split_whitespace() {
        *by_word.entry(word.to_lowercase()).or_default() += 1;
    }
    WordCounts { total: text.split_whitespace().count(), by_word }
}

fn show(outcome: Outcome) {
    match outcome {
        Ok(output) => println!("-> {}", output.content.unwrap_or_default()),
        Err(error) => println!("-> {}: {error}", error.code),
    }
}
