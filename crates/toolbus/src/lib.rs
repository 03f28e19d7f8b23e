//! Embeds an agent of the fleet in a program of your own, and as much of the fleet as you like.
//!
//! [`Toolbus::builder`] says what there is: a bus (in memory, or a broker's), tools from Rust
//! functions ([`tool`]), MCP servers, scripts, a policy. [`open`](ToolbusBuilder::open) starts it,
//! [`call`](Toolbus::call) calls a tool, and [`close`](Toolbus::close) ends everything that was
//! started. Every call goes the one way: the invoker's gates, the tool, exactly one outcome.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//! use toolbus::{Toolbus, tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Add {
//!     a: i64,
//!     b: i64,
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let add = tool("add", "Adds two numbers.", |args: Add, _| async move { Ok(args.a + args.b) });
//! let toolbus = Toolbus::builder().tool(add.read_only()).open().await?;
//!
//! let outcome = toolbus.call(&toolbus.local_scope(), "add", json!({"a": 1, "b": 2})).await;
//! assert_eq!(outcome?.content.as_deref(), Some("3"));
//!
//! toolbus.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! Whoever calls for somebody else makes a scope that says so, and bounds it:
//!
//! ```
//! # async fn example(toolbus: toolbus::Toolbus) -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use toolbus::{Budget, Principal, SessionId};
//!
//! let scope = toolbus
//!     .scope(Principal::claimed("alice"))
//!     .with_session(Some(SessionId::parse("session/abc")?))
//!     .with_budget(Budget::calls(50));
//! let outcome = toolbus.call(&Arc::new(scope), "add", serde_json::json!({"a": 1, "b": 2})).await;
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! None is on by default, so that what builds is an agent on a bus, on any platform that tokio
//! knows, without programs to start and without an HTTP client.
//!
//! - `mcp`: MCP servers in this process (`ToolbusBuilder::mcp`). Linux only.
//! - `sandbox`: the local sandbox for Python scripts, as `toolbus::sandbox`. Linux only, with
//!   bubblewrap. Any other [`Runner`](scripts::Runner) works without it.
//!
//! RabbitMQ needs no feature: connect with `toolbus-rabbitmq` and give the bus to
//! [`ToolbusBuilder::bus`].
//!
//! What no feature brings: a global allocator, a subscriber for logs, an exporter of telemetry, a
//! parser of command lines. Spans go to `tracing`, metrics to OpenTelemetry's global meter; a
//! program that exports them sets both up before it opens anything.
//!
//! # What belongs to its interface
//!
//! Types of other crates appear where wrapping them would only hide them, and are re-exported at
//! the version that fits. Ours: [`bus`], [`tools`], [`policy`], [`wire`], [`scripts`],
//! [`mcp_agent`], and with their features `mcp` and `sandbox`. They have this crate's version, and
//! change with it. Others': `Value` of [`serde_json`] 1, the traits of `serde` 1 and [`schemars`]
//! 1, and `CancellationToken` of `tokio-util` 0.7 in a scope and a call. A setting is added by a
//! new function of the builder.
//!
//! This crate's own error types are `#[non_exhaustive]`. Structs with public members that it
//! re-exports, such as [`Call`], [`Scope`], [`Tool`], [`Output`] and [`CallError`], may be given
//! more members in a minor version: make them with their functions (`new`, `with_…`), and match
//! them with
//! `..`.

/// The program in the workspace's README, which is compiled with the other examples.
#[cfg(all(doctest, feature = "mcp"))]
#[doc = include_str!("../../../README.md")]
struct Readme;

mod agent;
mod builder;
mod embedded;
mod error;
mod local_tools;
#[cfg(feature = "mcp")]
mod mcp_servers;
mod open_calls;
mod scripting;
mod tool_context;
mod tool_failure;
mod toolbus;
mod typed_tool;

pub use schemars;
pub use serde_json;
pub use toolbus_bus as bus;
#[cfg(feature = "mcp")]
pub use toolbus_mcp as mcp;
pub use toolbus_mcp_agent as mcp_agent;
pub use toolbus_policy as policy;
#[cfg(feature = "sandbox")]
pub use toolbus_sandbox as sandbox;
pub use toolbus_scripts as scripts;
pub use toolbus_tools as tools;
pub use toolbus_wire as wire;

pub use agent::Agent;
pub use builder::ToolbusBuilder;
pub use error::Error;
pub use local_tools::TOOL_NAME_BYTES_MAX;
#[cfg(feature = "mcp")]
pub use mcp_servers::{McpError, McpServers};
pub use scripting::Scripts;
pub use tool_context::ToolContext;
pub use tool_failure::{FAILURE_BYTES_MAX, ToolFailure};
pub use toolbus::{CLOSE_GRACE_DEFAULT, CLOSE_GRACE_MAX, Toolbus};
pub use toolbus_bus::responder::ParkedRequest;
pub use toolbus_bus::{Bus, CallContext, MemoryBus, Progress};
pub use toolbus_policy::{LivePolicy, PolicySettings, RuleBook};
pub use toolbus_tools::budget::BudgetLimits;
pub use toolbus_tools::call::{Arguments, Invocation};
pub use toolbus_tools::gate::{Gate, Passage, Verdict};
pub use toolbus_tools::grant::GrantPolicy;
pub use toolbus_tools::id::SessionId;
pub use toolbus_tools::invoker::Shape;
pub use toolbus_tools::observe::{
    ArgumentsDigest, CallEvent, CallEventKind, CallRecord, CallStatus, Observe,
};
pub use toolbus_tools::policy::{ApprovalDemand, ApprovalExtent, Decision, Policy, PolicyRequest};
pub use toolbus_tools::registry::Offer;
pub use toolbus_tools::tool::Risk;
pub use toolbus_tools::toolbox::SearchMark;
pub use toolbus_tools::{
    Annotations, Budget, Call, CallError, CallTime, CredentialSource, Credentials, Door, Executor,
    GrantCheck, GrantCheckKeys, GrantKey, GrantPublicKey, GrantSigner, GrantSigningKey, Guide,
    Invoker, Outcome, Output, Principal, ProviderSpecs, Registry, Scope, Subject, Tool, ToolKind,
    ToolSpec, Toolbox, View,
};
pub use toolbus_wire::name::{AgentName, InstanceId};
pub use toolbus_wire::{ErrorCode, Execution};
pub use typed_tool::{NoArguments, TypedTool, tool, tool_with_output};
