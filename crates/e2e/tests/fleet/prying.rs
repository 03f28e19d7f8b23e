//! A stdio server that probes its surroundings. Without a shield it finds the program that started
//! it and the supervisors of other servers, but can read neither their memory nor their
//! environment. Behind a shield it cannot read files of secrets either.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolbus_testkit::process::{Launch, Process, binary};

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
    // Start servers as on a machine that cannot make a shield.
    let entry = json!({"command": "python3", "args": ["-B", prying], "sandbox": "off"});
    let servers = Servers::with(&[("prying", entry)]);
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

#[tokio::test]
async fn servers_run_without_a_shield_and_doctor_warns() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: bubblewrap works for every user here but for a root without rights");
        return;
    }
    let (servers, folder) = (Servers::with(&[]), tempfile::tempdir().unwrap());
    let mut command = without_privilege(&binary("agent-host").unwrap());
    command.args(["doctor", "--json", "--mcp-config"]).arg(servers.file());
    command.env("XDG_STATE_HOME", folder.path()).stdin(Stdio::null());
    let mut host = Process::spawn("agent-host", &mut command, folder.path()).unwrap();
    host.wait(LIMIT).await.unwrap();

    let findings: Vec<Value> = serde_json::from_str(&host.stdout()).unwrap();
    let of = |name: &str| findings.iter().find(|finding| finding["name"] == name).unwrap();
    assert_eq!(of("mcp marks")["state"], "ok", "{findings:?}");
    let isolation = of("mcp isolation");
    assert_eq!(isolation["state"], "note", "{isolation}");
    let has = |member: &str, part: &str| isolation[member].as_str().unwrap().contains(part);
    assert!(has("detail", "bubblewrap does not work here, so 1 server"), "{isolation}");
    assert!(has("mend", "install bubblewrap"), "{isolation}");
}

#[tokio::test]
async fn a_server_reads_none_of_the_secrets_that_the_settings_name() {
    let spying =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolbus-mcp/tests/servers/spying.py");
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    for (name, text) in [
        ("notes", "open to everyone"),
        ("toolbus.toml", "name = \"RockBot\"\n"),
        ("grant.key", "a key of grants, longer than 32 bytes"),
        ("vault.key", &"ab".repeat(32)),
        ("token", "a token of alice"),
    ] {
        std::fs::write(path(name), text).unwrap();
        std::fs::set_permissions(path(name), Permissions::from_mode(0o600)).unwrap();
    }

    // The first run creates the store.
    for sandbox in ["off", "shield"] {
        let entry = json!({"command": "python3", "args": ["-B", spying], "sandbox": sandbox});
        let servers = Servers::with(&[("spying", entry)]);
        let secrets = ["toolbus.toml", "grant.key", "vault.key", "token"].map(path);
        let mut read = vec![path("notes"), servers.file()];
        read.extend(secrets);
        read.push(path("state.db"));
        let arguments = json!({"read": read});
        let call = json!({"server_name": "spying", "tool_name": "spy", "arguments": arguments});
        let launch = Launch::new("agent-host")
            .args(["invoke", "mcp_invoke_tool", "-", "--json", "--config"])
            .arg(path("toolbus.toml"))
            .arg("--mcp-config")
            .arg(servers.file())
            .env("TOOLBUS_STORE", format!("sqlite:{}", path("state.db").display()))
            .env("TOOLBUS_AUDIT__ENABLED", "true")
            .env("TOOLBUS_GRANTS__KEY_FILE", path("grant.key"))
            .env("TOOLBUS_VAULT__KEY_FILE", path("vault.key"))
            .env("TOOLBUS_HTTP__TOKEN_FILES__alice", path("token"));
        let run = launch.stdin(call.to_string()).run(LIMIT).await.unwrap();

        let outcome: Value = serde_json::from_str(&run.stdout).unwrap();
        let seen: Value = serde_json::from_str(outcome["content"].as_str().unwrap()).unwrap();
        let seen = seen["read"].as_array().unwrap();
        assert!(path("state.db").exists(), "there is something to read: {run:?}");
        if sandbox == "off" {
            let all_but_the_store = &read[..read.len() - 1];
            assert!(all_but_the_store.iter().all(|path| seen.contains(&json!(path))), "{seen:?}");
        } else {
            assert_eq!(seen[..], [json!(path("notes"))], "{run:?}");
        }
    }
}
