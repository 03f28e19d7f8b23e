//! `invoke`: runs one tool.

use std::io::Write as _;

use serde_json::json;
use toolbus_discovery::DescribeError;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::call::{Arguments, Call, CallError, CallTime, Outcome, Output};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::registry::ToolEntry;
use toolbus_wire::ErrorCode;
use toolbus_wire::json::RawJson;

use super::call_arguments::CallArguments;
use super::one_shot::{self, CONNECT_TIMEOUT, NeededServers, OneShot};
use super::{misuse, print_warning, save};
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
    let server = asked.arguments.text_of("server_name");
    let needed = NeededServers::of_tool(&options.tool, server.as_deref());
    let one_shot = match OneShot::start(settings, context, needed).await {
        Ok(one_shot) => one_shot,
        Err(error) => return unstarted(error, &options),
    };

    // There is no server to call; a list has the others.
    if one_shot.has_mistakes() && matches!(needed, NeededServers::One(_)) {
        one_shot.stop().await;
        return Ok(Exit::MISUSE);
    }

    one_shot.wait_for(&options.tool, needed).await;
    let exit = one_shot.exit(call(&one_shot, &options, asked, context).await);
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
    let server = options.tool.split_once('/').map(|(server, _)| server);
    let needed = server.map_or(NeededServers::None, NeededServers::One);
    let started = OneShot::start_discovering(settings, context, needed, CONNECT_TIMEOUT).await;
    let (one_shot, discovery) = match started {
        Ok(started) => started,
        Err(error) => return unstarted(error, &options),
    };

    if one_shot.has_mistakes() {
        one_shot.stop().await;
        return Ok(Exit::MISUSE);
    }

    let exit = match discovery.describe(&one_shot.scope(), &options.tool) {
        Ok(found) => {
            asked.tool = ToolName::parse(&found.entry.tool.name)?;
            call(&one_shot, &options, asked, context).await
        }
        Err(error @ DescribeError::Ambiguous { .. }) => misuse(error),
        Err(_) => match server.and_then(|server| unavailable(&one_shot, server)) {
            Some(error) => print_outcome(&CallId::random(), &options, Err(error)),
            // The invoker says what there is not.
            None => call(&one_shot, &options, asked, context).await,
        },
    };
    one_shot.stop().await;
    Ok(exit)
}

/// Why no tool of this server can be called, where its bridge has said so.
fn unavailable(one_shot: &OneShot, server: &str) -> Option<CallError> {
    let servers = one_shot.toolbus().directory().servers();
    let known = servers.iter().find(|known| known.server_name.eq_ignore_ascii_case(server))?;
    let why = known.unavailable.as_ref()?;
    let message = format!("MCP server '{}' is not connected: {why}", known.server_name);
    Some(CallError::new(ErrorCode::ToolNotFound, message))
}

/// What is to be called.
struct Asked {
    tool: ToolName,
    arguments: CallArguments,
}

/// Reads what is to be called, or says how the command ends without.
async fn read(options: &Invoke, context: &Context) -> Result<Asked, Exit> {
    let stop = context.shutdown.requested();
    let read = stop.run_until_cancelled(CallArguments::read(&options.arguments)).await;
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
    let entry = one_shot.toolbus().invoker().registry().find(tool.as_str());
    let unknown = entry.as_ref().map(|entry| unknown_arguments(entry, &arguments));
    let text = arguments.to_json(entry.as_ref().map(|entry| &entry.tool.parameters));
    let id = CallId::random();
    let terminal = Terminal::start(&options.tool, context);
    let time = options.timeout.map_or_else(CallTime::default, CallTime::within);
    let scope = one_shot.scope();
    let call = Call::new(&scope, id.clone(), tool, Arguments::Text(Some(text)))
        .with_time(time)
        .with_cancelled(context.shutdown.requested().clone())
        .with_progress(terminal.progress())
        .with_asker(terminal.asker());
    let outcome = one_shot.toolbus().invoke(call).await;

    terminal.stop().await;
    // Where the arguments are wrong, the error says so.
    if !matches!(&outcome, Err(error) if error.code == ErrorCode::InvalidArguments) {
        for warning in unknown.unwrap_or_default() {
            print_warning(format_args!("{warning}"), context);
        }
    }
    print_outcome(&id, options, outcome)
}

/// The arguments that the tool does not say it takes, and may have ignored.
fn unknown_arguments(entry: &ToolEntry, arguments: &CallArguments) -> Vec<String> {
    let schema = &entry.tool.parameters;
    let is_open = ["additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref"];
    if is_open.iter().any(|keyword| schema.get(keyword).is_some()) {
        return Vec::new();
    }

    let names = arguments.names();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let unknown = entry.unknown_arguments(&names).into_iter().map(|(name, meant)| {
        let hint = meant.map_or_else(String::new, |meant| format!("; did you mean '{meant}'?"));
        format!("{} has no argument '{name}'{hint}", entry.tool.name)
    });
    unknown.collect()
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
    let mut exit = match &error {
        None => Exit::SUCCESS,
        Some(error) if error.code == ErrorCode::InvalidArguments => Exit::MISUSE,
        Some(_) => Exit::FAILURE,
    };
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
