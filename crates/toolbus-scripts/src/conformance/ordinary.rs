//! What every script may rely on.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolbus_bus::Progress;
use toolbus_wire::message::script::{
    EXIT_CODE_UNKNOWN, ScriptInvokeRequest, ScriptInvokeResponse, ScriptReason,
};
use toolbus_wire::message::toolbus::OutputStream;

use crate::runner::OUTPUT_BYTES_MAX;

use super::endings;
use super::stage::{Stage, script};

pub(super) async fn recorded_scripts_answer_as_recorded(stage: Stage) {
    let ok = ScriptInvokeRequest {
        input_data: Some("in".to_owned()),
        ..script("import os\nprint(40+2, os.environ.get('ROCKBOT_INPUT'))")
    };
    let response = stage.ask(ok).await;
    assert_eq!((response.output.as_deref(), response.exit_code), (Some("42 in\n"), 0));
    assert_eq!(response.stderr, None);
    stage.check("import sys\nprint('before')\nsys.exit(3)", "before\n", 3).await;

    let slow = stage.run_for("import time\nprint('x',flush=True)\ntime.sleep(30)", 1).await;
    assert_eq!((slow.output.as_deref(), slow.exit_code), (Some("x\n"), EXIT_CODE_UNKNOWN));
    assert_eq!(slow.stderr.as_deref(), Some("Script timed out after 1s"));
    assert_eq!(slow.reason, Some(ScriptReason::TimedOut));

    let response = stage.run("1/0").await;
    assert_eq!(response.exit_code, 1);

    let traceback = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n\
                     ZeroDivisionError: division by zero\n";

    // Since 3.13 Python shows source lines for `-c`, too.
    let newer = traceback.replace("<module>\n", "<module>\n    1/0\n    ~^~\n");
    let output = response.output.expect("output");

    assert!(output == traceback || output == newer, "{output}");
    stage.check("import os\nprint(repr(os.environ['ROCKBOT_INPUT']))", "''\n", 0).await;
}

pub(super) async fn exit_codes_are_the_scripts_own(stage: Stage) {
    for (source, code) in [
        ("", 0),
        ("import sys\nsys.exit(7)", 7),
        ("import sys\nsys.exit(255)", 255),
        ("import sys\nsys.exit(-1)", 255),
        ("import sys\nsys.exit(137)", 137),
        ("import os\nos._exit(139)", 139),
        ("quit()", 0),
        ("exit(5)", 5),
        ("raise SystemExit", 0),
    ] {
        let response = stage.run(source).await;

        let told = (response.exit_code, response.signal, response.reason.clone());

        assert_eq!(told, (code, None, None), "{source}\n{response:?}");
    }
}

/// Compared with the interpreter of this machine, so only what versions agree on is asked.
pub(super) async fn tracebacks_are_those_of_python(stage: Stage) {
    for source in endings::OF_ANY_VERSION {
        let (expected, code) = endings::here(source);
        let response = stage.run(source).await;
        let said = response.streams.expect("streams").stderr;
        assert_eq!(without_sources(&said), without_sources(&expected), "{source}");
        assert_eq!(Some(response.exit_code), code, "{source}");
    }
}

/// A traceback without the lines of source that newer versions show in it.
fn without_sources(text: &str) -> Vec<&str> {
    text.lines().filter(|line| !line.starts_with("    ")).collect()
}

/// Two pipes have no order of their own: what is seen is when each was read, so a busy machine
/// needs time in between.
pub(super) async fn streams_are_kept_apart_and_merged_in_order(stage: Stage) {
    let source = "import sys, time\nfor n in range(3):\n    print('out', n)\n    time.sleep(0.4)\n    \
                  print('err', n, file=sys.stderr)\n    time.sleep(0.4)\nprint('last')\n1/0";
    let response = stage.run(source).await;
    let output = response.output.as_deref().expect("output");
    assert!(output.starts_with("out 0\nerr 0\nout 1\nerr 1\nout 2\nerr 2\nlast\nTraceback"));
    let streams = response.streams.expect("streams");
    assert_eq!(streams.stdout, "out 0\nout 1\nout 2\nlast\n");
    assert!(streams.stderr.starts_with("err 0\nerr 1\nerr 2\nTraceback"));
}

