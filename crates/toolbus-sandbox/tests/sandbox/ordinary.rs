//! Scripts that mean no harm, where this runner promises more than every runner does.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolbus_scripts::conformance::endings;
use toolbus_scripts::runner::{
    Deadline, Ending, Error, INPUT_BYTES_MAX, Run, Runner, SCRIPT_BYTES_MAX, Script, Stream,
};

use crate::support::{busy, check, config, probe, run, run_for, sandbox, script, unwatched};

/// Every way to end, compared with `python3 -c` itself: standard error and exit code.
#[tokio::test]
async fn endings_and_tracebacks_are_those_of_python() {
    let Some(sandbox) = sandbox().await else { return };
    for source in endings::OF_ANY_VERSION.iter().chain(endings::OF_ONE_VERSION) {
        let (expected, code) = endings::here(source);
        let outcome = run(&sandbox, source).await;
        assert_eq!(comparable(&outcome.stderr.text), comparable(&expected), "{source}");
        assert_eq!(outcome.ending, Ending::Exited(code.expect("a code")), "{source}");
    }
}

/// Leaves out what differs by the few frames of the bootstrap below the script's: how deep
/// recursion went.
fn comparable(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("[Previous line repeated"));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn modules_are_found_as_by_the_interpreter_itself() {
    let Some(sandbox) = sandbox().await else { return };
    let question = "import sys\nprint(sys.path[1:] if not sys.path[0] else sys.path, sys.prefix, sys.base_prefix)";
    let reference = Command::new("python3").args(["-I", "-c", question]).output().expect("python3");
    let outcome = run(&sandbox, question).await;
    assert_eq!(outcome.output.text, String::from_utf8_lossy(&reference.stdout));
    let imports =
        "import asyncio, ctypes, json, sqlite3, ssl, multiprocessing, decimal\nprint('all')";
    check(&sandbox, imports, "all\n", Ending::Exited(0)).await;
}

#[tokio::test]
async fn what_cannot_be_run_is_refused() {
    let Some(sandbox) = sandbox().await else { return };
    let cases = [
        Script { source: " ".repeat(SCRIPT_BYTES_MAX + 1), ..script("") },
        Script { input: " ".repeat(INPUT_BYTES_MAX + 1), ..script("") },
        Script { input: "a\0b".to_owned(), ..script("") },
        Script { packages: vec!["x; id".to_owned()], ..script("") },
    ];

    for case in cases {
        let refused = sandbox.run(case, unwatched()).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    }

    let outcome = run(&sandbox, "print(1)\0").await;
    assert_eq!(outcome.ending, Ending::Exited(1));

    assert!(outcome.stderr.text.contains("null byte"), "{outcome:?}");
}

#[tokio::test]
async fn the_clock_stops_whatever_a_script_does() {
    let Some(sandbox) = sandbox().await else { return };

    let deaf = "import signal, time\nfor number in set(signal.Signals) - {9, 19}:\n    signal.signal(number, signal.SIG_IGN)\n\
                print('deaf')\ntime.sleep(60)";
    for source in ["print('deaf')\nwhile True: pass", deaf] {
        let start = Instant::now();
        let outcome = run_for(&sandbox, source, Duration::from_millis(700)).await;
        assert_eq!((outcome.output.text.as_str(), outcome.ending), ("deaf\n", Ending::TimedOut));
        assert!(outcome.elapsed >= Duration::from_millis(700), "{:?}", outcome.elapsed);
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[tokio::test]
async fn a_cancelled_script_is_gone_long_before_its_time() {
    let Some(sandbox) = sandbox().await else { return };
    let cancelled = CancellationToken::new();
    let seen = CancellationToken::new();
    let live = {
        let seen = seen.clone();
        move |_: Stream, _: &str| seen.cancel()
    };
    let watched =
        Run { cancelled: cancelled.clone(), live: Some(Arc::new(live)), ..Run::alone("") };
    let running = sandbox.run(script("print('here')\nwhile True: pass"), watched);
    let cancel = async {
        seen.cancelled().await;
        cancelled.cancel();
        Instant::now()
    };

    let (outcome, asked) = tokio::join!(running, cancel);
    let took = asked.elapsed();
    let outcome = outcome.expect("it ran");

    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("here\n", Ending::Cancelled));
    assert!(took < Duration::from_secs(5), "{took:?}");

    let never = Run { cancelled, ..Run::alone("") };
    let refused = sandbox.run(script("print(1)"), never).await;

    assert_eq!(refused, Err(Error::Cancelled));
}

#[tokio::test]
async fn more_than_fit_are_refused_as_busy() {
    let config = toolbus_sandbox::Config { max_concurrent: 1, max_waiting: 1, ..config() };
    let Some(sandbox) = probe(config).await else { return };
    let one = sandbox.run(script("import time\ntime.sleep(0.5)\nprint(1)"), unwatched());
    let two = sandbox.run(script("print(2)"), unwatched());
    let three = async {
        tokio::task::yield_now().await;
        sandbox.run(script("print(3)"), unwatched()).await
    };
    let (one, two, three) = tokio::join!(one, two, three);

    assert_eq!(one.expect("the first runs").output.text, "1\n");
    assert_eq!(two.expect("the second waits").output.text, "2\n");

    busy(three);
}

#[tokio::test]
async fn a_turn_that_does_not_come_before_the_deadline_is_busy() {
    let config = toolbus_sandbox::Config { max_concurrent: 1, ..config() };
    let Some(sandbox) = probe(config).await else { return };
    let cancelled = CancellationToken::new();
    let long = Run { cancelled: cancelled.clone(), ..unwatched() };
    let running = sandbox.run(script("import time\ntime.sleep(60)"), long);

    let waiting = async {
        tokio::task::yield_now().await;
        let hasty = Run { deadline: Deadline::after(Duration::from_secs(1)), ..unwatched() };
        busy(sandbox.run(script("print(2)"), hasty).await);
        cancelled.cancel();
    };

    let (ran, ()) = tokio::join!(running, waiting);

    assert_eq!(ran.expect("it ran").ending, Ending::Cancelled);
}
