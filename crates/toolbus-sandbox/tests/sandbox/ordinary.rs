//! Scripts that mean no harm.

use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{
    Ending, Error, INPUT_BYTES_MAX, OUTPUT_BYTES_MAX, Run, Runner, SCRIPT_BYTES_MAX, Script, Stream,
};

use crate::support::{busy, check, config, probe, run, run_for, sandbox, script, unwatched};

#[tokio::test]
async fn recorded_scripts_answer_as_recorded() {
    let Some(sandbox) = sandbox().await else { return };
    let ok = Script {
        input: "in".to_owned(),
        ..script("import os\nprint(40+2, os.environ.get('ROCKBOT_INPUT'))")
    };
    let outcome = sandbox.run(ok, unwatched()).await.expect("it runs");
    assert_eq!(outcome.output.text, "42 in\n");
    check(&sandbox, "import sys\nprint('before')\nsys.exit(3)", "before\n", Ending::Exited(3))
        .await;
    let slow = "import time\nprint('x',flush=True)\ntime.sleep(30)";
    let outcome = run_for(&sandbox, slow, Duration::from_secs(1)).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("x\n", Ending::TimedOut));
    let traceback = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n\
                     ZeroDivisionError: division by zero\n";
    // Since 3.13 Python shows source lines for `-c`, too.
    let newer = traceback.replace("<module>\n", "<module>\n    1/0\n    ~^~\n");
    let outcome = run(&sandbox, "1/0").await;
    assert!([traceback, &newer].contains(&outcome.output.text.as_str()), "{outcome:?}");
    assert_eq!(outcome.ending, Ending::Exited(1));
}

/// Every way to end, compared with `python3 -c` itself: standard error and exit code.
#[tokio::test]
async fn endings_and_tracebacks_are_those_of_python() {
    let Some(sandbox) = sandbox().await else { return };
    let scripts = [
        "def f(n):\n    return f(n - 1) if n else 1 / 0\nf(3)",
        "x = (1,\n",
        "def f():\n  return\n return",
        "print('é' + 1)",
        "try:\n    {}['a']\nexcept KeyError:\n    raise ValueError('ü')",
        "try:\n    1/0\nexcept ZeroDivisionError as error:\n    raise OSError(2, 'no') from error",
        "def f(): f()\nf()",
        "class Bad(Exception):\n    def __str__(self): raise ValueError\nraise Bad",
        "import sys\nsys.exit('a message')",
        "import sys\nsys.exit(None)",
        "import sys\nsys.exit(255)",
        "import sys\nsys.exit(137)",
        "import sys\nsys.exit(-1)",
        "import sys\nsys.exit([1])",
        "raise SystemExit(7)",
        "exit(5)",
        "quit()",
        "import os\nos._exit(137)",
        "import sys\nsys.excepthook = lambda *what: print('hooked', what[0], file=sys.stderr)\n1/0",
        "import atexit, sys\natexit.register(lambda: print('bye', file=sys.stderr))\n1/0",
        "import threading\nthread = threading.Thread(target=lambda: 1/0, name='t')\nthread.start()\nthread.join()",
        "import warnings\nwarnings.warn('careful')",
        "import asyncio\nasync def main(): raise RuntimeError('x')\nasyncio.run(main())",
        "assert False, 'no'",
        "from nowhere import nothing",
        "x is 1",
        "",
        "# -*- coding: latin-1 -*-\nimport sys\nprint('é', file=sys.stderr)",
    ];
    for source in scripts {
        let reference = Command::new("python3")
            .args(["-I", "-c", source])
            .env("LANG", "C.UTF-8")
            .stdin(Stdio::null())
            .output()
            .expect("python3");
        let outcome = run(&sandbox, source).await;
        let expected = String::from_utf8_lossy(&reference.stderr).into_owned();
        assert_eq!(comparable(&outcome.stderr.text), comparable(&expected), "{source}");
        assert_eq!(
            outcome.ending,
            Ending::Exited(reference.status.code().expect("a code")),
            "{source}"
        );
    }
}

/// Leaves out what differs by the few frames of the bootstrap below the script's: how deep
/// recursion went.
fn comparable(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.contains("[Previous line repeated"));
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let Some(sandbox) = sandbox().await else { return };
    check(&sandbox, "import sys\nsys.exit(137)", "", Ending::Exited(137)).await;
    check(&sandbox, "import os\nos._exit(139)", "", Ending::Exited(139)).await;
    for signal in [9, 11, 6, 15, 1] {
        let source = format!("import os\nos.kill(os.getpid(), {signal})");
        check(&sandbox, &source, "", Ending::Killed { signal }).await;
    }
    let interrupted = run(&sandbox, "raise KeyboardInterrupt").await;
    assert_eq!(interrupted.ending, Ending::Killed { signal: 2 });
    assert!(interrupted.stderr.text.ends_with("KeyboardInterrupt\n"), "{interrupted:?}");
}

