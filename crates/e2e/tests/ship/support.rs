//! What the tests share.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use toolbus_testkit::tools::{Docker, output};

/// How long anything may take that ends sooner on an idle machine. No test waits for it to pass.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// A path of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

/// The client's answer as JSON.
pub(crate) fn docker(docker: &Docker, arguments: &[&str]) -> Value {
    let text = output(docker.command("docker").args(arguments)).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Tries until it gives something, and panics with the last reason at the limit.
pub(crate) fn until<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        match attempt() {
            Ok(found) => return found,
            Err(error) => assert!(Instant::now() < end, "not in time: {error:?}"),
        }
        // sleeps: looks again, within a limit, by starting a program.
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// The content of a call that went well, out of what `agent-host invoke --json` printed.
#[track_caller]
pub(crate) fn content(printed: &str) -> String {
    let outcome: Value =
        serde_json::from_str(printed).unwrap_or_else(|error| panic!("{error}: {printed}"));
    assert_eq!(outcome["isError"], false, "{outcome}");
    outcome["content"].as_str().unwrap().trim_end().to_owned()
}

/// An MCP server over stdio that leaves marks in the folder `/tmp`, as an entry of `mcp.json`.
pub(crate) fn marking_server() -> Value {
    let script = std::fs::read_to_string(repository("crates/e2e/tests/fleet/server.py")).unwrap();
    serde_json::json!({"command": "python3", "args": ["-c", script, "/tmp"]})
}
