//! `accept`: shows what servers say of themselves and has changed, and accepts it.
//!
//! It works on the files where pins are kept, so it needs no broker, and no bridge that runs.

use std::fmt::Write as _;
use std::io::Write as _;

use toolbus_mcp::trust::{PendingChange, PinnedItem};
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
    let item = named_item(options);
    let (Some(name), true) = (server, item.is_some() || options.all) else {
        return Ok(describe_changes(&pins.pending_changes(server)?));
    };
    let accepted = pins.accept(name, item.as_ref())?;

    if accepted.is_empty() {
        return Ok("nothing waits to be accepted\n".to_owned());
    }

    let mut text = String::new();
    for item in accepted {
        let _ = writeln!(text, "accepted: {name} {}", item.arguments());
    }

    Ok(text)
}

fn named_item(options: &Accept) -> Option<PinnedItem> {
    let tool = options.tool.clone().map(PinnedItem::Tool);
    let prompt = || options.prompt.clone().map(PinnedItem::Prompt);
    tool.or_else(prompt).or_else(|| options.introduction.then_some(PinnedItem::Introduction))
}

fn describe_changes(waiting: &[PendingChange]) -> String {
    if waiting.is_empty() {
        return "nothing waits to be accepted\n".to_owned();
    }

    let mut text = String::new();
    for PendingChange { server, item, is_held_back, difference } in waiting {
        let what = if *is_held_back { "held back" } else { "taken" };
        let _ = writeln!(text, "{server} {} ({what})", item.arguments());
        for line in difference {
            let _ = writeln!(text, "    {line}");
        }
    }

    text.push_str(
        "accept with: mcp-bridge accept SERVER TOOL (or --prompt NAME, --introduction, --all)\n",
    );
    text
}
