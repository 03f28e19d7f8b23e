//! Agents that ask each other, over the bus and by the A2A protocol over HTTP.
//!
//! - [`Directory`] knows agents by what they say of themselves, and [`Presence`] hears and says it.
//! - [`Tasks`] sends tasks to other agents and cancels them; [`Caller`] hears what becomes of them,
//!   and tells it once, to the turn that waits or to the session's next one.
//! - [`Worker`] does the tasks that others send to this agent, and answers each once.
//! - [`HttpServer`] has the worker do the tasks of clients over HTTP, and [`HttpCaller`] asks
//!   agents there.
//! - [`register`] gives models the three tools.
//!
//! A task is a row before it is sent and before it is begun, and its end is a write on condition
//! that it has none. So what comes twice counts once, a task whose agent is silent ends with a
//! timeout that is told, and what a process that is killed leaves is taken up by another.
//!
//! # How it is wired
//!
//! The store knows [`MIGRATIONS`]. A host makes a [`Directory`] and a [`Tasks`] of it, registers
//! the tools with them, and adds [`guide`] to its guides. Once the bus is connected it starts a
//! [`Caller`], then a [`Worker`] (where [`A2aConfig::card`] is there), and last the [`Presence`],
//! which announces the agent. It closes them in the opposite order, before the bus and the store.
//!
//! The ports: [`OnTask`] puts [`TaskEvent::text`] into the turn of the session that waits, or says
//! it to the session under the id of the task (`Said { id }` of `toolbus-agent`, which takes an id
//! once); while another process has the session it says [`Told::Later`]. [`KeepResult`] saves the
//! text with `toolbus-memory`, by `Namespace::of_session(session).path_of(key)`. [`DoTask`] makes a
//! turn in a scope of `Door::Bus` with the principal `claimed:AGENT/a2a`, a session of its own for
//! each caller and context, at least the [`Task::depth`] plus one, and the id of the task as that
//! of what is said, so that a task that was interrupted goes on. Every few seconds
//! [`Directory::services`] goes to `KnownServices::replace`, beside the MCP servers.
//!
//! # How HTTP is wired
//!
//! *Settings* for a server: an address to listen on, `tokens`, `allowed_hosts` and
//! `allowed_origins` as those of `http.*` ([`HttpServerConfig::api`]; what is wrong with them is
//! told by `toolbus_runtime::http::visitors`), and the URL that others reach it by
//! ([`HttpServerConfig::public_url`]), which its card says. For the agents that are asked: a list
//! of name, card URL, an optional header with a value or the name of a credential of the vault
//! (its provider is `a2a:NAME`), and whether it is internal ([`HttpAgent`]). Neither side needs the
//! other.
//!
//! *Starting*: [`HttpCaller::start`] before the [`Caller`], so that no task for such an agent goes
//! to the bus; [`HttpServer::new`] once there is a [`Worker`], by its [`Worker::intake`]. The
//! [`HttpServer::router`] is served alone or merged with the one of `toolbus-http`: its paths are
//! [`RPC_PATH`] and `/.well-known/agent-card.json`. Its server may have
//! [`HttpServerConfig::connections_max`] connections, and has limits of its own for headers. It
//! puts the address of its client into the extensions of each request, as a `SocketAddr`, or the
//! names of this machine are refused.
//!
//! *Work*: a [`Task`] of a client over HTTP has a [`Task::client`], which is the principal of its
//! scope, in place of `claimed:AGENT/a2a`; its [`Task::caller`] is no name of an agent, and is
//! escaped or hashed where one is needed. The id in its request differs for an answer to
//! [`TaskEnd::InputRequired`], so it is what is said under; [`AgentTaskRequest::skill`] is empty
//! where the client names none and the card has not just one.
//!
//! *Closing*: the presence, then [`HttpServer::drain`] and its server, the worker,
//! [`HttpCaller::close`], and the caller, which tells what that has found; then the bus and the
//! store.
//!
//! [`AgentTaskRequest::skill`]: toolbus_wire::message::a2a::AgentTaskRequest::skill

mod answers;
mod asked;
mod caller;
mod config;
mod directory;
mod error;
mod event;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http_caller;
mod http_rows;
mod http_server;
mod intake;
pub mod metrics;
mod ports;
mod presence;
mod protocol;
mod publish;
mod received;
mod tables;
mod task_lineage;
mod tasks;
mod texts;
mod tools;
mod worker;

pub use caller::Caller;
pub use config::{A2aConfig, bus_bytes_max};
pub use directory::{CARD_BYTES_MAX, CardError, Directory, KnownAgent, SKILLS_MAX, service_of};
pub use error::Error;
pub use event::{RESULT_BYTES_MAX, TaskChange, TaskEvent};
pub use http_caller::{
    AgentHeader, AgentHeaderValue, HttpAgent, HttpAgentError, HttpCaller, HttpCallerDeps,
};
pub use http_server::{ApiSettings, HTTP_BODY_BYTES_MAX, HttpServer, HttpServerConfig, RPC_PATH};
pub use intake::TaskIntake;
pub use ports::{DoTask, KeepResult, OnTask, ResultText, Task, TaskEnd, TaskProgress, Told};
pub use presence::{Presence, PresenceDeps};
pub use tables::MIGRATIONS;
pub use task_lineage::TaskLineage;
pub use tasks::{
    CancelAsked, Dispatched, MESSAGE_BYTES_MAX, NewTask, SKILL_BYTES_MAX, Tasks, TasksDeps,
};
pub use tools::{A2aDeps, guide, register};
pub use worker::{REQUEST_BYTES_MAX, Worker, WorkerDeps};
