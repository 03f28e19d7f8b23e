//! The vault: what its commands put there reaches tools and MCP servers, and nobody who reads.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::{Finished, Launch, Process, Service, binary};
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

/// Every value begins with it, so that a piece of one is found as well.
const MARK: &str = "c4nary";
/// Not written in JSON or in an address as it is.
const TOKEN: &str = "c4nary-\"quoted\\\"-é1";
const KEY: &str = "c4nary-key/of=the&server";
/// Everything, and what those libraries have to say that are quiet otherwise.
const LOG: &str = "trace,rmcp=trace,rmcp::transport::worker=trace,\
    rmcp::transport::common::client_side_sse=trace";

/// A store of a test's own, and two keys.
struct VaultFiles(TempDir);

impl VaultFiles {
    fn new() -> Self {
        let kept = Self(tempfile::tempdir().unwrap());
        for digit in ["1", "2"] {
            let file = kept.key(digit);
            std::fs::write(&file, digit.repeat(64) + "\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        kept
    }

    fn key(&self, digit: &str) -> PathBuf {
        self.0.path().join(format!("key{digit}"))
    }

    fn store(&self) -> PathBuf {
        self.0.path().join("state.db")
    }

    /// A program with this key for the vault.
    fn with_key(&self, launch: Launch, digit: &str) -> Launch {
        let launch = launch.env("TOOLBUS_STORE", format!("sqlite:{}", self.store().display()));
        launch.env("TOOLBUS_VAULT__KEY_FILE", self.key(digit))
    }

    async fn vault_with(&self, digit: &str, arguments: &[&str], input: &str) -> Finished {
        let launch = Launch::new("agent-host").arg("vault").args(arguments);
        let launch = self.with_key(launch, digit).stdin(input);
        let finished = launch.run(LIMIT).await.unwrap();
        holds_none("what a command prints", &finished.stdout);
        holds_none("what a command prints", &finished.stderr);
        finished
    }

    /// Runs a command of the vault that goes well, and returns what it prints.
    async fn vault(&self, arguments: &[&str], input: &str) -> String {
        let finished = self.vault_with("1", arguments, input).await;
        assert!(finished.status.success(), "{finished:?}");
        finished.stdout
    }

    async fn set(&self, provider: &str, name: &str, value: &str) {
        let told = self.vault(&["set", provider, name], &format!("{value}\n")).await;
        assert_eq!(told, format!("set '{name}' of {provider}\n"));
    }
}

#[track_caller]
fn holds_none(what: &str, text: &str) {
    let found: Vec<_> = text.lines().filter(|line| line.contains(MARK)).collect();
    assert!(found.is_empty(), "{what}: {found:#?}");
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../toolbus-mcp/tests/servers").join(name)
}

/// A program that repeats its credentials wherever a server can.
fn leaking() -> Value {
    json!({
        "command": "python3",
        "args": ["-I", script("leaking.py"), "--key", "${vault:KEY}"],
        "env": {"API_TOKEN": "${vault:TOKEN}", "LOG_LEVEL": "information"},
    })
}

/// A program that keeps every token that it was started with.
fn remembering(folder: &TempDir) -> Value {
    json!({
        "command": "python3",
        "args": ["-E", "-s", "-B", script("remembering.py"), folder.path()],
        "env": {"TOKEN": "${vault:TOKEN}"},
    })
}

/// An HTTP server that repeats what it is sent.
struct SentServer {
    process: Process,
    _folder: TempDir,
}

impl SentServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("python3");
        command.args(["-E", "-s", "-B"]).arg(script("sent_http.py"));
        Self {
            process: Process::spawn("sent", &mut command, folder.path()).unwrap(),
            _folder: folder,
        }
    }

    async fn entry(&self) -> Value {
        let port = eventually(LIMIT, async || {
            let written = self.process.stdout();
            anyhow::Ok(written.strip_suffix('\n').context("no port yet")?.parse::<u16>()?)
        });
        let url = format!("http://127.0.0.1:{}/mcp?key=${{vault:KEY}}", port.await);
        json!({"url": url, "headers": {"X-Key": "${vault:KEY}", "Authorization": "Bearer ${vault:T}"}})
    }
}

/// Calls that end in every way there is: server, tool, and a part of what is told of it.
const CALLS: [(&str, &str, Option<&str>, &str); 8] = [
    ("leaking", "say", None, "*** and *** in information"),
    ("leaking", "fail", None, "*** and *** in ***"),
    ("leaking", "progress", None, "done"),
    ("leaking", "mutter", None, "done"),
    ("leaking", "die", None, "exit status: 3"),
    ("sent", "sent", None, "/mcp?key=***"),
    ("sent", "sent", Some("fail"), "the server says"),
    ("missing", "say", None, "`agent-host vault set mcp:missing TOKEN` puts it there"),
];

