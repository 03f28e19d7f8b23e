//! Two bridges with one list of servers are one bridge: one of them has each server at a time, and
//! the other has it seconds after that one was killed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;
use toolbus::Toolbus;
use toolbus_bus::Bus;
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_testkit::{eventually, rabbit};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::McpServerSummary;

use crate::support::*;

/// Calls that have to succeed.
const CALLS: usize = 1_000;
/// Callers, each with one call at a time.
const CALLERS: usize = 4;
/// How often the bridge that has the server is killed.
const KILLS: usize = 3;

/// What the server tells of a call.
#[derive(Debug)]
struct Count {
    session: String,
    n: u64,
    at: u64,
}

impl Count {
    fn read(text: &str) -> Self {
        let told: Value = serde_json::from_str(text).unwrap();
        let session = told["session"].as_str().unwrap().to_owned();
        Self { session, n: told["n"].as_u64().unwrap(), at: told["at"].as_u64().unwrap() }
    }
}

async fn is_there(toolbus: &Toolbus) {
    let has_server = |servers: &[McpServerSummary]| {
        servers.iter().any(|server| server.server_name == "counter" && server.tool_count == 1)
    };
    assert!(toolbus.directory().wait_until(LIMIT, has_server).await, "it was not announced");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_bridges_that_are_killed_in_turn_lead_no_call_to_a_wrong_session() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let script = "../toolbus-mcp/tests/servers/counting.py";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let counter = json!({"command": "python3", "args": ["-E", "-s", "-B", script]});
    let servers = Servers::with(&[("counter", counter)]);
    let bus = vhost.amqp_url();
    let mut bridges = [bridge(&bus, &servers).await, bridge(&bus, &servers).await];

    let mut config = Config::new(&bus).unwrap();
    config.start = Start::Within(LIMIT);
    let connection: Arc<dyn Bus> = RabbitBus::connect(config).await.unwrap();
    let toolbus = Toolbus::builder().bus(Arc::clone(&connection)).open().await.unwrap();
    let toolbus = Arc::new(toolbus);
    is_there(&toolbus).await;

    let done = Arc::new(AtomicUsize::new(0));
    let killed = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let (toolbus, done, killed) =
            (Arc::clone(&toolbus), Arc::clone(&done), Arc::clone(&killed));
        callers.spawn(async move { call_until_done(&toolbus, &done, &killed).await });
    }

    for kill in 0..KILLS {
        // Some calls at each bridge: that many more, or all there are.
        let enough = (kill + 1) * CALLS / (KILLS + 2);
        eventually(LIMIT, async || {
            let done = done.load(Ordering::Relaxed);
            if done >= enough { Ok(()) } else { Err(format!("{done} of {enough} calls")) }
        })
        .await;
        // Which of them has the server is the broker's to know: every second kill is of a standby
        // at most.
        bridges[kill % 2].process().kill();
        // sleeps: some calls are made while it is away.
        sleep(Duration::from_millis(300)).await;
        bridges[kill % 2] = bridge(&bus, &servers).await;
    }
    killed.store(true, Ordering::Relaxed);

    let mut counts = Vec::new();
    let mut unknown = 0;
    for (succeeded, lost) in callers.join_all().await {
        counts.extend(succeeded);
        unknown += lost;
    }
    judge(&counts, unknown);
    toolbus.close().await;
    connection.close(Duration::from_secs(1)).await;
}

/// Calls until all callers together have made enough calls, and no bridge is killed any more.
/// Returns what was told, and how many calls have an unknown outcome.
async fn call_until_done(
    toolbus: &Toolbus,
    done: &AtomicUsize,
    killed: &AtomicBool,
) -> (Vec<Count>, usize) {
    let (mut counts, mut unknown) = (Vec::new(), 0);
    let call = json!({"server_name": "counter", "tool_name": "count", "arguments": {}});

    while done.load(Ordering::Relaxed) < CALLS || !killed.load(Ordering::Relaxed) {
        let scope = toolbus.local_scope();
        match toolbus.call(&scope, "mcp_invoke_tool", call.clone()).await {
            Ok(output) => {
                counts.push(Count::read(&output.content.unwrap()));
                done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => match error.code {
                // Its bridge was killed while it had the call.
                ErrorCode::OutcomeUnknown => unknown += 1,
                _ => panic!("{error:?}"),
            },
        }
        // sleeps: the pace of the calls.
        sleep(Duration::from_millis(2)).await;
    }
    (counts, unknown)
}

fn judge(counts: &[Count], unknown: usize) {
    assert!(counts.len() >= CALLS, "{} calls", counts.len());
    assert!(unknown <= KILLS * CALLERS, "{unknown} calls with an unknown outcome");

    let mut sessions: BTreeMap<&str, Vec<&Count>> = BTreeMap::new();
    for count in counts {
        sessions.entry(&count.session).or_default().push(count);
    }
    for (session, counts) in &mut sessions {
        counts.sort_by_key(|count| count.n);
        let twice = counts.windows(2).find(|pair| pair[0].n == pair[1].n);
        assert!(twice.is_none(), "{session}: one call was answered twice: {twice:?}");
        let told = counts.len();
        let last = usize::try_from(counts[told - 1].n).unwrap();
        assert!(last - told <= unknown, "{session}: {last} calls were made, {told} told of");
    }

    // One session is over before the next begins.
    let mut spans: Vec<_> =
        sessions.values().map(|calls| (calls[0].at, calls[calls.len() - 1].at)).collect();
    spans.sort_unstable();
    assert!(spans.len() > 1, "the server was never handed on");
    for pair in spans.windows(2) {
        assert!(pair[0].1 < pair[1].0, "calls went to two sessions at a time: {pair:?}");
    }
}
