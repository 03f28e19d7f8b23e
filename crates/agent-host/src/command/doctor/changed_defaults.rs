//! Defaults that differ from those of earlier programs. `doctor` notes the ones that affect this
//! configuration; docs/operations.md lists all of them.

use std::env;

use toolbus_config::{ChangedDefault, Finding, KeyReference, ListenAddress, Secret};
use toolbus_mcp::config::Entry;
use toolbus_mcp::doctor as mcp_doctor;
use toolbus_runtime::http::visitors;

use crate::agent_settings::AgentSettings;
use crate::settings::Settings;

/// Date since which addresses need tokens and personal tools are local.
const TOKENS_SINCE: &str = "2026-11-28";
/// Principals of tools that only local users can call.
const LOCAL_ALONE: [&str; 1] = ["local:*"];
/// Host names of this machine.
const LOCAL_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];
/// Default name of the key of `anthropic_usage`.
const ADMIN_KEY: &str = "ANTHROPIC_ADMIN_API_KEY";

/// A configuration that a change may affect.
struct Configuration<'a> {
    settings: &'a Settings,
    /// The MCP servers that run in this process.
    servers: &'a [Entry],
}

/// A changed default, and a predicate for the configurations that it affects.
struct Row {
    default: ChangedDefault,
    affects: fn(&Configuration<'_>) -> bool,
}

/// All changed defaults, in the order of docs/operations.md.
const TABLE: &[Row] = &[
    Row {
        default: ChangedDefault {
            setting: "policy.preset",
            since: "2026-11-29",
            change: "without a section policy, the rules of the preset careful hold: in turns of \
                     agents, reads and computations run, and a person approves every other call",
            former: "policy.preset = \"open\"",
        },
        affects: |it| it.settings.policy == Settings::default().policy,
    },
    Row {
        default: mcp_doctor::SHIELDED_SERVERS,
        affects: |it| mcp_doctor::has_shielded_servers(&it.settings.mcp, it.servers),
    },
    Row {
        default: ChangedDefault {
            setting: "mcp_face.anonymous",
            since: TOKENS_SINCE,
            change: "MCP clients need a token, because http.tokens or http.token_files name \
                     clients; rules know them as token:http/NAME",
            former: "mcp_face.anonymous = true",
        },
        affects: |it| {
            let Settings { mcp_face, http, .. } = it.settings;
            let needs_token = mcp_face.address.is_some() && http.has_tokens();
            needs_token && !mcp_face.anonymous && !it.settings.shares_port()
        },
    },
    Row {
        default: ChangedDefault {
            setting: "http.tokens",
            since: TOKENS_SINCE,
            change: "${NAME} and ${vault:NAME} are references; the text was the token itself \
                     before, and is known to everybody who has read the settings",
            former: "give the client a new token: the former behavior cannot be kept",
        },
        affects: |it| it.settings.http.tokens.values().any(is_reference),
    },
    Row {
        default: ChangedDefault {
            setting: "mcp_face.allowed_hosts",
            since: TOKENS_SINCE,
            change: "requests from other machines for the hosts localhost and 127.0.0.1 are \
                     refused",
            former: "mcp_face.allowed_hosts = [\"localhost\", \"127.0.0.1\"] and the names that it \
                     has",
        },
        affects: |it| {
            let face = &it.settings.mcp_face;
            refuses_local_names(face.address.as_ref(), &face.allowed_hosts)
        },
    },
    Row {
        default: ChangedDefault {
            setting: "http.allowed_hosts",
            since: TOKENS_SINCE,
            change: "requests from other machines for the hosts localhost and 127.0.0.1 are \
                     refused",
            former: "http.allowed_hosts = [\"localhost\", \"127.0.0.1\"] and the names that it has",
        },
        affects: |it| {
            let http = &it.settings.http;
            refuses_local_names(http.address.as_ref(), &http.allowed_hosts)
        },
    },
    Row {
        default: ChangedDefault {
            setting: "files.principals",
            since: TOKENS_SINCE,
            change: "tools for files and commands are there for local people alone, because a \
                     folder is in a home folder or holds one",
            former: "files.principals = [\"*\"]",
        },
        affects: |it| has_personal_folders(it.settings),
    },
    Row {
        default: ChangedDefault {
            setting: "google.principals",
            since: TOKENS_SINCE,
            change: "tools for Gmail and Calendar are there for local people alone",
            former: "google.principals = [\"*\"]",
        },
        affects: |it| {
            let google = &it.settings.google;
            google.client_id.is_some() && google.principals == LOCAL_ALONE
        },
    },
    Row {
        default: ChangedDefault {
            setting: "linkedin.principals",
            since: TOKENS_SINCE,
            change: "tools for LinkedIn are there for local people alone",
            former: "linkedin.principals = [\"*\"]",
        },
        affects: |it| {
            let linkedin = &it.settings.linkedin;
            linkedin.enabled && linkedin.principals == LOCAL_ALONE
        },
    },
    Row {
        default: ChangedDefault {
            setting: "anthropic_usage.principals",
            since: TOKENS_SINCE,
            change: "the tool anthropic_usage is there for local people alone",
            former: "anthropic_usage.principals = [\"*\"]",
        },
        affects: |it| {
            let usage = &it.settings.anthropic_usage;
            let has_key = usage.api_key.is_some() || env::var_os(ADMIN_KEY).is_some();
            has_key && usage.principals == LOCAL_ALONE
        },
    },
    Row {
        default: ChangedDefault {
            setting: "agent.notice_turns_max",
            since: TOKENS_SINCE,
            change: "ends of subagents and answers of other agents begin at most 100 turns of one \
                     run; there was no limit",
            former: "agent.notice_turns_max = 10000, the largest limit",
        },
        affects: |it| {
            let default = AgentSettings::default().notice_turns_max;
            let has_model = !it.settings.models.endpoints.is_empty();
            has_model && it.settings.agent.notice_turns_max == default
        },
    },
];

/// Notes each changed default that affects these settings and MCP servers.
pub(super) fn describe(settings: &Settings, servers: &[Entry]) -> Vec<Finding> {
    let configuration = Configuration { settings, servers };
    let affecting = TABLE.iter().filter(|row| (row.affects)(&configuration));
    affecting.map(|row| row.default.note()).collect()
}

fn is_reference(token: &Secret) -> bool {
    matches!(KeyReference::parse(token), Ok(KeyReference::Variable(_) | KeyReference::Vault(_)))
}

fn refuses_local_names(address: Option<&ListenAddress>, allowed_hosts: &[String]) -> bool {
    let allows = allowed_hosts.iter().any(|host| LOCAL_NAMES.contains(&host.trim()));
    address.is_some_and(visitors::is_reached_by_others) && !allows
}

fn has_personal_folders(settings: &Settings) -> bool {
    let Settings { files, bash, .. } = settings;
    let beside: &[_] = if bash.enabled { &bash.readable_paths } else { &[] };
    let has_tools = files.working_directory.is_some() && files.principals.is_empty();
    has_tools && files.principals_or_default(beside) == LOCAL_ALONE
}

#[cfg(test)]
mod tests;
