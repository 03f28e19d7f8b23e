//! Nothing is left: not after a dropped run, not after many, not after the service itself is
//! killed.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::runner::{Ending, Runner};

use crate::support::{
    block_on, check, children, config, descriptors, is_alone, probe, processes_with, run, run_for,
    sandbox, script, unwatched,
};

/// Waits until a condition holds, for at most five seconds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(5);
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        // sleeps: looks again, within a limit.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_dropped_run_is_killed() {
    let Some(sandbox) = sandbox().await else { return };
    let mark = format!("dropped-{}", std::process::id());
    let source =
        format!("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'sleep 300; : {mark}'])");
    let running = sandbox.run(script(&source), unwatched());
    let started = until("the script starts", || !processes_with(&mark).is_empty());

    tokio::select! {
        _ = running => panic!("it does not end by itself"),
        () = started => {}
    }

    until("the script is killed", || processes_with(&mark).is_empty()).await;
}

/// What is counted is the process's, so this runs in one of its own.
#[test]
fn many_runs_leave_nothing() {
    if is_alone("life::many_runs_leave_nothing") {
        block_on(count());
    }
}

async fn count() {
    let Some(sandbox) = probe(config()).await else { return };
    let kinds = [
        ("print(1)", Ending::Exited(0)),
        ("1/0", Ending::Exited(1)),
        (
            "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True, stdout=-3, stderr=-3)",
            Ending::Exited(0),
        ),
        ("import os\nos.kill(0, 9)", Ending::Killed { signal: 9 }),
    ];

    for (source, _) in &kinds {
        run(&sandbox, source).await;
    }

    sandbox.idle().await;
    // One sandbox waits for the next script.
    let held = || (descriptors(), children().len(), leftovers().len());
    let before = held();

    for round in 0..50 {
        let runs = kinds.each_ref().map(|(source, _)| run(&sandbox, source));
        for (outcome, (source, ending)) in
            futures_util::future::join_all(runs).await.iter().zip(&kinds)
        {
            assert_eq!(&outcome.ending, ending, "{source}");
        }

        if round % 10 == 0 {
            let endless = run_for(&sandbox, "while True: pass", Duration::from_millis(100)).await;
            assert_eq!(endless.ending, Ending::TimedOut);
            drop(
                tokio::time::timeout(Duration::from_millis(30), run(&sandbox, "while True: pass"))
                    .await,
            );
        }
    }

    sandbox.idle().await;

    // The kernel may keep a group for a moment; the next run removes it.
    run(&sandbox, "print(1)").await;
    sandbox.idle().await;
    assert_eq!(held(), before);
}

/// How long ago the first process of its sandbox started, in hundredths of a second.
const AGE_OF_THE_SANDBOX: &str = "with open('/proc/uptime') as uptime, open('/proc/1/stat') as first:
    print(int(float(uptime.read().split()[0]) * 100) - int(first.read().rsplit(')')[-1].split()[19]))";

#[tokio::test]
async fn a_sandbox_waits_for_the_next_script_and_runs_no_other() {
    let Some(sandbox) = probe(config()).await else { return };
    sandbox.idle().await;
    for _ in 0..3 {
        // sleeps: the sandbox gets older than that, by the kernel's clock.
        tokio::time::sleep(Duration::from_millis(400)).await;
        let aged = run(&sandbox, AGE_OF_THE_SANDBOX).await;
        let age: u32 = aged.output.text.trim().parse().expect("an age");
        assert!(age >= 40, "{age}");
        // The next one is another.
        sandbox.idle().await;
    }

    let cold = Config { keep_ready: false, ..config() };
    let Some(cold) = probe(cold).await else { return };
    cold.idle().await;
    // sleeps: one that was kept would be older than that, by the kernel's clock.
    tokio::time::sleep(Duration::from_millis(400)).await;
    let aged = run(&cold, AGE_OF_THE_SANDBOX).await;
    let age: u32 = aged.output.text.trim().parse().expect("an age");
    assert!(age < 40, "{age}");
}

