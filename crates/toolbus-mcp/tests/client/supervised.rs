//! Servers under their supervisor: nobody below it outlives it, however the end came, and it is not
//! to be noticed otherwise.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use toolbus_mcp::ServerState;
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::supervisor::Supervisor;
use toolbus_testkit::eventually;

use crate::support::*;

/// How long the end of a stubborn server may take: a moment at the end of its input, two seconds
/// after SIGTERM, and what a busy machine needs.
const END_LIMIT: Duration = Duration::from_secs(8);

/// The number that stands behind this name in the state of a process.
fn status(pid: u32, name: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).expect(name);
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse().unwrap()
}

fn is_there(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// Starts a server of this kind and returns it with its processes, of which there are two.
async fn two(folder: &Path, kind: &str) -> (ServerPool, Vec<u32>) {
    let set = start(json!({"h": hostile(folder, kind)})).await;
    assert!(matches!(state(&set, "h"), ServerState::Connected { .. }), "{:?}", state(&set, "h"));
    let pids = pids(folder, kind);
    assert_eq!(pids.len(), 2);
    (set, pids)
}

#[tokio::test]
async fn a_daemon_ends_with_its_server_however_that_ends() {
    for kind in ["daemon", "daemon-stubborn"] {
        let folder = tempfile::tempdir().unwrap();
        let (set, all) = two(folder.path(), kind).await;
        assert_ne!(status(all[1], "PPid"), all[0], "it left its parent");
        let began = Instant::now();
        set.close(Duration::ZERO).await;
        assert!(began.elapsed() < END_LIMIT, "{:?}", began.elapsed());
        let left: Vec<_> = all.iter().filter(|pid| is_there(**pid)).collect();
        assert!(left.is_empty(), "closed means gone, but there are {left:?}");

        let folder = tempfile::tempdir().unwrap();
        let (set, all) = two(folder.path(), kind).await;
        drop(set);
        gone(&all).await;
    }

    // By itself: the call ends at once, and the daemon with the server.
    let folder = tempfile::tempdir().unwrap();
    let (set, all) = two(folder.path(), "daemon").await;
    let began = Instant::now();
    let error = call(&set, "h", "die", json!({})).await.unwrap_err();
    assert!(error.to_string().contains("(exit status: 7)"), "{error}");
    assert!(began.elapsed() < END_LIMIT, "{:?}", began.elapsed());
    gone(&all).await;
    set.close(Duration::ZERO).await;
}

/// What the processes of an orderly server have said of their ends, sorted.
pub(crate) fn ends(folder: &Path, kind: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join(format!("{kind}.pids.ends")));
    let mut ends: Vec<_> = text.unwrap_or_default().lines().map(str::to_owned).collect();
    ends.sort();
    ends
}

/// That each of these was asked, and not killed.
pub(crate) fn orderly_ends(pids: &[u32]) -> Vec<String> {
    let said = |pid| ["asked", "ended"].map(|what| format!("{what} {pid}"));
    let mut ends: Vec<_> = pids.iter().flat_map(said).collect();
    ends.sort();
    ends
}

#[tokio::test]
async fn everyone_is_asked_to_end_before_anyone_is_killed() {
    // Its daemon takes longer than the server itself, and is not of its group.
    let (folder, kind) = (tempfile::tempdir().unwrap(), "daemon-orderly");
    let (set, all) = two(folder.path(), kind).await;
    set.close(Duration::ZERO).await;
    assert_eq!(ends(folder.path(), kind), orderly_ends(&all));

    // Without a supervisor, the server alone is known.
    let (folder, kind) = (tempfile::tempdir().unwrap(), "orderly");
    let mut options = options();
    options.supervisor = None;
    let set = start_with(json!({"h": hostile(folder.path(), kind)}), options).await;
    let all = pids(folder.path(), kind);
    set.close(Duration::ZERO).await;
    assert_eq!((all.len(), ends(folder.path(), kind)), (1, orderly_ends(&all)));
}

