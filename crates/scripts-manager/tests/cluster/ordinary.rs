//! Scripts that mean no harm.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Ending, Error, OUTPUT_BYTES_MAX, Run, Runner, Script, Stream};

use crate::support::{check, client, pods_of, run, run_for, runner, script, unwatched};

#[tokio::test]
async fn recorded_scripts_answer_as_recorded() {
    let Some(runner) = runner().await else { return };
    let ok = Script {
        input: "in".to_owned(),
        ..script("import os\nprint(40+2, os.environ.get('ROCKBOT_INPUT'))")
    };
    let outcome = runner.run(ok, unwatched()).await.expect("it runs");
    assert_eq!(outcome.output.text, "42 in\n");
    check(&runner, "import sys\nprint('before')\nsys.exit(3)", "before\n", Ending::Exited(3)).await;
    let slow = "import time\nprint('x',flush=True)\ntime.sleep(30)";
    let outcome = run_for(&runner, slow, Duration::from_secs(1)).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("x\n", Ending::TimedOut));
    let traceback = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n\
                     ZeroDivisionError: division by zero\n";
    let newer = traceback.replace("<module>\n", "<module>\n    1/0\n    ~^~\n");
    let outcome = run(&runner, "1/0").await;
    assert!([traceback, &newer].contains(&outcome.output.text.as_str()), "{outcome:?}");
    assert_eq!(outcome.ending, Ending::Exited(1));
    runner.idle().await;
}

#[tokio::test]
async fn exit_codes_and_signals_are_told_apart() {
    let Some(runner) = runner().await else { return };
    check(&runner, "import sys\nsys.exit(137)", "", Ending::Exited(137)).await;
    for signal in [9, 11] {
        let source = format!("import os\nos.kill(os.getpid(), {signal})");
        check(&runner, &source, "", Ending::Killed { signal }).await;
    }
    runner.idle().await;
}

#[tokio::test]
async fn streams_are_kept_apart_and_are_live() {
    let Some(runner) = runner().await else { return };
    let source = "import sys, time\nfor n in range(3):\n    print('out', n)\n    time.sleep(0.05)\n    \
                  print('err', n, file=sys.stderr)\n    time.sleep(0.05)\ntime.sleep(1)\nprint('é漢😀')";
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let live = {
        let pieces = Arc::clone(&pieces);
        move |stream, text: &str| {
            pieces.lock().expect("lock").push((Instant::now(), stream, text.to_owned()));
        }
    };
    let watched = Run { live: Some(Arc::new(live)), ..unwatched() };
    let outcome = runner.run(script(source), watched).await.expect("it runs");
    let end = Instant::now();
    assert_eq!(outcome.output.text, "out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\né漢😀\n");
    assert_eq!(outcome.stdout.text, "out 0\nout 1\nout 2\né漢😀\n");
    assert_eq!(outcome.stderr.text, "err 0\nerr 1\nerr 2\n");
    let pieces = pieces.lock().expect("lock").clone();
    let (at, stream, text) = &pieces[0];
    assert_eq!((*stream, text.as_str()), (Stream::Stdout, "out 0\n"));
    assert!(end.duration_since(*at) > Duration::from_secs(1), "the output was not live");
    runner.idle().await;
}

#[tokio::test]
async fn what_is_written_without_end_is_cut() {
    let Some(runner) = runner().await else { return };
    let flood = "import sys\nfor _ in range(200): sys.stdout.write('x' * (1 << 20))\nsys.exit(7)";
    let outcome = run(&runner, flood).await;
    assert_eq!(outcome.ending, Ending::Exited(7));
    assert!(outcome.output.truncated && outcome.stdout.truncated && !outcome.stderr.truncated);
    assert_eq!(outcome.output.text.len(), OUTPUT_BYTES_MAX);
    runner.idle().await;
}

#[tokio::test]
async fn large_inputs_and_scripts_arrive_whole() {
    let Some(runner) = runner().await else { return };
    let source = "import os, subprocess\ntext = os.environ['ROCKBOT_INPUT']\n\
                  print(len(text), text == 'aé漢😀' * 250000)\nsubprocess.run(['/bin/true'], check=True)";
    let input = "aé漢😀".repeat(250_000);
    let large = Script { input, ..script(source) };
    let outcome = runner.run(large, unwatched()).await.expect("it runs");
    assert_eq!(
        (outcome.output.text.as_str(), outcome.ending),
        ("1000000 True\n", Ending::Exited(0))
    );
    let long = format!("print(len('{}'))", "x".repeat(900_000));
    check(&runner, &long, "900000\n", Ending::Exited(0)).await;
    runner.idle().await;
}

