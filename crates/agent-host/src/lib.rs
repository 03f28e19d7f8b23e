//! The front door of the fleet: lists tools, runs them, and serves them.
//!
//! Without a broker it is the whole fleet in one process: the services of the other binaries,
//! attached to the in-memory broker. With one it is a member of the fleet, and holds none of them.

pub mod a2a_settings;
mod agent;
mod agent_server;
pub mod agent_settings;
mod agent_tasks;
pub mod approval_settings;
pub mod arguments;
pub mod artifact_settings;
pub mod audit_settings;
mod background;
mod bus_policy;
pub mod chain_settings;
mod command;
pub mod discovery_settings;
pub mod face;
pub mod face_settings;
pub mod fleet;
mod folder_trust;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod http_clients;
mod http_listener;
pub mod http_settings;
mod kept_discovery;
mod month_counts;
mod other_agents;
mod person;
mod policy_reload;
pub mod schedule_settings;
mod scheduled_turns;
mod search_gateway;
mod secret_input;
mod service_follower;
mod session_notices;
pub mod settings;
mod state;
pub mod subagent_settings;
mod subagent_turns;
mod task_splitter;
mod terminal;
mod terminal_text;
pub mod tool_api_settings;
mod toolkits;
mod turn_printer;
mod webhook_sender;
mod wisp_parts;

use toolbus_config::build_features::BuildFeature;
use toolbus_mcp::supervisor::Supervisor;
use toolbus_runtime::arguments::ServiceArguments;
use toolbus_runtime::service::{self, Exit, Program, Role};

use arguments::{Arguments, Command, ConfigCommand, ConfigOptions, Serve};
use policy_reload::SettingsSource;
use settings::Settings;

/// Optional parts that this build leaves out.
const LEFT_OUT: &[BuildFeature] = &[
    #[cfg(not(feature = "embeddings"))]
    BuildFeature::Embeddings,
    #[cfg(not(feature = "google"))]
    BuildFeature::Google,
    #[cfg(not(feature = "jemalloc"))]
    BuildFeature::Jemalloc,
    #[cfg(not(feature = "linkedin"))]
    BuildFeature::Linkedin,
    #[cfg(not(feature = "parquet"))]
    BuildFeature::Parquet,
    #[cfg(not(feature = "postgres"))]
    BuildFeature::Postgres,
    #[cfg(not(feature = "s3"))]
    BuildFeature::S3,
];

/// The program, as a command.
const PROGRAM: Program = Program {
    name: env!("CARGO_PKG_NAME"),
    version: env!("CARGO_PKG_VERSION"),
    role: Role::Command,
    aliases: settings::ALIASES,
    left_out: LEFT_OUT,
};

/// Runs the program, from its arguments to its exit code. `supervisor` looks after the MCP servers
/// that it starts.
#[must_use]
pub fn main(arguments: Arguments, supervisor: Supervisor) -> Exit {
    let role = match arguments.command {
        Some(Command::Serve(Serve { mcp_search: false, .. })) => Role::Service,
        Some(Command::Chat(_)) => Role::Conversation,
        _ => Role::Command,
    };
    let program = Program { role, ..PROGRAM };
    let own = settings::of_arguments(&arguments);
    let source = SettingsSource { program, common: arguments.common.clone(), own: own.clone() };
    let Arguments { common, command, .. } = arguments;

    let Some(command) = command else {
        if common.print_config {
            return service::print_config::<Settings>(&program, &common, own);
        }
        return arguments::missing_command();
    };
    match command {
        Command::Serve(Serve { service: ServiceArguments { probe: true, .. }, .. }) => {
            return service::probe::<Settings>(&program, &common, own);
        }
        // These do without the frame, or with less of it: they serve no health port, and work with
        // settings that are wrong.
        Command::Config(ConfigOptions { command: ConfigCommand::Set(options) }) => {
            return command::set_config(options, &source);
        }
        Command::Config(ConfigOptions { command: ConfigCommand::Path }) => {
            return command::print_config_path(&source);
        }
        Command::Config(ConfigOptions { command: ConfigCommand::Show }) => {
            return service::print_config::<Settings>(&program, &common, own);
        }
        Command::Health(options) if !common.print_config => {
            return command::check_health(options, &source);
        }
        Command::Grants(options) if !common.print_config => {
            return command::manage_grants(&options);
        }
        Command::Doctor(options) if !common.print_config => {
            return command::examine(&options, &source, supervisor);
        }
        _ => {}
    }

    service::run(&program, &common, own, |mut settings: Settings, context| {
        settings.mcp.supervisor = Some(supervisor);
        settings.hide_secrets(source.file());
        command::run(command, settings, source, context)
    })
}

#[cfg(test)]
mod tests;
