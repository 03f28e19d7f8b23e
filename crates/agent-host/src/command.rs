//! What `agent-host` can be told to do, one file a command.

mod demo;
mod invoke;
mod one_shot;
mod save;
mod serve;
mod tools;

use std::time::Duration;

use toolbus_runtime::service::{BoxError, Context, Exit};

use crate::arguments::Command;
use crate::settings::Settings;

/// How long a one-shot command waits for what it started to end, and `serve` for the bus.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// Does what the command says.
pub(crate) async fn run(
    command: Command,
    settings: Settings,
    context: Context,
) -> Result<Exit, BoxError> {
    match command {
        Command::Tools(options) => tools::run(options, &settings, &context).await,
        Command::Invoke(options) => invoke::run(options, &settings, &context).await,
        Command::Serve(_) => serve::run(settings, context).await,
        Command::Demo => demo::run(settings, &context).await,
    }
}
