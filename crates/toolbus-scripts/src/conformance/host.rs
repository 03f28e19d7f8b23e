//! What the machine sees of scripts and of the service, which is the process of the test.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use toolbus_wire::envelope::new_id;

/// Names the test that a process was made for.
const ALONE: &str = "TOOLBUS_TEST_ALONE";
/// A secret of the service, as an operator would hand it over.
const SECRET: &str = "TOOLBUS_TEST_PASSWORD";

/// A mark that no other process has: short enough for a process's own name.
pub(super) fn unique_mark() -> String {
    format!("m{}", &new_id()[..12])
}

/// The processes whose command line or name contains this text.
pub(super) fn processes_with(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    ids.filter(|id| {
        ["cmdline", "comm"].iter().any(|file| {
            let line = fs::read(format!("/proc/{id}/{file}")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
    })
    .collect()
}

/// Waits until no process has this text in its command line or name, for ten seconds at the most.
pub(super) async fn await_no_process(text: &str) {
    let end = Instant::now() + Duration::from_secs(10);
    while !processes_with(text).is_empty() && Instant::now() < end {
        // sleeps: looks again, within a limit.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Memory of this process that holds data, in bytes; the program's own pages come and go.
pub(super) fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    let kibibytes: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kibibytes << 10
}

/// Runs the calling test again in a process of its own, where nothing else runs beside it and whose
/// environment holds a secret; `true` in that process. `path` is the test's, with its crate.
pub(super) fn rerun_alone(path: &str) -> bool {
    if std::env::var_os(ALONE).is_some_and(|alone| alone == path) {
        return true;
    }
    let (_, name) = path.split_once("::").expect("a path begins with the crate");

    let own = std::env::current_exe().expect("this program");
    let mut command = Command::new(own);
    command.args(["--exact", name, "--nocapture"]).env(ALONE, path).env(SECRET, new_id());

    // What is measured is the service's memory, not how many arenas the C library spreads it over.
    command.env("MALLOC_ARENA_MAX", "1");

    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let as_one = said.contains("test result: ok. 1 passed");
    let errors = String::from_utf8_lossy(&output.stderr);

    assert!(output.status.success() && as_one, "{name} alone: {said}{errors}");
    false
}

/// The secret of a process that was made by [`rerun_alone`].
pub(super) fn secret() -> String {
    std::env::var(SECRET).expect("a process of its own has a secret")
}
