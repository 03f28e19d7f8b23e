//! What `agent-host` can be told to do, one file a command.

mod agents;
mod approvals;
mod artifacts;
mod ask;
mod audit;
mod call_arguments;
mod chat;
mod config;
mod demo;
mod discover;
mod doctor;
mod grants;
mod health;
mod invoke;
mod login;
mod mcp;
mod mcp_search;
mod one_shot;
mod policy;
mod save;
mod schedules;
mod search;
mod serve;
mod sessions;
mod toolkits;
mod tools;
mod vault;

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

use toolbus_runtime::report;
use toolbus_runtime::service::{BoxError, Context, Exit};

use crate::arguments::{Command, McpCommand, McpOptions, Policy, PolicyCommand, Serve};
use crate::folder_trust;
use crate::policy_reload::SettingsSource;
use crate::settings::Settings;
use crate::terminal_text;

pub(crate) use config::{print_path as print_config_path, set as set_config};
pub(crate) use doctor::run as examine;
pub(crate) use grants::run as manage_grants;
pub(crate) use health::check as check_health;

/// How long a command waits for what it started to end.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(1);

/// Does what the command says.
pub(crate) async fn run(
    command: Command,
    mut settings: Settings,
    source: SettingsSource,
    context: Context,
) -> Result<Exit, BoxError> {
    if !matches!(
        command,
        Command::Demo
            | Command::Agents(_)
            | Command::Approvals(_)
            | Command::Artifacts(_)
            | Command::Audit(_)
            | Command::Config(_)
            | Command::Doctor(_)
            | Command::Grants(_)
            | Command::Health(_)
            | Command::Mcp(McpOptions {
                command: McpCommand::List { .. }
                    | McpCommand::Show { .. }
                    | McpCommand::Add(_)
                    | McpCommand::Remove { .. },
            })
            | Command::Login(_)
            | Command::Logout(_)
            | Command::Policy(Policy { command: PolicyCommand::Show(_) })
            | Command::Schedules(_)
            | Command::Sessions(_)
            | Command::Toolkits(_)
            | Command::Vault(_)
    ) {
        // A signal ends the wait for a person's answer, and says how this ends.
        let stop = context.shutdown.requested();
        let Some(checked) = stop.run_until_cancelled(ask_for_trust(settings, &context)).await
        else {
            return Ok(Exit::FAILURE);
        };
        settings = checked?;
    }

    match command {
        Command::Tools(options) => tools::run(options, &settings, &context).await,
        Command::Toolkits(options) => toolkits::run(options, &settings, &context).await,
        Command::Invoke(options) => invoke::run(options, &settings, &context).await,
        Command::Search(options) => search::run(options, &settings, &context).await,
        Command::Discover(options) => discover::run(options, &settings, &context).await,
        Command::Exec(options) => Box::pin(invoke::run_found(options, &settings, &context)).await,
        Command::Chat(options) => chat::run(options, &settings, &context).await,
        Command::Ask(options) => ask::run(options, &settings, &context).await,
        Command::Sessions(options) => sessions::run(options, &settings).await,
        Command::Schedules(options) => schedules::run(options, &settings).await,
        Command::Agents(options) => agents::run(options, &settings).await,
        Command::Mcp(options) => mcp::run(options.command, &settings, &context).await,
        Command::Serve(Serve { mcp_search: true, .. }) => {
            mcp_search::run(&settings, &context).await
        }
        Command::Serve(_) => Box::pin(serve::run(settings, source, context)).await,
        Command::Policy(options) => policy::run(options.command, &settings, &context).await,
        Command::Approvals(options) => approvals::run(options, &settings).await,
        Command::Artifacts(options) => artifacts::run(options.command, &settings).await,
        Command::Audit(options) => audit::run(options, &settings, &context).await,
        Command::Vault(options) => vault::run(options, &settings, &context).await,
        Command::Login(options) => login::log_in(options, &settings, &context).await,
        Command::Logout(options) => login::log_out(options, &settings, &context).await,
        // `main` has done these, or printed what they are given.
        Command::Config(_) | Command::Doctor(_) | Command::Grants(_) | Command::Health(_) => {
            Ok(Exit::SUCCESS)
        }
        Command::Demo => Box::pin(demo::run(settings, &context)).await,
    }
}

/// The exit of a command that is written wrongly, which says how.
fn misuse(what: impl Display) -> Exit {
    print_error(what);
    Exit::MISUSE
}

/// The exit of a command that could not do what it was asked for, which says why.
fn fail(why: impl Display) -> Exit {
    print_error(why);
    Exit::FAILURE
}

/// Prints a text that may have words of others. Whoever closed our standard output wants no more.
fn print(text: &str) {
    let mut stdout = std::io::stdout();
    let text = terminal_text::for_stream(text, &stdout);
    let _ = write!(stdout, "{text}");
    let _ = stdout.flush();
}

/// Prints an error that may have words of others.
fn print_error(what: impl Display) {
    let what = what.to_string();
    report::print_error(terminal_text::for_stream(&what, &std::io::stderr()));
}

/// Prints a warning that may have words of others, unless the program is to be quiet.
fn print_warning(what: impl Display, context: &Context) {
    if !context.quiet {
        let what = what.to_string();
        report::print_warning(terminal_text::for_stream(&what, &std::io::stderr()));
    }
}

/// The settings, without the `mcp.json` of a folder that is not trusted.
async fn ask_for_trust(mut settings: Settings, context: &Context) -> Result<Settings, BoxError> {
    // A person may take long to answer, and nothing else waits for that.
    let checked = tokio::task::spawn_blocking(move || {
        let dropped = folder_trust::drop_untrusted(&mut settings);
        (settings, dropped)
    });
    let (settings, dropped) = checked.await?;

    if let Some(file) = dropped {
        let file = file.display();
        let what = format!(
            "{file} is not used: this folder is not trusted. To use it, pass --trust-folder, set \
             TOOLBUS_TRUST_FOLDER=1, or name the file with --mcp-config"
        );
        // A name of a folder may be anybody's words, also in a log.
        print_warning(terminal_text::clean(&what), context);
    }
    Ok(settings)
}