/// Whoever may end the service's processes, such as the kernel, may end the one that waits.
#[test]
fn a_sandbox_that_ended_while_it_waited_is_missed_by_nobody() {
    const NAME: &str = "life::a_sandbox_that_ended_while_it_waited_is_missed_by_nobody";
    if !is_alone(NAME) {
        return;
    }

    block_on(async {
        let Some(sandbox) = probe(config()).await else { return };
        sandbox.idle().await;
        let [waiting] = &children()[..] else { panic!("{:?}", children()) };
        let killed = Command::new("kill").args(["-9", waiting]).status().expect("kill");
        assert!(killed.success());
        until("it has ended", || state_of(waiting) == Some('Z')).await;
        check(&sandbox, "print(1)", "1\n", Ending::Exited(0)).await;
        drop(sandbox);
        until("none is left", || children().is_empty()).await;
    });
}

/// The state of a process, as the kernel has it: `Z` once it has ended.
fn state_of(pid: &str) -> Option<char> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(") ")?.1.chars().next()
}

/// Control groups, temporary folders and mounts that carry our name.
fn leftovers() -> Vec<String> {
    let ours = format!("toolbus-sandbox-{}-", std::process::id());
    let mut found = Vec::new();

    let mut open = vec![std::path::PathBuf::from("/sys/fs/cgroup"), std::env::temp_dir()];

    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&ours) || name.starts_with(".bubblewrap") {
                found.push(entry.path().display().to_string());
            } else if folder.starts_with("/sys")
                && entry.file_type().is_ok_and(|kind| kind.is_dir())
            {
                open.push(entry.path());
            }
        }
    }

    found.sort();
    found
}

/// The service is killed in the middle of a run, by a signal that it cannot handle.
#[test]
fn scripts_die_with_the_service() {
    const NAME: &str = "life::scripts_die_with_the_service";

    let mark = match std::env::var("TOOLBUS_TEST_VICTIM") {
        Ok(mark) => return be_killed(&mark),
        Err(_) => format!("orphan-{}", std::process::id()),
    };
    let own = std::env::current_exe().expect("this program");

    let mut service = Command::new(own)
        .args(["--exact", NAME, "--nocapture"])
        .env("TOOLBUS_TEST_VICTIM", &mark)
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");

    block_on(async {
        let end = Instant::now() + Duration::from_secs(20);

        while processes_with(&mark).is_empty() {
            // It ends well by itself only when there is no sandbox and none is required.
            if let Some(status) = service.try_wait().expect("asked") {
                assert!(status.success(), "the service failed before its script started");
                return;
            }
            assert!(Instant::now() < end, "the script does not start");
            // sleeps: looks again, within a limit.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }

        service.kill().expect("killed");
        service.wait().expect("gone");

        until("the script dies with its service", || processes_with(&mark).is_empty()).await;
    });
}

fn be_killed(mark: &str) {
    block_on(async {
        let Some(sandbox) = probe(config()).await else { return };
        let source =
            format!("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'sleep 300; : {mark}'])");
        let outcome = run_for(&sandbox, &source, Duration::from_secs(60)).await;
        panic!("the script ended before its service: {outcome:?}");
    });
}

#[tokio::test]
async fn what_is_missing_is_said() {
    let missing = toolbus_sandbox::Config { python: Some("/nowhere/python3".into()), ..config() };
    let refused = Sandbox::probe(missing).await.map(|_| ()).expect_err("no interpreter");
    assert!(refused.to_string().contains("/nowhere/python3"), "{refused}");
    let root = toolbus_sandbox::Config { unprivileged_id: 0, ..config() };
    let refused = Sandbox::probe(root).await.map(|_| ()).expect_err("root");
    assert!(refused.to_string().contains("unprivileged_id"), "{refused}");
}