#[test]
fn a_daemon_ends_with_the_runtime() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_set, all) = runtime.block_on(two(folder.path(), "daemon-stubborn"));
    runtime.shutdown_timeout(Duration::from_secs(5));
    tokio::runtime::Runtime::new().unwrap().block_on(gone(&all));
}

#[tokio::test]
async fn the_bridge_takes_over_when_a_supervisor_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let (set, all) = two(folder.path(), "family").await;
    let supervisor = status(all[0], "PPid");
    kill_process(Pid::from_raw(supervisor.cast_signed()).unwrap(), Signal::KILL).unwrap();
    gone(&all).await;
    gone(&[supervisor]).await;
    let echo =
        eventually(PATIENCE, async || call(&set, "h", "echo", json!({"message": "back"})).await);
    assert_eq!(echo.await.text.as_deref(), Some("back"));
    set.close(Duration::ZERO).await;
    gone(&pids(folder.path(), "family")).await;
}

#[tokio::test]
async fn a_supervisor_is_small_and_reaps_while_its_server_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (set, all) = two(folder.path(), "daemon").await;
    let supervisor = status(all[0], "PPid");
    assert_eq!(status(all[1], "PPid"), supervisor, "it is the parent of orphans");
    kill_process(Pid::from_raw(all[1].cast_signed()).unwrap(), Signal::KILL).unwrap();
    gone(&all[1..]).await;
    assert_eq!(status(supervisor, "Threads"), 1);
    let resident_kib = status(supervisor, "VmRSS");
    assert!(resident_kib < 16 << 10, "{resident_kib} KiB, in a debug build");
    let name = std::fs::read_to_string(format!("/proc/{supervisor}/comm")).unwrap();
    assert_eq!(name, "toolbus-mcp-sup\n");
    call(&set, "h", "echo", json!({"message": "x"})).await.unwrap();
    set.close(Duration::ZERO).await;
}

/// Why a server of this entry is not connected.
pub(crate) async fn why(entry: Value) -> String {
    let set = start(json!({"h": entry})).await;
    let ServerState::Failed { failure, .. } = state(&set, "h") else {
        panic!("{:?}", state(&set, "h"))
    };
    set.close(Duration::ZERO).await;
    failure.to_string()
}

#[tokio::test]
async fn an_end_is_told_as_if_there_were_no_supervisor() {
    let folder = tempfile::tempdir().unwrap();
    let why_not = why(hostile(folder.path(), "exits")).await;
    assert!(why_not.ends_with("(exit status: 3)"), "{why_not}");
    let why_not = why(hostile(folder.path(), "crashes")).await;
    assert!(why_not.contains("(signal: 11 (SIGSEGV)"), "{why_not}");
    let missing = why(json!({"command": "/does/not/exist"})).await;
    assert!(missing.ends_with("cannot be started: No such file or directory (os error 2)"));
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "text").unwrap();
    std::fs::set_permissions(&plain, std::fs::Permissions::from_mode(0o600)).unwrap();
    let refused = why(json!({"command": plain})).await;
    assert!(refused.ends_with("cannot be started: Permission denied (os error 13)"), "{refused}");
    // Who only claims that it was not started is not believed more than the number of an error.
    let liar = "echo 'the server was not started: error 2' >&2; exit 124";
    let liar = why(json!({"command": "sh", "args": ["-c", liar]})).await;
    assert!(liar.ends_with("(exit status: 124)"), "{liar}");
}