pub(super) async fn output_is_live(stage: Stage) {
    let seen: Arc<Mutex<Vec<_>>> = Arc::default();
    let progress = {
        let seen = Arc::clone(&seen);
        Progress::to(move |progress| {
            if let (Some(stream), Some(text)) = (progress.stream, progress.text) {
                seen.lock().push((Instant::now(), stream, text));
            }
        })
    };

    let source = "import sys, time\nprint('one')\ntime.sleep(1)\nprint('two', file=sys.stderr)\ntime.sleep(1)";
    let response = stage.ask_live(script(source), progress).await;
    let end = Instant::now();

    assert_eq!(response.output.as_deref(), Some("one\ntwo\n"));

    let seen = seen.lock();
    let texts: Vec<_> = seen.iter().map(|(_, stream, text)| (stream, text.as_str())).collect();
    assert_eq!(texts, [(&OutputStream::Stdout, "one\n"), (&OutputStream::Stderr, "two\n")]);

    assert!(end - seen[0].0 > Duration::from_millis(1500), "it was not live");
}

pub(super) async fn output_beyond_the_limit_is_dropped_and_said(stage: Stage) {
    let exact = format!("import sys\nsys.stdout.write('x' * {OUTPUT_BYTES_MAX})");
    let response = stage.run(&exact).await;
    assert_eq!(response.output.as_ref().map(String::len), Some(OUTPUT_BYTES_MAX));
    assert_eq!(response.reason, None);

    // The limit falls into the middle of a character.
    let over = format!(
        "import sys\nsys.stdout.write('x' + 'é' * {})\nsys.stdout.flush()\nsys.stderr.write('e')\nsys.exit(7)",
        OUTPUT_BYTES_MAX / 2
    );

    let response = stage.run(&over).await;
    assert_eq!(response.reason, Some(ScriptReason::OutputTruncated));
    assert_eq!(response.exit_code, 7);

    let streams = response.streams.expect("streams");
    assert_eq!(streams.stdout.len(), OUTPUT_BYTES_MAX - 1);
    assert!(streams.stdout_truncated && !streams.stderr_truncated);

    assert_eq!(streams.stderr, "e");
}

pub(super) async fn large_scripts_and_inputs_arrive_whole(stage: Stage) {
    let source = "import os, subprocess\ntext = os.environ['ROCKBOT_INPUT']\n\
                  print(len(text), text == 'aé漢😀' * 100000)\nsubprocess.run(['/bin/true'], check=True)";
    let input_data = Some("aé漢😀".repeat(100_000));
    let response = stage.ask(ScriptInvokeRequest { input_data, ..script(source) }).await;

    assert_eq!(response.output.as_deref(), Some("400000 True\n"), "{response:?}");
    let short = "import subprocess\nprint(subprocess.run('echo $ROCKBOT_INPUT', shell=True, capture_output=True).stdout)";
    let input_data = Some("to children, too".to_owned());
    let response = stage.ask(ScriptInvokeRequest { input_data, ..script(short) }).await;

    assert_eq!(response.output.as_deref(), Some("b'to children, too\\n'\n"), "{response:?}");
    let long = format!("print(len('{}'))", "x".repeat(900_000));
    stage.check(&long, "900000\n", 0).await;
}

