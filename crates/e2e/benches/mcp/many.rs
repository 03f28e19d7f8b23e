//! Many servers at once: how long until all are there, and what it takes to find a tool.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Goal, Report, Rounds, Row};
use serde_json::{Map, json};
use tokio::runtime::Runtime;
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::servers::{Options, Set};

use crate::server::{MANY, SLOW, TOOLS_OF_EACH, tool_name};

const ROUNDS: usize = 5;
const LOOK_UPS: u32 = 100_000;

pub(crate) fn measure(report: &mut Report, runtime: &Runtime, url: &str) -> anyhow::Result<()> {
    let (mut all, mut one, mut look_up) = (Rounds::new(), Rounds::new(), Rounds::new());
    for _ in 0..ROUNDS {
        let (took, set) = runtime.block_on(connect(url, MANY))?;
        all.add(millis(took));
        look_up.add(look_up_nanos(&set));
        runtime.block_on(set.close(Duration::ZERO));
        let (took, set) = runtime.block_on(connect(url, 1))?;
        one.add(millis(took));
        runtime.block_on(set.close(Duration::ZERO));
    }
    report.add(
        Row::new(format!("{MANY} servers connected, peer one"), "ms", all)
            .beside(one)
            .with_goal(Goal::RatioAtMost(2.0)),
    );
    report.add(
        Row::new("look-up of a tool, by its name alone", "ns", look_up)
            .with_goal(Goal::AtMost(1_000.0)),
    );
    report.note(format!(
        "Many: {MANY} servers of {TOOLS_OF_EACH} tools, each of which takes {} ms to list them, \
         until all are connected and listed. The look-up is for the last tool of the last server. \
         {ROUNDS} rounds.",
        SLOW.as_millis()
    ));
    Ok(())
}

async fn connect(url: &str, count: usize) -> anyhow::Result<(Duration, Set)> {
    let entry = |server| {
        (format!("many-{server}"), json!({"type": "http", "url": format!("{url}/many/{server}")}))
    };
    let servers: Map<_, _> = (0..count).map(entry).collect();
    let text = json!({"mcpServers": servers}).to_string();
    let config = config::parse(&text, Variables::Refused)?;
    ensure!(config.mistakes.is_empty(), "{:?}", config.mistakes);
    let started = Instant::now();
    let set = Set::start(config.servers, Options::new(std::env::vars_os()))?;
    set.settled().await;
    let took = started.elapsed();
    let tools: usize = set
        .list()
        .iter()
        .filter_map(|server| server.summary.as_ref())
        .map(|summary| summary.tool_names.len())
        .sum();
    ensure!(tools == count * TOOLS_OF_EACH, "{tools} tools are there");
    Ok((took, set))
}

fn look_up_nanos(set: &Set) -> f64 {
    let tool = tool_name(MANY - 1, TOOLS_OF_EACH - 1);
    let started = Instant::now();
    for _ in 0..LOOK_UPS {
        black_box(set.call_timeout(None, black_box(&tool)));
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(LOOK_UPS)
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
