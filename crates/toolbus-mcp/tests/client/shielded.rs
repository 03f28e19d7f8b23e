//! Servers behind the default shield. They see this machine as without a shield, except for secrets
//! and the processes of others, and they start and end as without one.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_config::TimeSpan;
use toolbus_mcp::ServerState;
use toolbus_mcp::config::{Entry, StdioIsolation, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_mcp::settings::McpSettings;
use toolbus_testkit::eventually;

use crate::supervised::{ends, orderly_ends, why};
use crate::support::*;

/// Options with the shield, which is on by default.
fn shielded_options() -> PoolConfig {
    let mut options = options();
    options.stdio_isolation = StdioIsolation::default();
    options
}

/// Values in the environment of this process, which servers do not inherit.
const OF_THE_BRIDGE: &str = "CARGO_MANIFEST_DIR=";
const OF_ANOTHER_SERVER: &str = "canary-of-another-server";

fn spying(sandbox: Value) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/spying.py");
    let [environment, user, bytecode] = PYTHON_OPTIONS;
    let args = json!([environment, user, bytecode, script]);
    json!({"command": "python3", "args": args, "sandbox": sandbox})
}

fn shielded(folder: &Path, kind: &str) -> Value {
    let mut entry = hostile(folder, kind);
    entry["sandbox"] = json!("shield");
    entry
}

async fn spy(set: &ServerPool, wanted: Value) -> Value {
    let seen = call(set, "s", "spy", wanted).await.unwrap();
    serde_json::from_str(&seen.text.unwrap()).unwrap()
}

/// Creates a folder with files at these relative paths.
fn folder_with(files: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for file in files {
        let file = folder.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, "s3cret").unwrap();
    }
    folder
}

#[tokio::test]
async fn by_default_a_server_sees_no_secret_and_no_other_server() {
    let folder = folder_with(&[
        "home/notes",
        "home/state/state.db",
        "work/data",
        "work/grant.key",
        "secrets/password",
        "volume/..1/vault.key",
    ]);
    let path = |name: &str| folder.path().join(name);
    symlink("..1", path("volume/..data")).unwrap();
    symlink("..data/vault.key", path("volume/vault.key")).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let open = [path("home/notes"), path("work/data")];
    let secrets =
        ["home/state/state.db", "work/grant.key", "secrets/password", "volume/vault.key"].map(path);
    let all = [&open[..], &secrets[..]].concat();
    let mut other = spying(json!(null));
    other["env"] = json!({"OTHER_KEY": OF_ANOTHER_SERVER});

    for sandbox in [json!(null), json!("off")] {
        let mut options = shielded_options();
        let hidden = ["home/state", "work/grant.key", "secrets/password", "volume/vault.key"];
        options.secret_paths = hidden.map(path).to_vec();
        let mut entry = spying(sandbox.clone());
        entry["env"] = json!({"HOME": path("home")});
        entry["cwd"] = json!(path("work"));
        let set = start_with(json!({"s": entry, "other": other}), options).await;
        let wanted = json!({
            "read": all,
            "seek": [OF_THE_BRIDGE, OF_ANOTHER_SERVER],
            "port": port,
        });
        let seen = spy(&set, wanted).await;
        set.close(Duration::ZERO).await;

        assert_eq!((&seen["connects"], &seen["home"]), (&json!(true), &json!(path("home"))));
        assert_eq!(seen["cwd"], json!(path("work").canonicalize().unwrap()), "{seen}");
        assert_eq!(seen["uid"], json!(rustix::process::geteuid().as_raw()), "{seen}");
        if sandbox.is_null() {
            assert_eq!((&seen["read"], &seen["found"]), (&json!(open), &json!([])), "{seen}");
            assert!(seen["processes"].as_u64().unwrap() <= 2, "{seen}");
        } else {
            assert_eq!(seen["read"], json!(all), "{seen}");
            assert_eq!(seen["found"], json!([OF_THE_BRIDGE, OF_ANOTHER_SERVER]), "{seen}");
        }
    }
}