async fn all_values(kept: &VaultFiles) {
    kept.set("mcp:leaking", "TOKEN", TOKEN).await;
    kept.set("mcp:leaking", "KEY", KEY).await;
    kept.set("mcp:sent", "KEY", KEY).await;
    kept.set("mcp:sent", "T", "c4nary-bearer").await;
    kept.set("mcp:missing", "KEY", KEY).await;
}

#[tokio::test]
async fn no_credential_of_the_vault_is_logged_or_shown() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let (bus, kept, sent) = (vhost.amqp_url(), VaultFiles::new(), SentServer::start());
    all_values(&kept).await;
    let others = [("leaking", leaking()), ("sent", sent.entry().await), ("missing", leaking())];
    let servers = Servers::with(&others);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let mut bridge = start(kept.with_key(bridge.env("TOOLBUS_LOG", LOG), "1")).await;

    for (server, tool, argument, expected) in CALLS {
        let arguments = argument.map_or(json!({}), |argument| json!({argument: true}));
        let outcome = format!("{:?}", mcp(&bus, server, tool, arguments).await);
        assert!(outcome.contains(expected), "{server} {tool}: {outcome}");
        holds_none(tool, &outcome);
    }

    let listed = invoke(&bus, "mcp_list_services", json!({})).await;
    holds_none("what is listed", listed.content());
    let (_, status) = bridge.look("/status").await.unwrap();
    assert!(status.contains("mcp:missing"), "{status}");
    holds_none("status", &status);
    bridge.process().terminate(LIMIT).await.unwrap();
    let log = bridge.process().stderr();
    for expected in ["TRACE", "rmcp::", "stderr: *** and *** in ", "a credential was read"] {
        assert!(log.contains(expected), "{expected} is not in {log}");
    }
    holds_none("log", &log);
    let printed = launch("mcp-bridge", &bus).arg("--print-config");
    let printed = kept.with_key(printed, "1").run(LIMIT).await.unwrap();
    assert!(printed.stdout.contains("key_file"), "{printed:?}");
    holds_none("settings", &printed.stdout);
    let disk = std::fs::read(kept.store()).unwrap();
    holds_none("store", &String::from_utf8_lossy(&disk));
}

/// A call through an agent whose fleet is in its own process, with all that it logs.
async fn embedded(
    kept: &VaultFiles,
    digit: &str,
    servers: &Servers,
    tool: &str,
    arguments: Value,
) -> Outcome {
    let launch = Launch::new("agent-host").args(["invoke", tool, "-", "--json", "--mcp-config"]);
    let launch =
        launch.arg(servers.file()).stdin(arguments.to_string()).env("TOOLBUS_LOG", "debug");
    Outcome::of(kept.with_key(launch, digit).run(LIMIT).await.unwrap())
}

fn say(server: &str, tool: &str) -> Value {
    json!({"server_name": server, "tool_name": tool, "arguments": {}})
}

#[tokio::test]
async fn an_embedded_fleet_has_them_and_shows_none() {
    let kept = VaultFiles::new();
    all_values(&kept).await;
    let servers = Servers::with(&[("leaking", leaking())]);
    for tool in ["say", "fail", "die"] {
        let outcome = embedded(&kept, "1", &servers, "mcp_invoke_tool", say("leaking", tool)).await;
        assert!(outcome.stderr.contains("DEBUG"), "{outcome:?}");
        holds_none(tool, &format!("{} {}", outcome.json, outcome.stderr));
        if tool == "say" {
            assert!(outcome.content().starts_with("*** and *** in information"), "{outcome:?}");
        }
    }
    let printed = Launch::new("agent-host").args(["invoke", "x", "--print-config"]);
    let printed = kept.with_key(printed, "1").run(LIMIT).await.unwrap();
    assert!(printed.stdout.contains("key_file"), "{printed:?}");
    holds_none("settings", &printed.stdout);
}

