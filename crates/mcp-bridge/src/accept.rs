//! `accept`: shows tools that are not what they were, and accepts them.
//!
//! It works on the files where pins are kept, so it needs no broker, and no bridge that runs.

use std::fmt::Write as _;
use std::io::Write as _;

use toolbus_mcp::trust::Waiting;
use toolbus_runtime::service::{BoxError, Exit};

use crate::arguments::Accept;
use crate::settings::Offline;

pub(crate) async fn run(options: Accept, settings: Offline) -> Result<Exit, BoxError> {
    // It blocks, and there is nothing else to do meanwhile.
    let text = done(&options, &settings)?;
    // Whoever closed our standard output wants no more of it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(Exit::SUCCESS)
}

fn done(options: &Accept, settings: &Offline) -> Result<String, BoxError> {
    let pins = settings.mcp().pins()?;
    if !pins.are_kept() {
        return Err(
            "nothing is kept here: neither is there a list of servers nor is mcp.pins set".into()
        );
    }
    let (server, tool) = (options.of.as_deref(), options.tool.as_deref());
    let (Some(name), true) = (server, tool.is_some() || options.all) else {
        return Ok(shown(&pins.waiting(server)?));
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

fn shown(waiting: &[Waiting]) -> String {
    if waiting.is_empty() {
        return "nothing waits to be accepted\n".to_owned();
    }
    let mut text = String::new();
    for Waiting { server, tool, is_held_back, difference } in waiting {
        let what = if *is_held_back { "held back" } else { "taken" };
        let _ = writeln!(text, "{server} {} ({what})", tool.escape_debug());
        for line in difference {
            let _ = writeln!(text, "    {line}");
        }
    }
    text.push_str("accept with: mcp-bridge accept SERVER TOOL, or SERVER --all\n");
    text
}
