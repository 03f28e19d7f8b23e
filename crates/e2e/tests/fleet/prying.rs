//! A stdio server that looks at the processes around it: it finds the program that started it and
//! the supervisors of other servers, and reads neither their memory nor their environment.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolbus_testkit::process::{Process, binary};

use crate::support::*;

/// `agent-host` as it runs in production: without a right to read any process. Root has several
/// here, which are then taken away; another user has none.
fn without_privilege(program: &Path) -> Command {
    let may_change = rustix::process::geteuid().is_root();
    let mut command = Command::new(if may_change { Path::new("setpriv") } else { program });
    if may_change {
        command.args(["--bounding-set", "-all", "--inh-caps", "-all", "--"]);
        command.arg(program);
    }
    command
}

#[tokio::test]
async fn a_server_reads_nothing_of_the_processes_around_it() {
    let prying =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolbus-mcp/tests/servers/prying.py");
    let servers =
        Servers::with(&[("prying", json!({"command": "python3", "args": ["-B", prying]}))]);
    let mut text: Value =
        serde_json::from_str(&std::fs::read_to_string(servers.file()).unwrap()).unwrap();
    text["mcpServers"]["marks"]["env"] = json!({"MARKS_KEY": "s3cret-key-of-marks"});
    std::fs::write(servers.file(), text.to_string()).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let mut command = without_privilege(&binary("agent-host").unwrap());
    let call = json!({"server_name": "prying", "tool_name": "pry"}).to_string();
    command.args(["invoke", "mcp_invoke_tool", &call, "--json", "--mcp-config"]);
    command.arg(servers.file()).env("XDG_STATE_HOME", folder.path()).stdin(Stdio::null());
    let mut host = Process::spawn("agent-host", &mut command, folder.path()).unwrap();
    let id = host.id();
    let status = host.wait(LIMIT).await.unwrap();
    assert!(status.success(), "{}", host.logs());

    let outcome: Value = serde_json::from_str(&host.stdout()).unwrap();
    let seen: Value = serde_json::from_str(outcome["content"].as_str().unwrap()).unwrap();
    assert_eq!(seen["own"], json!(true), "what it tries can be done: {seen}");
    assert_eq!(seen["parents"][1], json!(id), "it found the program: {seen}");
    assert!(seen["supervisors"].as_array().unwrap().len() >= 2, "and other servers': {seen}");
    assert_eq!(seen["read"], json!([]));
}