#[tokio::test]
async fn with_the_wrong_key_nothing_runs_that_has_credentials() {
    let kept = VaultFiles::new();
    kept.set("script", "TOKEN", TOKEN).await;
    kept.set("mcp:leaking", "TOKEN", TOKEN).await;
    kept.set("mcp:leaking", "KEY", KEY).await;
    let servers = Servers::with(&[("leaking", leaking())]);
    let python = json!({"script": "print(42)"});
    let right = embedded(&kept, "1", &servers, "execute_python_script", python.clone()).await;
    assert_eq!(right.content(), "42\n");

    let why = "the vault was sealed with another key";
    let wrong = embedded(&kept, "2", &servers, "execute_python_script", python.clone()).await;
    assert_eq!(wrong.code(), "denied");
    let expected = format!("the credentials of 'script' cannot be read: {why}");
    assert_eq!(wrong.json["error"]["message"], json!(expected));
    let wrong = embedded(&kept, "2", &servers, "mcp_invoke_tool", say("leaking", "say")).await;
    let message = wrong.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("'TOKEN'") || message.contains("'KEY'"), "{message}");
    assert!(message.contains(why) && wrong.code() == "denied", "{wrong:?}");
    // Others have nothing to do with the vault.
    let other = embedded(&kept, "2", &servers, "mcp_invoke_tool", say("marks", "mark")).await;
    assert_eq!(other.exit, Some(0), "{other:?}");

    for arguments in [&["list"][..], &["remove", "script", "TOKEN"], &["set", "script", "OTHER"]] {
        let run = kept.vault_with("2", arguments, "value").await;
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(
            run.stderr.starts_with("error: the vault was sealed with another key: "),
            "{run:?}"
        );
    }
    // A key that others can read is not read.
    std::fs::set_permissions(kept.key("1"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let run = kept.vault_with("1", &["list"], "").await;
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(run.stderr.contains("it must be its owner's alone (chmod 600)"), "{run:?}");
    let open = embedded(&kept, "1", &servers, "execute_python_script", python).await;
    assert_eq!(open.code(), "denied");
    let expected = "the credentials of 'script' cannot be read: the key of the vault cannot be had";
    assert_eq!(open.json["error"]["message"], json!(expected));
}

#[tokio::test]
async fn a_changed_credential_is_used_after_the_server_was_connected_again() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let (bus, kept, folder) = (vhost.amqp_url(), VaultFiles::new(), tempfile::tempdir().unwrap());
    let servers = Servers::with(&[("r", remembering(&folder))]);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let mut bridge = start(kept.with_key(bridge.env("TOOLBUS_LOG", LOG), "1")).await;
    assert!(!kept.store().exists(), "a look makes no store");
    let told = mcp(&bus, "r", "tell", json!({})).await;
    assert!(told.json.to_string().contains("agent-host vault set mcp:r TOKEN"), "{told:?}");

    // The bridge hears of it, and of the one that follows.
    kept.set("mcp:r", "TOKEN", "c4nary-first").await;
    let first = tell(&bus, &bridge, 1).await;
    kept.set("mcp:r", "TOKEN", "c4nary-second").await;
    assert_eq!(tell(&bus, &bridge, 1).await, first, "it is the same connection");
    assert_eq!(mcp(&bus, "r", "tell", json!({"die": true})).await.exit, Some(1));
    assert_ne!(tell(&bus, &bridge, 2).await, first);

    // So it does of another key, where its file has that by then.
    kept.vault(&["change-key", "--new-key-file", kept.key("2").to_str().unwrap()], "").await;
    std::fs::rename(kept.key("2"), kept.key("1")).unwrap();
    kept.set("mcp:r", "TOKEN", "c4nary-third").await;
    assert_eq!(mcp(&bus, "r", "tell", json!({"die": true})).await.exit, Some(1));
    tell(&bus, &bridge, 3).await;
    bridge.process().terminate(LIMIT).await.unwrap();
    holds_none("log", &bridge.process().stderr());
}

/// The digest of the server's token, once it was started so often; it says all that it had.
async fn tell(bus: &str, bridge: &Service, starts: usize) -> Value {
    eventually(LIMIT, async || {
        let outcome = mcp(bus, "r", "tell", json!({})).await;
        let text = format!("{outcome:?}");
        holds_none("tell", &text);
        let told = outcome.json["content"].as_str().context(text.clone())?;
        let told: Value = serde_json::from_str(told).context(text)?;
        anyhow::ensure!(told["tokens"] == json!(vec!["***"; starts]), "{told}");
        let (_, status) = bridge.look("/status").await?;
        holds_none("status", &status);
        Ok(told["digest"].clone())
    })
    .await
}