#[tokio::test]
async fn nothing_of_the_bootstrap_is_left() {
    let Some(sandbox) = sandbox().await else { return };
    let names = "print(sorted(globals()))\nprint(__name__, __doc__, __spec__, __package__)";
    let reference = Command::new("python3").args(["-I", "-c", names]).output().expect("python3");
    let outcome = run(&sandbox, names).await;
    assert_eq!(outcome.output.text, String::from_utf8_lossy(&reference.stdout));
    let facts = "import os, sys\n\
                 print(sys.argv, sys.stdin.read() == '', sys.path[0] == '', os.getcwd())\n\
                 print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1])\n\
                 print(getattr(sys, 'orig_argv', [0, '-c'])[1], sys.stdout.encoding, os.environ['HOME'])";
    let expected = "['-c'] True True /work\n[0, 1, 2]\n-c utf-8 /work\n";
    check(&sandbox, facts, expected, Ending::Exited(0)).await;
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
async fn large_inputs_and_scripts_arrive_whole() {
    let Some(sandbox) = sandbox().await else { return };
    let input: String = "aé漢😀".chars().cycle().take(400_000).collect();
    assert!(input.len() > 900_000);
    let source = "import os, subprocess\ntext = os.environ['ROCKBOT_INPUT']\n\
                  print(len(text), text == 'aé漢😀' * 100000)\n\
                  subprocess.run(['/bin/true'], check=True)";
    let large = Script { input, ..script(source) };
    let outcome = sandbox.run(large, unwatched()).await.expect("it runs");
    assert_eq!(
        (outcome.output.text.as_str(), outcome.ending),
        ("400000 True\n", Ending::Exited(0))
    );
    let long = format!("print(len('{}'))", "x".repeat(900_000));
    check(&sandbox, &long, "900000\n", Ending::Exited(0)).await;
    let in_child = Script {
        input: "in".to_owned(),
        ..script("import subprocess\nsubprocess.run(['/bin/sh', '-c', 'echo $ROCKBOT_INPUT'])")
    };
    let outcome = sandbox.run(in_child, unwatched()).await.expect("it runs");
    assert_eq!(outcome.output.text, "in\n");
    check(
        &sandbox,
        "import os\nprint(repr(os.environ['ROCKBOT_INPUT']))",
        "''\n",
        Ending::Exited(0),
    )
    .await;
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
async fn output_is_kept_apart_and_merged_in_order() {
    let Some(sandbox) = sandbox().await else { return };
    let source = "import sys, time\nfor n in range(3):\n    print('out', n)\n    time.sleep(0.05)\n    \
                  print('err', n, file=sys.stderr)\n    time.sleep(0.05)\nprint('last')\n1/0";
    let outcome = run(&sandbox, source).await;
    assert!(
        outcome
            .output
            .text
            .starts_with("out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\nlast\nTraceback")
    );
    assert_eq!(outcome.stdout.text, "out 0\nout 1\nout 2\nlast\n");
    assert!(outcome.stderr.text.starts_with("err 0\nerr 1\nerr 2\nTraceback"));
}

#[tokio::test]
async fn characters_survive_being_split() {
    let Some(sandbox) = sandbox().await else { return };
    let source = "import os, time\nfor byte in 'é漢😀'.encode():\n    os.write(1, bytes([byte]))\n    time.sleep(0.01)\n\
                  os.write(1, b'|\\xff|\\xe6\\xbc|\\x00|\\x1b[31m|\\xf0\\x9f')";
    let text = "é漢😀|\u{fffd}|\u{fffd}|\0|\u{1b}[31m|\u{fffd}";
    check(&sandbox, source, text, Ending::Exited(0)).await;
}

#[tokio::test]
async fn output_beyond_the_limit_is_dropped_and_said() {
    let Some(sandbox) = sandbox().await else { return };
    let exact = format!("import sys\nsys.stdout.write('x' * {OUTPUT_BYTES_MAX})");
    let outcome = run(&sandbox, &exact).await;
    assert_eq!(outcome.output.text.len(), OUTPUT_BYTES_MAX);
    assert!(!outcome.output.truncated && !outcome.stdout.truncated);
    // The limit falls into the middle of a character.
    let over = format!(
        "import sys\nsys.stdout.write('x' + 'é' * {})\nsys.stderr.write('e')",
        OUTPUT_BYTES_MAX / 2
    );
    let outcome = run(&sandbox, &over).await;
    assert_eq!(outcome.stdout.text.len(), OUTPUT_BYTES_MAX - 1);
    assert!(outcome.stdout.truncated && outcome.output.truncated);
    assert_eq!((outcome.stderr.text.as_str(), outcome.stderr.truncated), ("e", false));
}

#[tokio::test]
async fn output_is_live() {
    let Some(sandbox) = sandbox().await else { return };
    let seen = Arc::new(Mutex::new(Vec::new()));
    let start = Instant::now();
    let live = {
        let seen = Arc::clone(&seen);
        move |stream: Stream, text: &str| {
            seen.lock().expect("lock").push((stream, text.to_owned(), start.elapsed()));
        }
    };
    let watched = Run { live: Some(Arc::new(live)), ..Run::alone("") };
    let source = "import sys, time\nprint('one')\ntime.sleep(0.6)\nprint('two', file=sys.stderr)";
    sandbox.run(script(source), watched).await.expect("it runs");
    let seen = seen.lock().expect("lock");
    let texts: Vec<_> = seen.iter().map(|(stream, text, _)| (*stream, text.as_str())).collect();
    assert_eq!(texts, [(Stream::Stdout, "one\n"), (Stream::Stderr, "two\n")]);
    assert!(seen[1].2 - seen[0].2 >= Duration::from_millis(500));
}

#[tokio::test]
async fn children_that_outlive_the_script_have_a_moment() {
    let Some(sandbox) = sandbox().await else { return };
    let quick = "import subprocess\nsubprocess.Popen(['/bin/sh', '-c', 'sleep 0.05; echo late'])\nprint('done')";
    check(&sandbox, quick, "done\nlate\n", Ending::Exited(0)).await;
    let slow = "import subprocess\nsubprocess.Popen(['/bin/sh', '-c', 'sleep 30; echo late'])\nprint('done')";
    let start = Instant::now();
    check(&sandbox, slow, "done\n", Ending::Exited(0)).await;
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_cancelled_script_is_gone_within_300_ms() {
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
    assert!(took < Duration::from_millis(300), "{took:?}");
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
async fn threads_and_processes_and_memory_are_there() {
    let Some(sandbox) = sandbox().await else { return };
    let threads = "import threading\nbarrier = threading.Barrier(41)\n\
                   threads = [threading.Thread(target=barrier.wait) for _ in range(40)]\n\
                   for thread in threads: thread.start()\nbarrier.wait()\nprint('all')";
    check(&sandbox, threads, "all\n", Ending::Exited(0)).await;
    let pool = "import concurrent.futures as futures\nwith futures.ProcessPoolExecutor(4) as pool:\n    \
                print(sum(pool.map(abs, range(-50, 50))))";
    check(&sandbox, pool, "2500\n", Ending::Exited(0)).await;
    // As numerical libraries do: a large reservation of which some is used.
    let memory = "import mmap\nlarge = mmap.mmap(-1, 2 << 30)\nlarge[:4] = b'used'\n\
                  data = bytearray(150 << 20)\nprint(large[:4], len(data))";
    check(&sandbox, memory, "b'used' 157286400\n", Ending::Exited(0)).await;
    let files = "import tempfile, os\nwith tempfile.NamedTemporaryFile() as file:\n    file.write(b'x' * (8 << 20))\n\
                 open('work.txt', 'w').write('x')\nprint(sorted(os.listdir('.')))";
    check(&sandbox, files, "['output', 'work.txt']\n", Ending::Exited(0)).await;
}

#[tokio::test]
async fn usage_is_told() {
    let Some(sandbox) = sandbox().await else { return };
    let source = "import os, time\ndata = b'x' * (64 << 20)\nfor _ in range(2):\n    if not os.fork():\n        \
                  end = time.process_time() + 0.2\n        while time.process_time() < end: pass\n        os._exit(0)\n\
                  for _ in range(2): os.wait()";
    let usage = run(&sandbox, source).await.usage.expect("usage");
    assert!(usage.cpu >= Duration::from_millis(400), "{usage:?}");
    assert!((64 << 20..256 << 20).contains(&usage.memory_peak), "{usage:?}");
}
