//! `invoke`: runs one tool.

use std::io::{Read as _, Write as _};

use serde_json::{Value, json};
use toolbus_discovery::DescribeError;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::call::{
    ARGUMENTS_BYTES_MAX, Arguments, Call, CallError, CallTime, Outcome, Output,
};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_wire::ErrorCode;
use toolbus_wire::json::RawJson;

use super::misuse;
use super::one_shot::{self, OneShot};
use super::save;
use crate::arguments::Invoke;
use crate::settings::Settings;
use crate::terminal::Terminal;
use crate::terminal_text;

pub(super) async fn run(
    options: Invoke,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let asked = match read(&options, context).await {
        Ok(asked) => asked,
        Err(exit) => return Ok(exit),
    };
    let one_shot = match OneShot::start(settings, context).await {
        Ok(one_shot) => one_shot,
        Err(error) => return unstarted(error, &options),
    };

    one_shot.wait_for(&options.tool, &asked.arguments).await;
    let exit = call(&one_shot, &options, asked, context).await;
    one_shot.stop().await;
    Ok(exit)
}

/// The same by `SERVER/TOOL`, or a name that one server alone has.
pub(super) async fn run_found(
    options: Invoke,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let mut asked = match read(&options, context).await {
        Ok(asked) => asked,
        Err(exit) => return Ok(exit),
    };
    let (one_shot, discovery) = match OneShot::start_discovering(settings, context).await {
        Ok(started) => started,
        Err(error) => return unstarted(error, &options),
    };

    let exit = match discovery.describe(&one_shot.scope(), &options.tool) {
        Ok(found) => {
            asked.tool = ToolName::parse(&found.entry.tool.name)?;
            call(&one_shot, &options, asked, context).await
        }
        Err(error @ DescribeError::Ambiguous { .. }) => misuse(error),
        // The invoker says what there is not.
        Err(_) => call(&one_shot, &options, asked, context).await,
    };
    one_shot.stop().await;
    Ok(exit)
}

/// What is to be called.
struct Asked {
    tool: ToolName,
    arguments: Value,
}

/// Reads what is to be called, or says how the command ends without.
async fn read(options: &Invoke, context: &Context) -> Result<Asked, Exit> {
    let stop = context.shutdown.requested();
    let read = stop.run_until_cancelled(read_arguments(options.arguments.clone())).await;
    // The signal says how this ends.
    let arguments = read.ok_or(Exit::FAILURE)?.map_err(misuse)?;
    let tool = ToolName::parse(&options.tool).map_err(misuse)?;
    Ok(Asked { tool, arguments })
}

/// How a call ends for which there is no fleet.
fn unstarted(error: one_shot::Error, options: &Invoke) -> Result<Exit, BoxError> {
    match error.outcome() {
        Some(outcome) => Ok(print_outcome(&CallId::random(), options, Err(outcome))),
        None => Err(error.into()),
    }
}

/// Makes the call and prints its outcome.
async fn call(one_shot: &OneShot, options: &Invoke, asked: Asked, context: &Context) -> Exit {
    let Asked { tool, arguments } = asked;
    let id = CallId::random();
    let terminal = Terminal::start(&options.tool, context);
    let time = options.timeout.map_or_else(CallTime::default, CallTime::within);
    let scope = one_shot.scope();
    let call = Call::new(&scope, id.clone(), tool, Arguments::Value(arguments))
        .with_time(time)
        .with_cancelled(context.shutdown.requested().clone())
        .with_progress(terminal.progress())
        .with_asker(terminal.asker());
    let outcome = one_shot.toolbus().invoke(call).await;

    terminal.stop().await;
    print_outcome(&id, options, outcome)
}

/// The arguments: none, JSON text, or what standard input holds.
async fn read_arguments(text: Option<String>) -> Result<Value, String> {
    let text = match text.as_deref() {
        None => return Ok(json!({})),
        // On a thread of its own, which is left alone when a signal comes first.
        Some("-") => tokio::task::spawn_blocking(from_stdin)
            .await
            .map_err(|error| format!("standard input cannot be read: {error}"))??,
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
fn print_outcome(id: &CallId, options: &Invoke, outcome: Outcome) -> Exit {
    let (output, error) = match outcome {
        Ok(output) if output.is_error => {
            let message = output.content.clone().unwrap_or_default();
            (output, Some(CallError::new(ErrorCode::ToolError, message)))
        }
        Ok(output) => (output, None),
        Err(error) => (Output::default(), Some(error)),
    };

    let Output { content, blocks, structured, .. } = output;
    let mut exit = if error.is_none() { Exit::SUCCESS } else { Exit::FAILURE };
    let parts = save::file_parts(&blocks);

    if options.json {
        let mut outcome = json!({
            "callId": id.as_str(),
            "tool": options.tool,
            "content": content,
            "isError": error.is_some(),
            "error": error.map(|error| error.to_json()),
        });

        // What is more than text.
        if !blocks.is_empty() {
            outcome["contentBlocks"] = json!(blocks);
        }

        // The value as it was written.
        let mut outcome = RawJson::of(&outcome);
        if structured.is_some() {
            outcome = outcome.with_member("structuredContent", structured.as_ref());
        }

        let _ = writeln!(std::io::stdout(), "{}", outcome.text());
    } else if let Some(error) = error {
        let message = terminal_text::for_stream(error.message.trim_end(), &std::io::stderr());
        let _ = writeln!(std::io::stderr(), "{}: {message}", error.code);
    } else if let Some(content) = content {
        let content = terminal_text::for_stream(&content, &std::io::stdout());
        let end = if content.is_empty() || content.ends_with('\n') { "" } else { "\n" };
        let _ = write!(std::io::stdout(), "{content}{end}");
    }

    // After the text, which is what the files belong to.
    match &options.save {
        Some(folder) => {
            if let Err(error) = save::write_files(folder, &parts) {
                let folder = folder.display();
                let _ = writeln!(std::io::stderr(), "error: cannot save into {folder}: {error}");
                exit = Exit::FAILURE;
            }
        }
        None if !options.json => save::print_names(&parts),
        None => {}
    }

    exit
}
