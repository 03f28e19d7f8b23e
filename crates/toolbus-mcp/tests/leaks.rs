//! What is left after many starts that are given up at every moment of them: nothing. A test
//! program of its own, because it counts everything that the process has.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_mcp::supervisor::Supervisor;
use toolbus_testkit::eventually;

const STARTS: u32 = 200;
const AT_A_TIME: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(120);
/// Starts a process in its group, one that leaves it, and waits for ever.
const SERVER: &str = "sleep 1000 & setsid sleep 1000 & echo $$ >> \"$0\"; wait";

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The processes that have this path among their arguments, and all children of this one.
fn left(marks: &Path) -> Vec<String> {
    let own = std::process::id().to_string();
    let marks = marks.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    processes
        .filter_map(|process| {
            let stat = std::fs::read_to_string(process.join("stat")).ok()?;
            let line = std::fs::read(process.join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).into_owned();
            let fields = stat.rsplit_once(')')?.1;
            let is_child = fields.split_ascii_whitespace().nth(1) == Some(&*own);
            (is_child || line.contains(marks)).then(|| format!("{stat} {line}"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_starts_that_are_given_up_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let marks = folder.path().join("marks");
    let entry = json!({"command": "sh", "args": ["-c", SERVER, marks]});
    let text = json!({"mcpServers": {"s": entry}}).to_string();
    let entries = config::parse(&text, Variables::Refused).unwrap().servers;
    let mut options = PoolConfig::new(std::env::vars_os());
    let program = env!("CARGO_BIN_EXE_toolbus-mcp-supervisor");
    options.supervisor = Some(Supervisor::program(program));

    let one = async |start: u32| {
        let set = ServerPool::start(entries.clone(), options.clone()).unwrap();
        // sleeps: it is given up at any moment, from before anything runs up to long after
        // everything does.
        tokio::time::sleep(Duration::from_millis(u64::from(start % 20 * 5))).await;
        if start.is_multiple_of(2) {
            drop(set);
        } else {
            set.close(Duration::ZERO).await;
        }
    };
    // What the runtime keeps for all children is there from the first one on.
    one(19).await;
    eventually(PATIENCE, async || match left(&marks) {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    })
    .await;
    let before = descriptors();
    for batch in 0..STARTS / AT_A_TIME {
        join_all((0..AT_A_TIME).map(|start| one(batch * AT_A_TIME + start))).await;
    }
    eventually(PATIENCE, async || match (left(&marks), descriptors()) {
        (left, now) if left.is_empty() && now <= before => Ok(()),
        (left, now) => Err(format!("{now} descriptors, {before} before, {left:?}")),
    })
    .await;
    let started = std::fs::read_to_string(&marks).unwrap().lines().count();
    assert!(started > 20, "only {started} servers came as far as to run");
}
