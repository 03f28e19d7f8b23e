//! The client half against real servers and against hostile ones, over its public interface only.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

#[path = "client/agents.rs"]
mod agents;
#[path = "client/asks.rs"]
mod asks;
#[path = "client/away.rs"]
mod away;
#[path = "client/bridges.rs"]
mod bridges;
#[path = "client/credentials.rs"]
mod credentials;
#[path = "client/direct.rs"]
mod direct;
#[path = "client/eras.rs"]
mod eras;
#[path = "client/extended.rs"]
mod extended;
#[path = "client/files.rs"]
mod files;
#[path = "client/grants.rs"]
mod grants;
#[path = "client/hangs.rs"]
mod hangs;
#[path = "client/hostile.rs"]
mod hostile;
#[path = "client/hostile_http.rs"]
mod hostile_http;
#[path = "client/oauth.rs"]
mod oauth;
#[path = "client/offers.rs"]
mod offers;
#[path = "client/oidc.rs"]
mod oidc;
#[path = "client/older_http.rs"]
mod older_http;
#[path = "client/programs.rs"]
mod programs;
#[path = "client/real.rs"]
mod real;
#[path = "client/sandboxed.rs"]
mod sandboxed;
#[path = "client/server_requests.rs"]
mod server_requests;
#[path = "client/sessions.rs"]
mod sessions;
#[path = "client/shielded.rs"]
mod shielded;
#[path = "client/storms.rs"]
mod storms;
#[path = "client/supervised.rs"]
mod supervised;
#[path = "client/support.rs"]
mod support;
#[path = "client/trust.rs"]
mod trust;
#[path = "client/unanswered.rs"]
mod unanswered;
#[path = "client/vault.rs"]
mod vault;
#[path = "client/words.rs"]
mod words;
