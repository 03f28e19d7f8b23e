//! Wisps: short-lived pipelines of steps that a model has run in one call.
//!
//! The tool `spawn_wisps` takes definitions of wisps. The whole graph is checked before anything
//! runs, and all mistakes are told at once. Then the wisps run in parallel and the steps of each in
//! order; what a step gives, later ones use by templates.
//!
//! - A step calls tools through the invoker alone, in a scope of [`Door::Chain`] below the call's:
//!   every gate holds, and a wisp has at most the rights of its caller. Rules for chains are rules
//!   for wisps. The `tools` of a definition narrow what its steps see.
//! - The ids of batch, wisps and calls follow from the id of the call, and what was done is in
//!   working memory: a call that comes again gives its first result, and runs no step twice.
//! - Results of steps never become code or templates: what is filled in is not read again.
//!
//! # How it is wired
//!
//! The store knows the migrations of `toolbus-memory`. A host makes a
//! [`WorkingMemory`](toolbus_memory::WorkingMemory) of it and calls [`register`] with
//! [`WispsDeps`]; it adds [`guide`] to its guides. When it ends it closes
//! [`WispsDeps::tasks`] and waits for it, before the bus and the store.
//!
//! The ports: [`Complete`] asks a `Model` of `toolbus-models` once, without tools, with
//! `TokenUsage::of_request` as what it took. [`AwaitAgent`] knows ends of tasks by their ids: the
//! host's `OnTask` of `toolbus-a2a` gives an end to whoever waits for it and answers
//! `Told::Taken`, and keeps ends for some seconds that nobody waits for yet, since a fast agent
//! answers before the step comes to wait; what is said of a task in between goes nowhere.
//! [`AwaitAgent::cancel`] is `Tasks::cancel`. [`McpReady`] waits for the directory of
//! `toolbus-mcp-agent` to know the servers. The web tools `web_search` and `web_browse` are called
//! by these names, whoever registers them.
//!
//! [`Door::Chain`]: toolbus_tools::Door::Chain

mod agent_task;
mod batch;
mod breaker;
mod check;
mod config;
mod definition;
mod error;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gateway;
mod ids;
mod kept;
mod lenient;
mod measure;
pub mod metrics;
mod mistake;
mod ports;
mod prompt;
mod report;
mod runner;
mod template;
mod texts;
mod tool;
mod under_way;
mod whole;

pub use config::WispsConfig;
pub use ports::{
    AgentEnd, AwaitAgent, Complete, CompleteError, CompletionRequest, CompletionText, McpReady,
};
pub use tool::{NAME, WispsDeps, guide, register};
