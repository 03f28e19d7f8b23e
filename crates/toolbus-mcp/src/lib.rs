//! MCP servers behind the bus: configuration, connections, catalogue, and the bridge's end of the
//! bus hop.
//!
//! [`config`] reads an `mcp.json`, [`server_pool::ServerPool`] keeps its servers connected and
//! calls their tools. Nothing outside this crate sees the library that speaks the protocol.

mod auth;
pub mod bridge;
mod call;
mod call_result;
mod catalogue;
mod change_pace;
mod claims;
pub mod config;
mod connection;
pub mod doctor;
mod eraser;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http;
mod lookup;
mod method;
pub mod metrics;
mod offer;
mod ownership;
mod record;
mod registration_rules;
mod registrations;
mod reload;
mod server;
mod server_credentials;
mod server_file;
pub mod server_pool;
pub mod settings;
mod small_file;
mod summary;
pub mod supervisor;
mod tool_filter;
mod transport;
pub mod trust;
mod written_definition;

pub use auth::login;
pub use call::{Call, CallError, Caller, Naming};
pub use call_result::{BLOCKS_MAX, CallResult, LeftOut, RESULT_BYTES_MAX};
pub use catalogue::{CATALOGUE_BYTES_MAX, PAGES_MAX, TOOL_NAME_BYTES_MAX, TOOLS_MAX};
pub use failure::Failure;
pub use http::{HttpClients, PrivateAddress};
pub use lookup::Lookup;
pub use method::Method;
pub use registration_rules::{
    AddressRegistration, PrivateAddresses, RegistrationRules, StdioRegistration,
};
pub use server::{ServerState, StartProgress, StartStep};
pub use server_credentials::ServerCredentials;
pub use server_file::{ServerFile, ServerFileError};
pub use tool_filter::ToolFilter;
pub use toolbus_mcp_agent::ServerName;
use toolbus_mcp_agent::{direct_name, nearest, server_name};
pub use transport::MESSAGE_BYTES_MAX;

/// The servers of a pool and the state of each, as JSON for people.
#[must_use]
pub fn status(pool: &server_pool::ServerPool) -> serde_json::Value {
    let servers = pool.list().into_iter().map(|status| {
        let state = match &status.state {
            ServerState::Configured => "configured",
            ServerState::Starting(_) => "starting",
            ServerState::Connected { .. } => "connected",
            ServerState::Failed { .. } => "failed",
            ServerState::Standby => "standby",
            ServerState::Disabled => "disabled",
            ServerState::Stopped => "stopped",
        };
        let retry = retry_status(&status.state);
        let (reason, start) = match status.state {
            ServerState::Failed { failure, .. } => (Some(failure.to_string()), None),
            ServerState::Starting(progress) => (None, Some(start_status(progress))),
            _ => (None, None),
        };

        serde_json::json!({
            "name": status.name.as_str(),
            "state": state,
            "reason": reason,
            "start": start,
            "retry": retry,
            "notices": status.notices,
            "tools": status.summary.map_or(0, |summary| summary.tool_count),
        })
    });

    serde_json::json!({"servers": servers.collect::<Vec<_>>()})
}

/// When a server that is away is tried again, and whether calls are refused until then.
fn retry_status(state: &ServerState) -> Option<serde_json::Value> {
    let ServerState::Failed { attempts, next_try_in, is_circuit_open, .. } = state else {
        return None;
    };
    Some(serde_json::json!({
        "failed_attempts": attempts,
        "in_s": next_try_in.as_millis().div_ceil(1_000),
        "circuit": if *is_circuit_open { "open" } else { "closed" },
    }))
}

fn start_status(progress: StartProgress) -> serde_json::Value {
    serde_json::json!({
        "step": progress.step.name(),
        "elapsed_s": progress.elapsed.as_secs(),
        "limit_s": progress.limit.as_secs(),
        "last_words": progress.last_words,
    })
}
