//! Servers in a sandbox: they work as they do without, and reach of this machine what their entry
//! names and nothing else.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_mcp::ServerState;
use toolbus_mcp::config::{Entry, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_testkit::mcp;

use crate::support::*;

fn servers_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers")
}

fn confined(sandbox: Value) -> Value {
    let script = servers_folder().join("confined.py");
    let [environment, user, bytecode] = PYTHON_OPTIONS;
    let args = json!([environment, user, bytecode, script]);
    json!({"command": "python3", "args": args, "sandbox": sandbox})
}

fn options_with_homes(folder: &Path) -> PoolConfig {
    let mut options = options();
    options.sandbox_homes = Some(folder.join("homes"));
    options
}

/// What a server finds that tries everything here.
async fn look(set: &ServerPool, folder: &Path, port: u16) -> Value {
    let data = folder.join("data");
    let folders = json!(["~", "/tmp", "/usr", "/etc", "/", "/dev", servers_folder(), data]);
    look_and_write(set, folder, port, folders).await
}

async fn look_and_write(set: &ServerPool, folder: &Path, port: u16, write: Value) -> Value {
    let secret = folder.join("secret");
    std::fs::write(&secret, "s3cret").unwrap();
    let program = std::env::current_exe().unwrap();
    let read = [secret, "/etc/shadow".into(), "/etc/hostname".into(), program];
    let tried = json!({"read": read, "write": write, "connect": port});
    let seen = call(set, "c", "look", tried).await.unwrap();
    serde_json::from_str(&seen.text.unwrap()).unwrap()
}

#[tokio::test]
async fn a_sandboxed_server_reaches_what_its_entry_names() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();

    // Without a sandbox it reads what the bridge reads.
    let set = start(json!({"c": confined(json!(false))})).await;
    let seen = look_and_write(&set, folder.path(), port, json!([data])).await;
    assert!(seen["read"].as_array().unwrap().len() >= 2, "{seen}");
    assert_eq!((&seen["write"], &seen["connects"]), (&json!([data]), &json!(true)), "{seen}");
    set.close(Duration::ZERO).await;
    std::fs::remove_file(data.join("written")).unwrap();

    let mut entry = confined(json!({"mounts": [servers_folder()], "writableMounts": [data]}));
    // What would have a program write outside, or load what it should not, is for the server alone.
    let traced = folder.path().join("traced");
    entry["env"] = json!({"API_KEY": "s3cret-key", "LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": traced});
    let start = || start_with(json!({"c": entry}), options_with_homes(folder.path()));
    let set = start().await;
    let seen = look(&set, folder.path(), port).await;
    assert_eq!(seen["read"], json!([]), "{seen}");
    assert_eq!(seen["write"], json!(["~", "/tmp", data]), "{seen}");
    assert_eq!((&seen["connects"], &seen["cwd"]), (&json!(false), &json!("/home/server")));
    assert_eq!(seen["key_bytes"], "s3cret-key".len());
    assert!(seen["processes"].as_u64().unwrap() <= 2, "{seen}");
    let variables = seen["variables"].as_array().unwrap();
    assert!(variables.contains(&json!("LD_DEBUG")), "{seen}");
    let files = std::fs::read_dir(folder.path()).unwrap().flatten();
    let names: Vec<_> = files.map(|file| file.file_name()).collect();
    assert!(!names.iter().any(|name| name.to_str().unwrap().starts_with("traced")), "{names:?}");
    assert!(!variables.iter().any(|name| name.as_str().unwrap().starts_with("TOOLBUS")), "{seen}");
    assert!(data.join("written").exists());
    set.close(Duration::ZERO).await;

    // Its home is its own, and is kept.
    assert!(folder.path().join("homes/c/written").exists());
    let set = start().await;
    assert_eq!(look(&set, folder.path(), port).await["written"], true);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_sandbox_has_the_network_where_its_entry_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let sandbox = json!({"mounts": [servers_folder()], "network": true});
    let set = start(json!({"c": confined(sandbox)})).await;
    let seen = look(&set, folder.path(), port).await;
    assert_eq!((&seen["read"], &seen["connects"]), (&json!([]), &json!(true)), "{seen}");
    set.close(Duration::ZERO).await;
}