#[tokio::test]
async fn credentials_are_set_listed_and_removed_from_the_command_line() {
    let kept = VaultFiles::new();
    assert_eq!(kept.vault(&["list"], "").await, "");
    assert_eq!(kept.vault(&["list", "--json"], "").await, "[]\n");
    assert!(!kept.store().exists(), "a look makes no file");
    let absent = kept.vault_with("1", &["remove", "local", "TOKEN"], "").await;
    assert_eq!(absent.status.code(), Some(1));
    assert_eq!(absent.stderr, "error: there is no credential 'TOKEN' of local\n");

    let place = ["local", "TOKEN", "--tool", "pay", "--user", "claimed:alice"];
    let set = [&["set"], &place[..]].concat();
    let told = "'TOKEN' of local/pay for claimed:alice";
    assert_eq!(kept.vault(&set, TOKEN).await, format!("set {told}\n"));
    let listed = kept.vault(&["list"], "").await;
    assert!(
        listed.starts_with(&format!("{told}, set ")) && listed.ends_with("s ago\n"),
        "{listed}"
    );
    let listed: Value = serde_json::from_str(&kept.vault(&["list", "--json"], "").await).unwrap();
    let mut row = listed[0].clone();
    assert!(row.as_object_mut().unwrap().remove("writtenMs").unwrap().is_i64());
    let expected =
        json!({"provider": "local", "tool": "pay", "user": "claimed:alice", "name": "TOKEN"});
    assert_eq!(row, expected);

    for (arguments, input, told) in [
        (&["set", "local", "A"][..], "", "the value is empty"),
        (&["set", "", "A"], "x", "the provider of a credential has 1 to 512 bytes"),
        (&["set", "mcp:", "A"], "x", "name"),
        (&["set", "mcp:x", "A/B"], "x", "the name of an MCP server's credential has letters"),
        (&["set", "mcp:x", "A", "--tool", "t"], "x", "an MCP server is connected once for all"),
        (&["set", "local", "A", "the-value"], "", "unexpected argument"),
        (&["change-key"], "", "--new-key-file"),
    ] {
        let run = kept.vault_with("1", arguments, input).await;
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stderr.contains(told), "{told}: {run:?}");
    }
    let short = kept.vault_with("1", &["set", "local", "SHORT"], "x").await;
    assert!(short.status.success() && short.stderr.contains("less than six bytes"), "{short:?}");
    let none = Launch::new("agent-host").args(["vault", "list"]).run(LIMIT).await.unwrap();
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert!(none.stderr.contains("`vault.key_file`"), "{none:?}");
    change_key(&kept).await;

    let removed = kept.vault_with("2", &[&["remove"], &place[..]].concat(), "").await;
    assert_eq!(removed.stdout, format!("removed {told}\n"), "{removed:?}");
}

/// By a command this time.
async fn change_key(kept: &VaultFiles) {
    let file = kept.key("2");
    let new = ["change-key", "--new-key-command", "cat", file.to_str().unwrap()];
    let told = kept.vault(&new, "").await;
    assert!(told.starts_with("every credential is sealed with the key "), "{told}");
    assert_eq!(kept.vault_with("1", &["list"], "").await.status.code(), Some(1));
    let listed = kept.vault_with("2", &["list"], "").await.stdout;
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

#[tokio::test]
async fn a_value_that_is_typed_is_not_shown() {
    let kept = VaultFiles::new();
    let folder = tempfile::tempdir().unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/at_terminal.py");
    let mut command = Command::new("python3");
    command.arg("-I").arg(script).arg(TOKEN).arg(binary("agent-host").unwrap());
    command.args(["vault", "set", "local", "TOKEN"]);
    // It warns of names that it does not know.
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("TOOLBUS_STORE", format!("sqlite:{}", kept.store().display()));
    command.env("TOOLBUS_VAULT__KEY_FILE", kept.key("1"));
    let mut typing = Process::spawn("typing", &mut command, folder.path()).unwrap();
    assert!(typing.wait(LIMIT).await.unwrap().success(), "{}", typing.logs());
    let expected = "Value of 'TOKEN' of local: \nset 'TOKEN' of local\necho is on\n";
    assert_eq!(typing.stdout(), expected);
    assert!(kept.vault(&["list"], "").await.starts_with("'TOKEN' of local, set "));
}

/// What is kept where is said at the start.
#[tokio::test]
async fn a_service_says_where_it_keeps_credentials() {
    let kept = VaultFiles::new();
    let launch = Launch::new("agent-host").arg("serve");
    let mut service = start(kept.with_key(launch, "1")).await;
    let (_, status) = service.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(
        status["details"]["state"]["keeps"],
        json!(["approvals", "sessions", "memory", "schedules", "credentials", "artifacts"])
    );
    let log = service.process().logs();
    assert!(
        log.contains(
            "approvals, sessions, memory, schedules, credentials and artifacts are kept here"
        ),
        "{log}"
    );
    assert!(!kept.store().exists());
}