#[tokio::test]
async fn a_program_that_is_no_supervisor_is_told_as_a_failure() {
    let mut options = options();
    options.supervisor = Some(Supervisor::program("/bin/true"));
    let folder = tempfile::tempdir().unwrap();
    let set = start_with(json!({"h": hostile(folder.path(), "good")}), options).await;
    assert!(matches!(state(&set, "h"), ServerState::Failed { .. }), "{:?}", state(&set, "h"));
    assert!(pids(folder.path(), "good").is_empty(), "the server was never started");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn without_a_supervisor_servers_are_started_directly() {
    let mut options = options();
    options.supervisor = None;
    let folder = tempfile::tempdir().unwrap();
    let set = start_with(json!({"h": hostile(folder.path(), "family")}), options).await;
    call(&set, "h", "echo", json!({"message": "x"})).await.unwrap();
    let all = pids(folder.path(), "family");
    assert_eq!(status(all[0], "PPid"), std::process::id());
    set.close(Duration::ZERO).await;
    gone(&all).await;
}

/// MX-M4.
#[tokio::test]
async fn the_environment_of_a_server_is_not_its_supervisors() {
    let folder = tempfile::tempdir().unwrap();
    let mut entry = hostile(folder.path(), "leaks");
    // The loader would fail the supervisor, if it were its own.
    entry["env"] = json!({"SECRET": "s3cret-key", "LD_LIBRARY_PATH": "/x", "MALLOC_CHECK_": "x"});
    let set = start(json!({"h": entry})).await;
    let error = call(&set, "h", "leak", json!({})).await.unwrap_err();
    let expected = "Tool 'leak' of MCP server 'h' failed: MCP error -32000: the server \
                    says \"cannot use ***\"";
    assert_eq!(error.to_string(), expected);
    let supervisor = status(pids(folder.path(), "leaks")[0], "PPid");
    let environment = std::fs::read(format!("/proc/{supervisor}/environ")).unwrap();
    let mut names = environment.split(|byte| *byte == 0).filter(|variable| !variable.is_empty());
    assert!(names.all(|variable| variable.starts_with(b"TOOLBUS_MCP_SERVER_")));
    set.close(Duration::ZERO).await;
}

#[test]
fn the_supervisor_answers_a_person() {
    let run = |arguments: &[&str]| {
        let program = env!("CARGO_BIN_EXE_toolbus-mcp-supervisor");
        std::process::Command::new(program).args(arguments).output().unwrap()
    };
    let version = run(&["--version"]);
    assert_eq!(version.status.code(), Some(0));
    let expected = concat!("toolbus-mcp-supervisor ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);

    let alone = run(&[]);
    assert_eq!(alone.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&alone.stderr).starts_with("error: Toolbus starts this"));
}

#[tokio::test]
async fn a_server_in_the_wrapper_that_packages_are_run_by() {
    // npx starts npm, that a shell, that the server.
    let Ok(npx) = std::process::Command::new("npx").arg("--version").output() else {
        assert_ne!(std::env::var("TOOLBUS_REQUIRE_REAL").as_deref(), Ok("1"), "there is no npx");
        eprintln!("skipped: there is no npx");
        return;
    };
    assert!(npx.status.success());
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("node_modules/.bin");
    std::fs::create_dir_all(&bin).unwrap();
    std::fs::write(folder.path().join("package.json"), "{}").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/hostile.py");
    let server = bin.join("hostile-server");
    std::fs::write(&server, format!("#!/bin/sh\npython3 -I {script} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&server, std::fs::Permissions::from_mode(0o700)).unwrap();
    let direct = hostile(folder.path(), "daemon-stubborn");
    let arguments = &direct["args"].as_array().unwrap()[2..];
    let mut args = vec![json!("--offline"), json!("--prefix"), json!(folder.path())];
    args.push(json!("hostile-server"));
    args.extend_from_slice(arguments);
    let mut entry = json!({"command": "npx", "args": args});
    entry["env"] = json!({"HOME": folder.path()});

    let set = start(json!({"h": entry})).await;
    assert!(matches!(state(&set, "h"), ServerState::Connected { .. }), "{:?}", state(&set, "h"));
    let all = pids(folder.path(), "daemon-stubborn");
    assert_ne!(status(all[0], "PPid"), status(all[1], "PPid"), "there is somebody in between");
    set.close(Duration::ZERO).await;
    let left: Vec<_> = all.iter().filter(|pid| is_there(**pid)).collect();
    assert!(left.is_empty(), "{left:?}");
}
