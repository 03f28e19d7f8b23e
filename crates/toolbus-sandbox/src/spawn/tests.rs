//! Starting and reaping, without a sandbox.

use std::fs::File;
use std::io::{Read, Seek};

use super::*;
use crate::c_string::c_string;
use crate::process::ChildProcess;

fn plan(program: &str, arguments: &[&str]) -> SpawnPlan {
    let strings =
        |texts: &[&str]| texts.iter().map(|text| c_string(text).expect("no zero")).collect();
    SpawnPlan {
        program: c_string(program).expect("no zero"),
        arguments: strings(&[&[program], arguments].concat()),
        environment: strings(&["ONLY=this"]),
        descriptors: Vec::new(),
        limits: Vec::new(),
        become_id: None,
        directory: c"/".to_owned(),
        group_handles: Vec::new(),
    }
}

async fn spawner() -> ProcessSpawner {
    ProcessSpawner::start(|| Ok::<(), io::Error>(())).await.expect("a thread")
}

fn exists(pid: libc::pid_t) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

#[tokio::test]
async fn a_failed_step_is_named() {
    let spawner = spawner().await;
    let error = spawner.spawn(plan("/nowhere/program", &[])).await.expect_err("no such program");
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
    assert!(error.to_string().contains("execve"), "{error}");
    let missing = SpawnPlan { directory: c"/nowhere".to_owned(), ..plan("/bin/true", &[]) };
    let error = spawner.spawn(missing).await.expect_err("no such folder");
    assert!(error.to_string().contains("chdir"), "{error}");
    let failed =
        ProcessSpawner::start(|| Err(io::Error::other("not here"))).await.expect_err("it failed");

    assert_eq!(failed.to_string(), "not here");
}

#[tokio::test]
async fn a_child_has_what_was_planned_and_nothing_else() {
    let spawner = spawner().await;

    // More than the child may have, so that its limit must not come too early.
    let open = || File::open("/dev/null").expect("a file");
    let _held: Vec<File> = std::iter::repeat_with(open).take(300).collect();
    let mut output = tempfile::tempfile().expect("a file");
    let question =
        "ls -l /proc/self/fd | wc -l; env; ulimit -c; pwd; grep SigIgn /proc/self/status";
    let descriptors =
        [(File::open("/dev/null"), 0), (output.try_clone(), 1), (output.try_clone(), 200)];
    let descriptors = descriptors.map(|(file, target)| (file.expect("a file").into(), target));
    let planned = SpawnPlan {
        descriptors: descriptors.into(),
        limits: vec![(libc::RLIMIT_CORE as c_int, 0), (libc::RLIMIT_NOFILE as c_int, 256)],
        ..plan("/bin/sh", &["-c", question])
    };

    let mut process =
        ChildProcess::new(spawner.spawn(planned).await.expect("started")).expect("watched");
    let (status, _) = process.wait().await.expect("waited for");
    assert_eq!(status.exit_code(), Some(0));
    let mut said = String::new();
    output.rewind().expect("rewound");

    output.read_to_string(&mut said).expect("read");

    // A heading, the three and the folder that is being read.
    let expected = "5\nPWD=/\nONLY=this\n0\n/\nSigIgn:\t0000000000000000\n";
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };

    assert_eq!(sorted(&said), sorted(expected));
}

#[tokio::test]
async fn a_dropped_process_is_killed_and_reaped() {
    let spawner = spawner().await;
    let started = spawner.spawn(plan("/bin/sleep", &["60"])).await.expect("started");
    let process = ChildProcess::new(started).expect("watched");
    let pid = process.pid();
    assert!(exists(pid));
    drop(process);
    assert!(!exists(pid), "{pid} is left");
}
