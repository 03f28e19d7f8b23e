//! The ledgers of effects, and the jobs of a store.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use toolbus_store::sqlx::{self, AnyConnection, Connection as _};

use super::tally::{Effect, Ended, Told, count_effects};

/// The ledgers of one fleet: the file that an MCP server writes, and the lines that scripts send.
#[derive(Debug)]
pub(super) struct Ledger {
    folder: TempDir,
    scripts: Arc<Mutex<Vec<String>>>,
    next: AtomicU64,
}

impl Ledger {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder, scripts: Arc::default(), next: AtomicU64::new(0) }
    }

    /// Returns the number of a new call.
    pub(super) fn next_call(&self, kind: &str) -> String {
        format!("{kind}-{}", self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the entry of the server in an `mcp.json`.
    pub(super) fn server(&self) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/earlier/ledger.py");
        json!({"command": "python3", "args": [script, self.folder.path()]})
    }

    /// Returns the path of a file in the folder of the ledger.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns every effect that has started, by its number.
    pub(super) fn effects(&self) -> BTreeMap<String, Effect> {
        let written = std::fs::read_to_string(self.file("ledger")).unwrap_or_default();
        let told = self.scripts.lock().clone();
        count_effects(written.lines().chain(told.iter().map(String::as_str)))
    }

    /// Returns the effect of a call.
    pub(super) fn effect(&self, call: &str) -> Effect {
        self.effects().get(call).copied().unwrap_or_default()
    }

    /// Receives lines from scripts until it is dropped.
    pub(super) async fn hear_scripts(&self, listener: UnixListener) {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            connections.spawn(hear_script(stream, Arc::clone(&self.scripts)));
        }
    }
}

/// Reads the lines of one script. A killed script ends its connection in the middle of a line.
async fn hear_script(mut stream: UnixStream, told: Arc<Mutex<Vec<String>>>) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let words: Vec<_> = line.split(' ').collect();
        told.lock().push(format!("{} {}", words[0], words[1]));
        if write.write_all(b"ok\n").await.is_err() {
            return;
        }
    }
}

/// A row of a job in the store.
#[derive(Debug, Clone)]
pub(super) struct StoredJob {
    pub(super) id: String,
    pub(super) state: String,
    pub(super) created_ms: i64,
    pub(super) ended_ms: Option<i64>,
}

/// Returns the jobs of a store, `sqlite:PATH` or `postgres://…`, which a program may have open.
pub(super) async fn stored_jobs(store: &str) -> anyhow::Result<Vec<StoredJob>> {
    sqlx::any::install_default_drivers();
    let mut connection = AnyConnection::connect(store).await?;
    let rows = "SELECT id, state, created_ms, ended_ms FROM http_jobs";
    let rows: Vec<(String, String, i64, Option<i64>)> =
        sqlx::query_as(rows).fetch_all(&mut connection).await?;
    connection.close().await?;

    let jobs = rows.into_iter().map(|(id, state, created_ms, ended_ms)| StoredJob {
        id,
        state,
        created_ms,
        ended_ms,
    });
    Ok(jobs.collect())
}

impl StoredJob {
    /// Returns the result that the client received. `None`: the job has not ended.
    pub(super) fn into_ended(self, call: &str) -> Option<Ended> {
        let told = if self.state == "completed" { Told::Done } else { Told::Unknown };
        let span_ms = (self.created_ms, self.ended_ms?);
        Some(Ended { call: call.to_owned(), told, why: self.state, span_ms })
    }
}