#[tokio::test]
async fn a_script_that_takes_too_much_memory_is_told_so() {
    let Some(runner) = runner().await else { return };
    let outcome = run(&runner, "print('eating')\nx = b'x' * (1 << 30)").await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("eating\n", Ending::OutOfMemory));
    runner.idle().await;
}

#[tokio::test]
async fn a_cancelled_script_ends_at_once_and_its_pod_is_gone() {
    let Some(runner) = runner().await else { return };
    let client = client().await.expect("a cluster");
    let cancelled = CancellationToken::new();
    let heard = CancellationToken::new();
    let live = {
        let heard = heard.clone();
        move |_, _: &str| heard.cancel()
    };
    let call_id = format!("cancelled {}", std::process::id());
    let run =
        Run { cancelled: cancelled.clone(), live: Some(Arc::new(live)), ..Run::alone(&call_id) };
    let source =
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('here')\ntime.sleep(60)";
    let running = runner.run(script(source), run);
    let cancelling = async {
        heard.cancelled().await;
        assert_eq!(pods_of(&client, &call_id).await.len(), 1);
        cancelled.cancel();
        Instant::now()
    };
    let (outcome, at) = tokio::join!(running, cancelling);
    let outcome = outcome.expect("an outcome");
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("here\n", Ending::Cancelled));
    assert!(at.elapsed() < Duration::from_millis(300), "{:?}", at.elapsed());
    runner.idle().await;
    assert!(pods_of(&client, &call_id).await.is_empty());
}

#[tokio::test]
async fn the_network_is_not_there_from_the_first_line_on() {
    let Some(runner) = runner().await else { return };
    let source = "import socket\nfor family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, 40):\n    \
                  try: socket.socket(family, socket.SOCK_DGRAM)\n    except OSError as error: print(error.errno)\n\
                  try: socket.getaddrinfo('kubernetes.default', 443)\nexcept OSError as error: print('no name')";
    check(&runner, source, "1\n1\n1\n1\nno name\n", Ending::Exited(0)).await;
    runner.idle().await;
}

#[tokio::test]
async fn the_first_process_cannot_be_reached() {
    let Some(runner) = runner().await else { return };
    let source = "import os, signal\n\
                  for path in ('fd/1', 'mem', 'environ', 'maps'):\n    \
                      try: open('/proc/1/' + path, 'rb+').write(b'x')\n    \
                      except OSError as error: print(path, error.errno)\n\
                  for number in set(signal.Signals) - {0}:\n    os.kill(1, number)\n\
                  print(sorted(int(name) for name in os.listdir('/proc/self/fd'))[:-1], os.getppid())\n\
                  print(set(os.environ) - {'PATH', 'HOME', 'TMPDIR', 'LANG', 'USER', 'PYTHONDONTWRITEBYTECODE',\n\
                        'MALLOC_ARENA_MAX', 'OPENBLAS_NUM_THREADS', 'ROCKBOT_INPUT'})\n\
                  print(open('/proc/self/environ').read().strip(chr(0)))\n\
                  print(os.path.exists('/var/run/secrets/kubernetes.io'))";
    let expected = "fd/1 13\nmem 13\nenviron 13\nmaps 13\n[0, 1, 2] 1\nset()\n\nFalse\n";
    check(&runner, source, expected, Ending::Exited(0)).await;
    runner.idle().await;
}

#[tokio::test]
async fn oversized_requests_are_refused_before_a_pod_is_made() {
    let Some(runner) = runner().await else { return };
    let zero = Script { input: "a\0b".to_owned(), ..script("") };
    let refused = runner.run(zero, unwatched()).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
}

#[tokio::test]
async fn eight_at_once_all_answer_for_themselves() {
    let Some(runner) = runner().await else { return };
    let runs = (0..8).map(async |number| {
        let expected = format!("{number}\n");
        check(&runner, &format!("print({number})"), &expected, Ending::Exited(0)).await;
    });
    join_all(runs).await;
    runner.idle().await;
}
