//! `invoke`: runs one tool.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::call::{ARGUMENTS_BYTES_MAX, Arguments, Call, CallError, Outcome, Time};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;

use super::OneShot;
use crate::arguments::Invoke;
use crate::settings::Settings;
use crate::terminal::Terminal;

pub(super) async fn run(
    options: Invoke,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let arguments = match read(options.arguments.as_deref()) {
        Ok(arguments) => arguments,
        Err(what) => {
            let _ = writeln!(std::io::stderr(), "agent-host: {what}");
            return Ok(Exit::MISUSE);
        }
    };
    let one_shot = OneShot::start(settings, context).await?;
    one_shot.wait_for_tool(&options.name).await;
    let terminal = Terminal::start(&options.name);
    let id = new_id();
    let call = Call {
        id: id.clone(),
        tool: options.name.clone(),
        arguments: Arguments::Value(arguments),
        caller: one_shot.agent.name().to_string(),
        session: None,
        time: options.timeout.map_or(Time::Default, Time::Budget),
        cancelled: context.shutdown.requested().clone(),
        progress: terminal.progress(),
    };
    let outcome = one_shot.agent.invoker().invoke(call).await;
    terminal.stop().await;
    let exit = print(&id, &options, outcome);
    one_shot.stop().await;
    Ok(exit)
}

/// The arguments: none, JSON text, or what standard input holds.
fn read(text: Option<&str>) -> Result<Value, String> {
    let text = match text {
        None => return Ok(json!({})),
        Some("-") => from_stdin()?,
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|error| format!("the arguments are not JSON: {error}"))
}

fn from_stdin() -> Result<String, String> {
    let mut text = String::new();
    // One byte more than is allowed tells that there is more.
    let limit = ARGUMENTS_BYTES_MAX as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| format!("standard input cannot be read: {error}"))?;
    if text.len() > ARGUMENTS_BYTES_MAX {
        return Err(format!("the arguments are over the limit of {ARGUMENTS_BYTES_MAX} bytes"));
    }
    Ok(text)
}

/// Prints an outcome: content on standard output, failures on standard error.
fn print(id: &str, options: &Invoke, outcome: Outcome) -> Exit {
    let (content, error) = match outcome {
        Ok(output) if output.is_error => {
            let message = output.content.clone().unwrap_or_default();
            (output.content, Some(CallError::new(ErrorCode::ToolError, message)))
        }
        Ok(output) => (output.content, None),
        Err(error) => (None, Some(error)),
    };
    let exit = if error.is_none() { Exit::SUCCESS } else { Exit::FAILURE };
    if options.json {
        let outcome = json!({
            "callId": id,
            "tool": options.name,
            "content": content,
            "isError": error.is_some(),
            "error": error.map(|error| json!({
                "code": error.code.as_str(),
                "message": error.message,
                "isRetryable": error.code.is_retryable(),
            })),
        });
        let _ = writeln!(std::io::stdout(), "{outcome}");
    } else if let Some(error) = error {
        let _ = writeln!(std::io::stderr(), "{}: {}", error.code, error.message);
    } else if let Some(content) = content {
        let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        let _ = write!(std::io::stdout(), "{content}{end}");
    }
    exit
}
