//! Servers that repeat their credentials wherever they can: nothing of them is in what the bridge
//! logs, however much that is, nor in what it shows to operators and callers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::Process;
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

/// Every credential begins with it, so that a piece of one is found as well.
const MARK: &str = "s3cret";
/// Not written in JSON as it is.
const TOKEN: &str = "s3cret-\"quoted\\\"-é1";
const KEY: &str = "s3cret-key-of-the-server";
const BEARER: &str = "s3cret-bearer-token";
/// Everything, and what those libraries have to say that are quiet otherwise.
const LOG: &str = "trace,rmcp=trace,rmcp::transport::worker=trace,\
    rmcp::transport::common::client_side_sse=trace";

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolbus-mcp/tests/servers").join(name)
}

/// A program that has its credentials in its environment and among its arguments.
fn leaking() -> Value {
    json!({
        "command": "python3",
        "args": ["-I", script("leaking.py"), "--key", KEY],
        "env": {"API_TOKEN": TOKEN, "LOG_LEVEL": "information"},
    })
}

/// An HTTP server that takes [`BEARER`] and the tokens that it gives itself, and repeats what it
/// was sent, also where it refuses it.
struct Guarded {
    _process: Process,
    _folder: TempDir,
    url: String,
}

impl Guarded {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let behaviour = json!({"known": BEARER, "repeat": true}).to_string();
        let mut command = Command::new("python3");
        command.args(["-E", "-s", "-B"]).arg(script("oauth.py")).arg(behaviour);
        let process = Process::spawn("oauth", &mut command, folder.path()).unwrap();
        let port = eventually(LIMIT, async || {
            let written = process.stdout();
            anyhow::Ok(written.strip_suffix('\n').context("no port yet")?.parse::<u16>()?)
        });
        let url = format!("http://127.0.0.1:{}/mcp", port.await);
        Self { _process: process, _folder: folder, url }
    }

    fn entry(&self, auth: &Value) -> Value {
        json!({"type": "http", "url": self.url, "auth": auth})
    }
}

fn servers(guarded: &Guarded) -> Servers {
    let bearer = json!({"type": "bearer", "token": "${BEARER}"});
    let unknown = json!({"type": "bearer", "token": "s3cret-unknown-token"});
    let issuer = guarded.url.trim_end_matches("/mcp");
    let service = json!({"type": "client_credentials", "issuer": issuer, "clientId": "service",
        "clientSecret": "s3cret-of-the-service"});
    let intruder = json!({"type": "client_credentials", "issuer": issuer, "clientId": "service",
        "clientSecret": "s3cret-of-nobody"});
    Servers::with(&[
        ("leaking", leaking()),
        ("bearer", guarded.entry(&bearer)),
        ("unknown", guarded.entry(&unknown)),
        ("service", guarded.entry(&service)),
        ("intruder", guarded.entry(&intruder)),
    ])
}

/// Calls that end in every way there is: server, tool, and a part of what is told of it.
const CALLS: [(&str, &str, &str); 11] = [
    ("leaking", "say", "*** and *** in information"),
    ("leaking", "fail", "*** and *** in ***"),
    ("leaking", "progress", "done"),
    ("leaking", "mutter", "done"),
    ("leaking", "die", "exit status: 3"),
    ("bearer", "mirror", "***"),
    ("bearer", "repeat", "you sent "),
    ("service", "mirror", "Bearer ***"),
    ("service", "repeat", "you sent Bearer ***"),
    ("unknown", "mirror", "unknown"),
    ("intruder", "mirror", "intruder"),
];

#[track_caller]
fn holds_none(what: &str, text: &str) {
    let found: Vec<_> = text.lines().filter(|line| line.contains(MARK)).collect();
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[tokio::test]
async fn no_credential_is_logged_or_shown() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let (bus, guarded) = (vhost.amqp_url(), Guarded::start().await);
    let servers = servers(&guarded);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let mut bridge = start(bridge.env("TOOLBUS_LOG", LOG).env("BEARER", BEARER)).await;

    for (server, tool, expected) in CALLS {
        let outcome = format!("{:?}", mcp(&bus, server, tool, json!({})).await);
        assert!(outcome.contains(expected), "{server} {tool}: {outcome}");
        holds_none(tool, &outcome);
    }

    let listed = invoke(&bus, "mcp_list_services", json!({})).await;
    holds_none("what is listed", listed.content());
    let (_, status) = bridge.look("/status").await.unwrap();
    assert!(status.contains("intruder"), "{status}");
    holds_none("status", &status);

    bridge.process().terminate(LIMIT).await.unwrap();
    let log = bridge.process().stderr();
    // It is as long as it can be, and what was erased was there.
    for expected in ["TRACE", "rmcp::", "stderr: *** and *** in ***", "stderr: xxxx"] {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }

    holds_none("log", &log);
}