pub(super) async fn what_cannot_be_run_is_refused(stage: Stage) {
    let input_data = Some("a\0b".to_owned());
    let response = stage.ask(ScriptInvokeRequest { input_data, ..script("") }).await;
    assert_eq!(
        (response.exit_code, response.reason),
        (EXIT_CODE_UNKNOWN, Some(ScriptReason::Invalid))
    );
    let response = stage.run("print(1)\0").await;
    assert_eq!(response.exit_code, 1);
    assert!(response.output.is_some_and(|text| text.contains("null byte")));
}

pub(super) async fn children_that_outlive_the_script_have_a_moment(stage: Stage) {
    // It runs when the script ends: on a busy node a program would take longer to start than the
    // moment lasts.
    let quick = "import os, time\nprint('done', flush=True)\nif os.fork() == 0:\n    time.sleep(0.05)\n    \
                 print('late', flush=True)\n    os._exit(0)";
    stage.check(quick, "done\nlate\n", 0).await;
}

pub(super) async fn threads_processes_and_files_are_there(stage: Stage) {
    let threads = "import threading\nbarrier = threading.Barrier(41)\n\
                   threads = [threading.Thread(target=barrier.wait) for _ in range(40)]\n\
                   for thread in threads: thread.start()\nbarrier.wait()\nprint('all')";
    stage.check(threads, "all\n", 0).await;

    let pool = "import concurrent.futures as futures\nwith futures.ProcessPoolExecutor(4) as pool:\n    \
                print(sum(pool.map(abs, range(-50, 50))))";
    stage.check(pool, "2500\n", 0).await;

    // As numerical libraries do: a large reservation of which some is used.
    let memory = "import mmap\nlarge = mmap.mmap(-1, 2 << 30, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nlarge[:4] = b'used'\n\
                  data = bytearray(150 << 20)\nprint(large[:4], len(data))";
    stage.check(memory, "b'used' 157286400\n", 0).await;

    let files = "import tempfile, os\nwith tempfile.NamedTemporaryFile() as file:\n    file.write(b'x' * (8 << 20))\n\
                 open('work.txt', 'w').write('x')\nprint(sorted(os.listdir('.')))";
    stage.check(files, "['output', 'work.txt']\n", 0).await;
}

pub(super) async fn nothing_of_the_bootstrap_is_left(stage: Stage) {
    let names = "print(sorted(globals()))\nprint(__name__, __doc__, __spec__, __package__)";
    let reference = Command::new("python3").args(["-I", "-c", names]).output().expect("python3");
    stage.check(names, &String::from_utf8_lossy(&reference.stdout), 0).await;
    let facts = "import os, sys\nprint(sys.argv, sys.stdin.read() == '', sys.path[0] == '', os.getcwd() == os.environ['HOME'])\n\
                 print(sorted(int(fd) for fd in os.listdir('/proc/self/fd'))[:-1], os.listdir('.'))\n\
                 print(getattr(sys, 'orig_argv', [0, '-c'])[1], sys.stdout.encoding)";
    stage.check(facts, "['-c'] True True True\n[0, 1, 2] ['output']\n-c utf-8\n", 0).await;
}

pub(super) async fn several_at_once_answer_for_themselves(stage: Stage) {
    let runs = (0..8).map(async |number: i32| {
        let source =
            format!("import sys, time\ntime.sleep(0.2)\nprint({number})\nsys.exit({number})");
        stage.check(&source, &format!("{number}\n"), number).await;
    });
    futures_util::future::join_all(runs).await;
}

pub(super) async fn usage_is_told(stage: Stage) {
    let source = "import os, time\ndata = b'x' * (64 << 20)\nfor _ in range(2):\n    if not os.fork():\n        \
                  end = time.process_time() + 0.2\n        while time.process_time() < end: pass\n        os._exit(0)\n\
                  for _ in range(2): os.wait()";
    let response: ScriptInvokeResponse = stage.run(source).await;
    let usage = response.usage.expect("usage");
    assert!(usage.cpu_ms >= 400, "{usage:?}");
    assert!((64 << 20..256 << 20).contains(&usage.memory_peak_bytes), "{usage:?}");
}
