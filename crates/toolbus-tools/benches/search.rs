//! How long a search for tools takes among 2,000 of them.
//!
//! `cargo bench --profile measured -p toolbus-tools --bench search`. Prints medians with the quickest and the slowest
//! round, and exits 1 when a median is over the goal.

#![allow(clippy::print_stdout, reason = "it is what a benchmark is run for")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::json;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::tool_search::{Format, search};
use toolbus_tools::{Door, Principal, Registry, Scope, Tool, View};
use toolbus_wire::name::AgentName;

const TOOLS: usize = 2_000;
const ROUNDS: usize = 15;
const SEARCHES_A_ROUND: u32 = 50;

/// What one search may take.
const GOAL_MILLISECONDS: u64 = 1;

fn main() -> ExitCode {
    let registry = registry();
    let tools = registry.snapshot();
    let some = View::all().only(["mcp:server1*/*", "mcp:server2*/*"]).without(["*/delete_*"]);
    let mut holds = true;

    for (what, view, query, format) in [
        ("all tools, as text", View::all(), "", Format::Text),
        ("all tools, as schemas", View::all(), "", Format::Schema),
        ("one tool in ten, as text", View::all(), "Create_Issue", Format::Text),
        ("one tool in ten, as text, a view of some", some.clone(), "Create_Issue", Format::Text),
        ("no tool", View::all(), "zebra crossing", Format::Text),
        ("no tool, a view of some", some, "zebra crossing", Format::Text),
    ] {
        let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
        let scope = scope.with_view(view);
        let mut rounds: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let started = Instant::now();
                for _ in 0..SEARCHES_A_ROUND {
                    black_box(search(&tools, &scope, black_box(query), format));
                }
                started.elapsed() / SEARCHES_A_ROUND
            })
            .collect();
        rounds.sort();

        let (least, median, most) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
        println!("{what}: {median:.1?} ({least:.1?} to {most:.1?})");
        holds &= median <= Duration::from_millis(GOAL_MILLISECONDS);
    }
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Tools of twenty servers, with descriptions of 400 bytes.
fn registry() -> Registry {
    const NAMES: [&str; 10] = [
        "create_issue",
        "list_issues",
        "delete_branch",
        "search_code",
        "read_file",
        "write_file",
        "send_message",
        "list_channels",
        "run_query",
        "get_metrics",
    ];
    let nothing = |_: Invocation| std::future::ready(Ok::<_, CallError>(Output::default()));
    let registry = Registry::new();

    for at in 0..TOOLS {
        let name = format!("server{}__{}_{at}", at % 20, NAMES[at / 20 % NAMES.len()]);
        let description = format!("Works on the repository of the team, number {at}. ").repeat(8);
        let parameters = json!({
            "type": "object",
            "properties": {
                "owner": {"type": "string", "description": "Who owns it"},
                "title": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "string"}}
            },
            "required": ["owner", "title"]
        });
        let tool = Tool::new(name, description, format!("mcp:server{}", at % 20));
        registry.register(tool.with_parameters(parameters), nothing).expect("names differ");
    }
    registry
}