/// A program that an agent registers is not asked whether it wants a sandbox.
#[tokio::test]
async fn registered_programs_are_sandboxed_by_default() {
    let folder = tempfile::tempdir().unwrap();
    // As an argument, since no file of this machine is there.
    let read = |name| std::fs::read_to_string(servers_folder().join(name)).unwrap();
    let source = read("confined.py");
    let import = "from stdio_server import serve\n";
    assert!(source.contains(import));
    let source = source.replace(import, &read("stdio_server.py"));
    let members = json!({"type": "stdio", "command": "python3", "args": ["-I", "-c", source]});
    let Value::Object(members) = members else { unreachable!() };
    let entry = || Entry::parse("c", members.clone(), Variables::Refused).unwrap();
    for is_sandboxed in [false, true] {
        let mut options = options();
        options.sandbox_registered = is_sandboxed;
        let set = start_with(json!({}), options).await;
        set.register(entry(), members.clone()).await.unwrap();
        let seen = look_and_write(&set, folder.path(), 1, json!([])).await;
        assert_eq!(seen["read"].as_array().unwrap().is_empty(), is_sandboxed, "{seen}");
        set.close(Duration::ZERO).await;
    }
}

#[tokio::test]
async fn what_a_sandboxed_server_starts_ends_with_it() {
    for kind in ["good", "family", "daemon", "daemon-stubborn"] {
        let folder = tempfile::tempdir().unwrap();
        let mut entry = hostile(folder.path(), kind);
        let mounts = json!({"mounts": [servers_folder()], "writableMounts": [folder.path()]});
        entry["sandbox"] = mounts;
        let set = start(json!({"h": entry})).await;
        assert!(
            matches!(state(&set, "h"), ServerState::Connected { .. }),
            "{:?}",
            state(&set, "h")
        );
        let echo = call(&set, "h", "echo", json!({"message": "x"})).await.unwrap();
        assert_eq!(echo.text.as_deref(), Some("x"));

        // Their own numbers are those of the sandbox; outside they are found by their arguments.
        assert!(!processes_of(folder.path()).is_empty());
        set.close(Duration::ZERO).await;
        assert_eq!(processes_of(folder.path()), [0_u32; 0], "{kind}");
    }
}

#[tokio::test]
async fn servers_of_others_work_in_a_sandbox() {
    let (Some(everything), Some(time)) = (mcp::everything_stdio(), mcp::time()) else { return };
    // The one's program is in its folder, the other's in one below.
    let sandboxed = |server: mcp::StdioServer, depth: usize| {
        let command = Path::new(&server.command);
        let folder = command.ancestors().nth(depth).unwrap();
        let program = command.canonicalize().unwrap();
        let own = [folder.canonicalize().unwrap(), folder.to_owned()];
        let own = own.into_iter().chain(program.parent().map(Path::to_owned));
        let mounts: Vec<PathBuf> = own.filter(|path| !path.starts_with("/usr")).collect();
        let mut entry = server.to_json();
        entry["sandbox"] = json!({"mounts": mounts});
        entry
    };
    let mut everything = sandboxed(everything, 1);
    everything["deniedTools"] = json!([crate::real::DENIED]);
    let set = start(json!({"everything": everything, "time": sandboxed(time, 2)})).await;
    crate::real::answers_as_recorded(&set).await;
    crate::real::progress_timeout_and_cancellation(&set).await;
    let now = call(&set, "time", "get_current_time", json!({"timezone": "UTC"})).await.unwrap();
    assert!(!now.is_error, "{now:?}");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_sandbox_that_cannot_be_is_no_reason_to_do_without() {
    let sandbox = json!({"mounts": ["/nowhere/at/all"]});
    let set = start(json!({"c": confined(sandbox)})).await;
    let ServerState::Failed { failure, .. } = state(&set, "c") else { panic!("it runs") };
    let words = failure.last_words().unwrap_or_default();
    assert!(words.contains("/nowhere/at/all"), "{failure} {words}");
    set.close(Duration::ZERO).await;
}
