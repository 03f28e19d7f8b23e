//! `search`: tools by what they are for.

use std::fmt::Write as _;
use std::io::Write as _;

use serde_json::{Value, json};
use toolbus_discovery::{FactorScores, RetrieveFilter, RetrieveRequest, Retrieved, RetrievedTool};
use toolbus_runtime::service::{BoxError, Context, Exit};

use super::misuse;
use super::one_shot::{CONNECT_TIMEOUT, NeededServers, OneShot};
use crate::arguments::SearchOptions;
use crate::settings::Settings;
use crate::terminal_text;

pub(super) async fn run(
    options: SearchOptions,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let request = RetrieveRequest {
        query: options.query.join(" "),
        limit: options.limit,
        filter: RetrieveFilter {
            server: options.server,
            category: options.category,
            score_min: options.min_score,
        },
        source: "command-line".into(),
        debug: options.explain,
    };
    let (one_shot, discovery) =
        OneShot::start_discovering(settings, context, NeededServers::All, CONNECT_TIMEOUT).await?;
    let retrieved = discovery.retrieve(&one_shot.scope(), &request).await;
    let has_mistakes = one_shot.has_mistakes();
    one_shot.stop().await;
    let retrieved = match retrieved {
        Ok(retrieved) => retrieved,
        Err(error) => return Ok(misuse(error)),
    };

    let text = if options.json {
        format!("{:#}\n", as_json(&retrieved))
    } else {
        // Names and descriptions are the servers' own words.
        terminal_text::for_stream(&as_text(&retrieved), &std::io::stdout()).into_owned()
    };
    let _ = std::io::stdout().write_all(text.as_bytes());
    Ok(match retrieved.tools.is_empty() {
        _ if has_mistakes => Exit::MISUSE,
        true => Exit::FAILURE,
        false => Exit::SUCCESS,
    })
}

fn as_text(retrieved: &Retrieved) -> String {
    let mut text = String::new();
    for (at, tool) in retrieved.tools.iter().enumerate() {
        let (name, score) = (&tool.entry.tool.name, tool.score);
        let description = one_line(&tool.entry.tool.description);
        let _ = writeln!(text, "{}. {name} ({}, {score:.2}): {description}", at + 1, tool.server);
        if let Some(factors) = &tool.factors {
            let FactorScores { similarity, popularity, user_history, performance, boost } = factors;
            let _ = writeln!(
                text,
                "   similarity {similarity:.2}, popularity {popularity:.2}, history \
                 {user_history:.2}, performance {performance:.2}, times {boost:.2}"
            );
        }
    }

    if retrieved.tools.is_empty() {
        let _ = writeln!(text, "None of {} tools is for that.", retrieved.searched);
    }
    if !retrieved.recommended_servers.is_empty() {
        let _ = writeln!(text, "Servers that may: {}", retrieved.recommended_servers.join(", "));
    }
    text
}

fn as_json(retrieved: &Retrieved) -> Value {
    let tools: Vec<_> = retrieved.tools.iter().map(tool_as_json).collect();
    json!({
        "tools": tools,
        "query_time_ms": retrieved.took.as_secs_f64() * 1_000.0,
        "total_tools_searched": retrieved.searched,
        "by_words_alone": retrieved.by_words_alone,
        "recommended_servers": retrieved.recommended_servers,
    })
}

fn tool_as_json(tool: &RetrievedTool) -> Value {
    let registered = &tool.entry.tool;
    let mut json = json!({
        "name": registered.name,
        "server": tool.server,
        "score": tool.score,
        "description": registered.description,
        "category": tool.category.as_str(),
        "tags": registered.tags,
        "inputSchema": registered.parameters,
    });

    if let Some(factors) = &tool.factors {
        json["factors"] = json!(factors);
    }
    json
}

/// The beginning of a text, in one line.
fn one_line(text: &str) -> String {
    /// Longest, in characters.
    const LINE_CHARS_MAX: usize = 160;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LINE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
