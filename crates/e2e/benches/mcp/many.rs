//! Many servers at once: how long until all are there, what it takes to find a tool, and how long
//! the message is that tells an agent of them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Goal, Report, Rounds, Row};
use serde_json::{Map, json};
use tokio::runtime::Runtime;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_wire::json as body;
use toolbus_wire::message::mcp::McpServersIndexed;

use crate::server::{MANY, SLOW, TOOLS_OF_EACH, tool_name};

const ROUNDS: usize = 5;
const LOOK_UPS: u32 = 100_000;

pub(crate) fn measure(report: &mut Report, runtime: &Runtime, url: &str) -> anyhow::Result<()> {
    let [mut all, mut one, mut look_up, mut index] = std::array::from_fn(|_| Rounds::new());
    let rounds = crate::rounds(ROUNDS);
    for _ in 0..rounds {
        let (took, set) = runtime.block_on(connect(url, MANY))?;
        all.add(millis(took));
        look_up.add(look_up_nanos(&set));
        index.add(index_bytes(&set));
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
    report.add(
        Row::new(format!("index message of {} tools", MANY * TOOLS_OF_EACH), "bytes", index)
            .with_goal(Goal::AtMost(BODY_BYTES_MAX as f64)),
    );
    report.note(format!(
        "Many: {MANY} servers of {TOOLS_OF_EACH} tools, each of which takes {} ms to list them, \
         until all are connected and listed. The look-up is for the last tool of the last server. \
         The index message is the body that an agent is sent which asks what there is, beside the \
         longest that a broker takes. {rounds} rounds.",
        SLOW.as_millis()
    ));

    Ok(())
}

async fn connect(url: &str, count: usize) -> anyhow::Result<(Duration, ServerPool)> {
    let entry = |server| {
        (format!("many-{server}"), json!({"type": "http", "url": format!("{url}/many/{server}")}))
    };
    let servers: Map<_, _> = (0..count).map(entry).collect();
    let text = json!({"mcpServers": servers}).to_string();
    let config = config::parse(&text, Variables::Refused)?;
    ensure!(config.mistakes.is_empty(), "{:?}", config.mistakes);
    let started = Instant::now();
    let set = ServerPool::start(config.servers, PoolConfig::new(std::env::vars_os()))?;
    set.wait_settled().await;
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

fn look_up_nanos(set: &ServerPool) -> f64 {
    let tool = tool_name(MANY - 1, TOOLS_OF_EACH - 1);
    let started = Instant::now();
    for _ in 0..LOOK_UPS {
        black_box(set.call_timeout(None, black_box(&tool)));
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(LOOK_UPS)
}

fn index_bytes(set: &ServerPool) -> f64 {
    let servers = set.list().into_iter().filter_map(|server| server.summary).collect();
    body::write(&McpServersIndexed { servers, ..McpServersIndexed::default() }).len() as f64
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
