use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use toolbus_testkit::eventually;

use super::*;
use crate::ledger;
use crate::record::reply_text;

const LIMIT: Duration = Duration::from_secs(120);

/// A server with a ledger in this folder, and the interpreter for its scripts.
fn start(folder: &Path, serving: &mut JoinSet<anyhow::Result<()>>) -> ScriptPython {
    let python = ScriptPython::create(&folder.join("python")).unwrap();
    let ledger = Arc::new(Ledger::open(&folder.join("ledger")).unwrap());
    let socket = python.socket();
    serving.spawn(async move { serve(&socket, ledger).await });
    python
}

fn run(python: &ScriptPython, script: &str) -> Child {
    let mut command = Command::new(python.interpreter("worker-1").unwrap());
    command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap()
}

fn events(folder: &Path) -> Vec<(EffectEvent, String, String)> {
    let records: Vec<EffectRecord> = ledger::read(&folder.join("ledger")).unwrap();
    records.into_iter().map(|record| (record.event, record.id, record.worker)).collect()
}

#[tokio::test]
async fn a_script_leaves_its_start_and_its_end_and_prints_the_reply() {
    let folder = tempfile::tempdir().unwrap();
    let mut serving = JoinSet::new();
    let python = start(folder.path(), &mut serving);
    for bytes in [3, 26, 1_000] {
        let ended = run(&python, &write_script("call-1", 1, bytes)).wait_with_output();
        let output = ended.await.unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), reply_text("call-1", bytes));
    }
    let expected = [EffectEvent::Start, EffectEvent::End];
    let expected = expected.map(|event| (event, "call-1".to_owned(), "worker-1".to_owned()));
    assert_eq!(events(folder.path())[..2], expected);
}

#[tokio::test]
async fn a_script_that_is_killed_was_aborted() {
    let folder = tempfile::tempdir().unwrap();
    let mut serving = JoinSet::new();
    let python = start(folder.path(), &mut serving);
    let mut child = run(&python, &write_script("call-1", 60_000, 100));
    let last = async |event: EffectEvent| {
        eventually(LIMIT, async || match events(folder.path()).last() {
            Some((last, ..)) if *last == event => Ok(()),
            last => Err(format!("{last:?}")),
        })
        .await;
    };
    last(EffectEvent::Start).await;
    child.kill().await.unwrap();
    last(EffectEvent::Aborted).await;
}
