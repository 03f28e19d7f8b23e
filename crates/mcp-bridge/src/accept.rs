//! `accept`: shows tools that are not what they were, and accepts them.
//!
//! It works on the files where pins are kept, so it needs no broker, and no bridge that runs.

use std::fmt::Write as _;
use std::io::Write as _;

use toolbus_mcp::trust::PendingChange;
use toolbus_runtime::service::{BoxError, Exit};

use crate::arguments::Accept;
use crate::settings::OfflineSettings;

pub(crate) async fn run(options: Accept, settings: OfflineSettings) -> Result<Exit, BoxError> {
    // It blocks, and there is nothing else to do meanwhile.
    let text = accept_or_list(&options, &settings)?;
    // A reader that closed our standard output wants no more of it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(Exit::SUCCESS)
}

fn accept_or_list(options: &Accept, settings: &OfflineSettings) -> Result<String, BoxError> {
    let pins = settings.mcp().pins()?;
    if !pins.are_persistent() {
        return Err(
            "nothing is kept here: neither is there a list of servers nor is mcp.pins set".into()
        );
    }

    let server = options.of.as_deref();
    let tool = options.tool.as_deref();
    let (Some(name), true) = (server, tool.is_some() || options.all) else {
        return Ok(describe_changes(&pins.pending_changes(server)?));
    };
    let accepted = pins.accept(name, tool)?;

    if accepted.is_empty() {
        return Ok("nothing waits to be accepted\n".to_owned());
    }

    let mut text = String::new();
    for tool in accepted {
        let _ = writeln!(text, "accepted: {name} {}", tool.escape_debug());
    }

    Ok(text)
}

fn describe_changes(waiting: &[PendingChange]) -> String {
    if waiting.is_empty() {
        return "nothing waits to be accepted\n".to_owned();
    }

    let mut text = String::new();
    for PendingChange { server, tool, is_held_back, difference } in waiting {
        let what = if *is_held_back { "held back" } else { "taken" };
        let _ = writeln!(text, "{server} {} ({what})", tool.escape_debug());
        for line in difference {
            let _ = writeln!(text, "    {line}");
        }
    }

    text.push_str("accept with: mcp-bridge accept SERVER TOOL, or SERVER --all\n");
    text
}
