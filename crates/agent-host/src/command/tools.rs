//! `tools`: what there is.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_wire::message::mcp::McpServerSummary;

use super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use crate::arguments::Tools;
use crate::settings::Settings;
use crate::terminal_text;

pub(super) async fn run(
    options: Tools,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let one_shot = OneShot::start(settings, context, NeededServers::All).await?;
    one_shot.wait_for_servers(NeededServers::All, CONNECT_TIMEOUT).await;
    let servers = one_shot.toolbus().directory().servers();
    let text = if options.json {
        as_json(&one_shot, &servers)?
    } else {
        let text = as_text(&one_shot, &servers);
        // Names, descriptions and reasons are the servers' own words.
        terminal_text::for_stream(&text, &std::io::stdout()).into_owned()
    };

    // Whoever closed our standard output wants no more of it.
    let _ = std::io::stdout().write_all(text.as_bytes());
    let exit = one_shot.exit(Exit::SUCCESS);
    one_shot.stop().await;
    Ok(exit)
}

fn as_json(one_shot: &OneShot, servers: &[McpServerSummary]) -> Result<String, BoxError> {
    let discovery = one_shot.fleet().discovery();
    let tools: Vec<Value> = one_shot
        .toolbus()
        .tools()
        .tools()
        .iter()
        .map(|entry| {
            let tool = &entry.tool;
            let mut json = json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "source": tool.source,
                "annotations": {
                    "readOnly": tool.annotations.read_only,
                    "idempotent": tool.annotations.idempotent,
                },
            });
            if let Some(discovery) = discovery {
                json["lifecycle"] = discovery.lifecycle(&entry.id).as_str().into();
            }
            json
        })
        .collect();

    let all = json!({"tools": tools, "mcpServers": servers});
    Ok(serde_json::to_string_pretty(&all)? + "\n")
}

fn as_text(one_shot: &OneShot, servers: &[McpServerSummary]) -> String {
    let discovery = one_shot.fleet().discovery();
    let tools = one_shot.toolbus().tools();
    let tools = tools.tools();
    let width = tools.iter().map(|entry| entry.tool.name.len()).max().unwrap_or(0);
    let mut text = String::new();

    for entry in tools {
        let tool = &entry.tool;
        let line = format!("{:width$}  {}", tool.name, first_sentence(&tool.description));
        text.push_str(&line);
        if let Some(discovery) = discovery {
            let _ = write!(text, " [{}]", discovery.lifecycle(&entry.id).as_str());
        }
        text.push('\n');
    }

    if !servers.is_empty() {
        text.push_str("\nMCP servers (call their tools with mcp_invoke_tool):\n");
    }

    for server in servers {
        let offer = match &server.unavailable {
            Some(_) if server.connecting => "still being connected".to_owned(),
            Some(why) => format!("not available: {why}"),
            None => server.tool_names.join(", "),
        };
        text.push_str(&format!("  {}: {offer}\n", server.server_name));
    }

    text
}

fn first_sentence(text: &str) -> &str {
    text.split_once(". ").map_or(text, |(first, _)| first).trim_end_matches('.')
}
