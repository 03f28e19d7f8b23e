//! The same tool for whoever is on the broker.
#![allow(clippy::print_stdout, reason = "left out of the page")]

use std::error::Error;
use std::num::NonZeroU16;

use schemars::JsonSchema;
use serde::Deserialize;
use toolbus::{ToolFailure, Toolbus, tool};
use toolbus_rabbitmq::{Config, RabbitBus};

/// How many calls run at a time; more wait in the queue.
const CONCURRENCY: NonZeroU16 = NonZeroU16::new(8).expect("8 is not zero");

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
    let bus = RabbitBus::connect(Config::new(&std::env::var("TOOLBUS_BUS")?)?).await?;
    let toolbus = Toolbus::builder()
        .name("adder")
        .bus(bus)
        .tool(add.read_only())
        .serve_calls(CONCURRENCY)
        .open()
        .await?;

    println!("serving add");
    tokio::signal::ctrl_c().await?;
    toolbus.close().await;
    Ok(())
}
