//! `discover`: what there is, by server.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};
use toolbus_discovery::{Discovery, LIST_LIMIT_MAX, ListRequest, ListedTool, RetrieveError};
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::Scope;
use toolbus_tools::registry::ToolState;

use super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use super::{misuse, print_warning};
use crate::arguments::DiscoverOptions;
use crate::settings::Settings;
use crate::terminal_text;

pub(super) async fn run(
    options: DiscoverOptions,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let (one_shot, discovery) =
        OneShot::start_discovering(settings, context, NeededServers::All, CONNECT_TIMEOUT).await?;
    let tools = list_all(&discovery, &one_shot.scope(), &options);
    let problems = discovery.problems(&one_shot.scope());
    let exit = one_shot.exit(Exit::SUCCESS);
    one_shot.stop().await;
    let tools = match tools {
        Ok(tools) => tools,
        Err(error) => return Ok(misuse(error)),
    };
    for problem in &problems {
        let (tool, field, what) = (&problem.tool, problem.field, &problem.problem);
        print_warning(format_args!("{tool} cannot be found: {field} {what}"), context);
    }

    let text = if options.json {
        let tools: Vec<_> = tools.iter().map(as_json).collect();
        format!("{:#}\n", Value::from(tools))
    } else {
        // Names are the servers' own words.
        terminal_text::for_stream(&as_text(&tools), &std::io::stdout()).into_owned()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(exit)
}

fn list_all(
    discovery: &Discovery,
    scope: &Scope,
    options: &DiscoverOptions,
) -> Result<Vec<ListedTool>, RetrieveError> {
    let mut tools = Vec::new();
    loop {
        let request = ListRequest {
            limit: LIST_LIMIT_MAX,
            offset: tools.len(),
            server: options.server.clone(),
            category: options.category,
        };
        let page = discovery.list(scope, &request)?;
        let is_last = page.tools.is_empty();
        tools.extend(page.tools);
        if is_last || tools.len() >= page.total {
            return Ok(tools);
        }
    }
}

/// A paragraph for each server.
fn as_text(tools: &[ListedTool]) -> String {
    let mut servers: BTreeMap<&str, Vec<&ListedTool>> = BTreeMap::new();
    for tool in tools {
        servers.entry(&tool.server).or_default().push(tool);
    }

    let mut text = String::new();
    for (server, tools) in &servers {
        let away = tools.iter().all(|tool| tool.entry.state == ToolState::Away);
        let away = if away { ", away" } else { "" };
        let noun = if tools.len() == 1 { "tool" } else { "tools" };
        let category = tools[0].category.as_str();
        let _ = writeln!(text, "{server} ({category}, {} {noun}{away})", tools.len());
        let names = tools.iter().map(|tool| &*tool.name).collect::<Vec<_>>();
        let _ = writeln!(text, "  {}", names.join(", "));
    }
    if text.is_empty() {
        text.push_str("There are no such tools.\n");
    }
    text
}

fn as_json(tool: &ListedTool) -> Value {
    json!({
        "name": tool.name,
        "calledBy": tool.entry.tool.name,
        "server": tool.server,
        "category": tool.category.as_str(),
        "lifecycle": tool.lifecycle.as_str(),
        "isAway": tool.entry.state == ToolState::Away,
        "description": tool.entry.tool.description,
    })
}