/// Replaces files as Kubernetes does: the new files are in a new folder, and a link selects the
/// current folder.
#[tokio::test]
async fn a_key_that_is_replaced_in_its_volume_stays_hidden() {
    let folder = folder_with(&["volume/..1/key", "volume/..2/key"]);
    let path = |name: &str| folder.path().join(name);
    symlink("..1", path("volume/..data")).unwrap();
    symlink("..data/key", path("volume/key")).unwrap();
    let mut options = shielded_options();
    options.secret_paths = vec![path("volume/key")];
    let set = start_with(json!({"s": spying(json!(null))}), options).await;
    symlink("..2", path("volume/new")).unwrap();
    fs::rename(path("volume/new"), path("volume/..data")).unwrap();

    let wanted = json!({"read": [path("volume/key"), path("volume/..2/key")]});
    assert_eq!(spy(&set, wanted).await["read"], json!([]));
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn the_files_of_the_settings_are_hidden_unless_that_is_off() {
    for isolation in [StdioIsolation::Shield, StdioIsolation::Off] {
        let folder = folder_with(&["notes", "tokens/s.json", "pins/other", "broker-password"]);
        let path = |name: &str| folder.path().join(name);
        let list = json!({"mcpServers": {"s": spying(json!(null))}}).to_string();
        fs::write(path("mcp.json"), list).unwrap();
        fs::write(path("mcp.registered.json"), r#"{"mcpServers": {}}"#).unwrap();
        let settings = McpSettings {
            config: Some(path("mcp.json")),
            pins: Some(path("pins")),
            tokens: Some(path("tokens")),
            secret_paths: vec![path("broker-password")],
            supervisor: Some(supervisor()),
            connect_timeout: TimeSpan::seconds(CONNECT_LIMIT.as_secs()),
            stdio_isolation: isolation,
            ..McpSettings::default()
        };
        let set = settings.start_servers().unwrap();
        set.wait_settled().await;
        let secrets =
            ["mcp.json", "mcp.registered.json", "tokens/s.json", "pins/other", "broker-password"];
        let all: Vec<PathBuf> = ["notes"].into_iter().chain(secrets).map(path).collect();
        let seen = spy(&set, json!({"read": all})).await;
        set.close(Duration::ZERO).await;
        match isolation {
            StdioIsolation::Shield => assert_eq!(seen["read"], json!([path("notes")])),
            StdioIsolation::Off => assert_eq!(seen["read"], json!(all)),
        }
    }
}

/// A server moves a folder above the secrets, and reads them at their new place after its restart.
#[tokio::test]
async fn a_server_cannot_move_secrets_out_of_their_place() {
    let folder = folder_with(&["home/notes", "home/.local/state/toolbus/key"]);
    let path = |name: &str| folder.path().join(name);
    let state = "home/.local/state";
    let moves = [
        (state, "home/.local/old"),
        ("home/.local", "home/old"),
        ("home", "old"),
        ("home/notes", "home/renamed"),
    ]
    .map(|(old, new)| [path(old), path(new)]);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
    let sandbox = json!({"mounts": [scripts], "writableMounts": [path("home")]});

    for sandbox in [json!(null), sandbox] {
        let start = || {
            let mut options = shielded_options();
            options.secret_paths = vec![path(state).join("toolbus")];
            start_with(json!({"s": spying(sandbox.clone())}), options)
        };
        let set = start().await;
        let seen = spy(&set, json!({"read": [], "move": moves})).await;
        set.close(Duration::ZERO).await;
        // It can rename other files.
        assert_eq!(seen["moved"], json!([moves[3]]), "{seen}");

        let set = start().await;
        let places = [state, "home/.local/old", "home/old/state", "old/.local/state"];
        let places = places.map(|place| path(place).join("toolbus/key"));
        assert_eq!(spy(&set, json!({"read": places})).await["read"], json!([]));
        set.close(Duration::ZERO).await;
        fs::rename(path("home/renamed"), path("home/notes")).unwrap();
    }
}

#[tokio::test]
async fn the_mounts_of_a_sandbox_show_no_secret() {
    let folder = folder_with(&["home/notes", "home/state/key", "home/grant.key"]);
    let path = |name: &str| folder.path().join(name);
    symlink("home", path("link")).unwrap();
    let start = |mounts: &[&str]| {
        let mut options = shielded_options();
        options.secret_paths = vec![path("home/state"), path("home/grant.key")];
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers");
        let writable: Vec<PathBuf> = mounts.iter().map(|mount| path(mount)).collect();
        let sandbox = json!({"mounts": [scripts], "writableMounts": writable});
        start_with(json!({"s": spying(sandbox)}), options)
    };

    for mount in ["home", "link"] {
        let set = start(&[mount]).await;
        let files = ["notes", "state/key", "grant.key"].map(|file| path(mount).join(file));
        let seen = spy(&set, json!({"read": files})).await;
        assert_eq!(seen["read"], json!([files[0]]), "{seen}");
        set.close(Duration::ZERO).await;
    }
    for mount in ["home/state", "link/grant.key"] {
        let set = start(&[mount]).await;
        let ServerState::Failed { failure, .. } = state(&set, "s") else { panic!("it runs") };
        let told = failure.to_string();
        assert!(told.starts_with("it can have no sandbox: its mount "), "{told}");
        set.close(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn a_folder_of_tokens_is_hidden_before_the_first_login() {
    let folder = folder_with(&["mcp.json"]);
    let path = |name: &str| folder.path().join(name);
    let list = json!({"mcpServers": {"s": spying(json!(null))}}).to_string();
    fs::write(path("mcp.json"), list).unwrap();
    let settings = McpSettings {
        config: Some(path("mcp.json")),
        tokens: Some(path("data/tokens")),
        pins: Some(path("pins")),
        supervisor: Some(supervisor()),
        connect_timeout: TimeSpan::seconds(CONNECT_LIMIT.as_secs()),
        ..McpSettings::default()
    };
    let set = settings.start_servers().unwrap();
    set.wait_settled().await;
    fs::create_dir_all(path("data/tokens")).unwrap();
    fs::write(path("data/tokens/s.json"), "s3cret").unwrap();
    let seen = spy(&set, json!({"read": [path("data/tokens/s.json")]})).await;
    assert_eq!(seen["read"], json!([]));
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn environment_files_are_hidden_from_all_servers() {
    let folder = folder_with(&["mcp.json", "notes"]);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("other.env"), "API_KEY=s3cret").unwrap();
    let wanted = json!({"read": [path("notes"), path("other.env")]});
    let mut other = spying(json!(null));
    other["envFile"] = json!(path("other.env"));
    // The server whose file it is starts after the one that looks for it.
    let servers = json!({"s": spying(json!(null)), "z": other});
    let set = start_with(servers.clone(), shielded_options()).await;
    assert_eq!(spy(&set, wanted.clone()).await["read"], json!([path("notes")]));
    set.close(Duration::ZERO).await;

    // The same for entries that a reload adds.
    fs::write(path("mcp.json"), r#"{"mcpServers": {}}"#).unwrap();
    let settings = McpSettings {
        config: Some(path("mcp.json")),
        pins: Some(path("pins")),
        tokens: Some(path("tokens")),
        supervisor: Some(supervisor()),
        connect_timeout: TimeSpan::seconds(CONNECT_LIMIT.as_secs()),
        ..McpSettings::default()
    };
    let set = settings.start_servers().unwrap();
    fs::write(path("mcp.json"), json!({"mcpServers": servers}).to_string()).unwrap();
    let called = eventually(CONNECT_LIMIT, async || call(&set, "s", "spy", wanted.clone()).await);
    let seen: Value = serde_json::from_str(&called.await.text.unwrap()).unwrap();
    assert_eq!(seen["read"], json!([path("notes")]), "{seen}");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn an_agent_cannot_have_a_server_without_a_shield() {
    let folder = folder_with(&["key"]);
    let Value::Object(members) = spying(json!("off")) else { unreachable!() };
    let mut options = shielded_options();
    options.secret_paths = vec![folder.path().join("key")];
    let set = start_with(json!({}), options).await;
    let entry = Entry::parse("s", members.clone(), Variables::Refused).unwrap();
    set.register(entry, members).await.unwrap();
    let seen = spy(&set, json!({"read": [folder.path().join("key")]})).await;
    assert_eq!(seen["read"], json!([]));
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_server_that_would_start_among_secrets_is_not_started() {
    let folder = folder_with(&["state/work/file"]);
    let mut options = shielded_options();
    options.secret_paths = vec![folder.path().join("state")];
    let mut entry = spying(json!(null));
    entry["cwd"] = json!(folder.path().join("state/work"));
    let set = start_with(json!({"s": entry}), options).await;
    let ServerState::Failed { failure, .. } = state(&set, "s") else { panic!("it runs") };
    let told = failure.to_string();
    assert!(told.starts_with("it can have no shield: its folder "), "{told}");
    assert!(told.contains("\"sandbox\": \"off\""), "{told}");
    set.close(Duration::ZERO).await;
}

async fn start_shielded(folder: &Path, kind: &str, options: PoolConfig) -> ServerPool {
    let set = start_with(json!({"h": shielded(folder, kind)}), options).await;
    let echo = call(&set, "h", "echo", json!({"message": "x"})).await.unwrap();
    assert_eq!(echo.text.as_deref(), Some("x"));
    assert!(!processes_of(folder).is_empty());
    set
}

async fn none_left(folder: &Path) {
    eventually(PATIENCE, async || match processes_of(folder) {
        left if left.is_empty() => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test]
async fn a_shielded_server_leaves_no_processes() {
    for kind in ["good", "family", "daemon", "daemon-stubborn"] {
        let folder = tempfile::tempdir().unwrap();
        let set = start_shielded(folder.path(), kind, shielded_options()).await;
        set.close(Duration::ZERO).await;
        assert_eq!(processes_of(folder.path()), [0_u32; 0], "{kind}");

        let set = start_shielded(folder.path(), kind, shielded_options()).await;
        drop(set);
        none_left(folder.path()).await;

        // Even without a supervisor, everything ends with the namespace.
        let mut options = shielded_options();
        options.supervisor = None;
        let set = start_shielded(folder.path(), kind, options).await;
        set.close(Duration::ZERO).await;
        none_left(folder.path()).await;
    }
}

#[tokio::test]
async fn every_shielded_process_is_asked_to_end() {
    let (folder, kind) = (tempfile::tempdir().unwrap(), "daemon-orderly");
    let set = start_shielded(folder.path(), kind, shielded_options()).await;
    set.close(Duration::ZERO).await;
    // The processes know their ids in their own namespace.
    let all = pids(folder.path(), kind);
    assert_eq!((all.len(), ends(folder.path(), kind)), (2, orderly_ends(&all)));
}

#[tokio::test]
async fn an_exit_is_reported_as_without_a_shield() {
    let folder = tempfile::tempdir().unwrap();
    let why_not = why(shielded(folder.path(), "exits")).await;
    assert!(why_not.ends_with("(exit status: 3)"), "{why_not}");
    let why_not = why(shielded(folder.path(), "crashes")).await;
    assert!(why_not.contains("(signal: 11 (SIGSEGV)"), "{why_not}");
    for (command, expected) in [
        ("/does/not/exist", "cannot be started: No such file or directory (os error 2)"),
        ("no-such-program", "cannot be started: No such file or directory (os error 2)"),
        ("plain", "cannot be started: Permission denied (os error 13)"),
    ] {
        let plain = folder.path().join("plain");
        fs::write(&plain, "text").unwrap();
        fs::set_permissions(&plain, fs::Permissions::from_mode(0o600)).unwrap();
        let command = if command == "plain" { plain } else { command.into() };
        let told = why(json!({"command": command, "sandbox": "shield"})).await;
        assert!(told.ends_with(expected), "{told}");
    }
}
