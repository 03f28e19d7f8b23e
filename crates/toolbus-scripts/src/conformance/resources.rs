//! How much a script must not take.

use std::time::{Duration, Instant};

use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptReason};

use crate::runner::{Ending, OUTPUT_BYTES_MAX, Run, Script};

use super::host;
use super::stage::{Stage, assert_ended_for, script};

/// Most that a script's memory may come to, with what a runner that samples it may overshoot by.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// What one script may make the service grow by.
const SERVICE_GROWTH_MAX: u64 = 8 << 20;
/// Processes of one script: 64 are allowed, and some belong to the runner.
const PROCESSES_MAX: usize = 80;

pub(super) async fn a_fork_bomb_is_bounded_and_ends(stage: Stage) {
    let mark = host::unique_mark();
    let source = "import ctypes, os, time\nctypes.CDLL(None).prctl(15, b'MARK', 0, 0, 0)\nwhile True:\n    \
                  try: os.fork()\n    except OSError: time.sleep(0.01)";
    let mut most = 0;
    let request = script(&source.replace("MARK", &mark));
    let request = ScriptInvokeRequest { timeout_seconds: 3, ..request };
    let started = Instant::now();

    let response = stage
        .watch(request, &mark, |found| {
            most = most.max(found.len());
            most > 20 && started.elapsed() > Duration::from_secs(2)
        })
        .await;

    assert_ended_for(&response, &[ScriptReason::TimedOut, ScriptReason::OutOfMemory]);
    assert!(most < PROCESSES_MAX, "{most} processes");

    if response.usage.is_none() {
        // The runner had to end it from outside, and told so before it had seen them all die.
        host::await_no_process(&mark).await;
    }

    stage.assert_no_process(&mark);
}

pub(super) async fn a_thread_bomb_is_bounded(stage: Stage) {
    let source = "import threading, time\ncount = 0\ntry:\n    while True:\n        \
                  threading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n        count += 1\n\
                  except RuntimeError: print(16 < count < 80)";
    stage.check(source, "True\n", 0).await;
}

/// Runs a script that takes memory until it is killed for it, which is work for a busy machine.
async fn run_memory_bomb(stage: &Stage, source: &str) {
    let response = stage.run_for(source, 60).await;
    assert_ended_for(&response, &[ScriptReason::OutOfMemory]);
    // Nobody is left to tell the usage where the kernel had to take all of a pod.
    let peak = response.usage.unwrap_or_default().memory_peak_bytes;
    assert!(peak < MEMORY_BYTES_MAX, "{peak}");
}

pub(super) async fn memory_of_one_process_is_bounded(stage: Stage) {
    run_memory_bomb(&stage, "data = []\nwhile True: data.append(b'x' * (8 << 20))").await;
    run_memory_bomb(&stage, "data = b'x' * (400 << 20)\nprint(len(data))").await;
    let lone = "try: bytearray(8 << 30)\nexcept MemoryError: print('refused')";
    stage.check(lone, "refused\n", 0).await;
}

pub(super) async fn memory_spread_over_children_is_bounded(stage: Stage) {
    let mark = host::unique_mark();
    let source = "import ctypes, os, time\nctypes.CDLL(None).prctl(15, b'MARK', 0, 0, 0)\nfor _ in range(12):\n    \
                  if not os.fork():\n        data = b'x' * (40 << 20)\n        time.sleep(20)\ntime.sleep(20)";
    run_memory_bomb(&stage, &source.replace("MARK", &mark)).await;
    stage.assert_no_process(&mark);
}

/// The kernel kills the child, and nobody else: what is left of the script would wait for long.
pub(super) async fn memory_of_a_child_alone_ends_the_script(stage: Stage) {
    let mark = host::unique_mark();
    let child = "data = []\nwhile True: data.append(b'x' * (8 << 20))";
    let source = format!(
        "import ctypes, subprocess, sys, time\nctypes.CDLL(None).prctl(15, b'{mark}', 0, 0, 0)\n\
         print('before')\nsubprocess.run([sys.executable, '-c', {child:?}])\ntime.sleep(50)\nprint('after')"
    );
    let response = stage.run_for(&source, 60).await;

    assert_ended_for(&response, &[ScriptReason::OutOfMemory]);
    assert_eq!((response.output.as_deref(), response.exit_code), (Some("before\n"), 137));

    // It did not wait for its end, nor was it told of as one that ran out of time.
    assert!(response.elapsed_ms < 45_000, "{response:?}");
    stage.assert_no_process(&mark);
}

pub(super) async fn memory_in_files_is_bounded(stage: Stage) {
    let source = "import time\ndata = b'x' * (1 << 20)\nfor place in ('/tmp', '.', '/dev/shm'):\n    try:\n        \
                  with open(place + '/f', 'wb') as file:\n            while True: file.write(data)\n    \
                  except OSError: pass\nheap = b'x' * (220 << 20)\ntime.sleep(20)";
    run_memory_bomb(&stage, source).await;
}

pub(super) async fn memory_in_sockets_is_bounded(stage: Stage) {
    let source = r"
import os, socket, time
for _ in range(20):
    if not os.fork():
        held = []
        try:
            while True:
                pair = socket.socketpair()
                pair[0].setblocking(False)
                held.append(pair)
                try:
                    while True: pair[0].send(b'x' * 65536)
                except BlockingIOError: pass
        except OSError: time.sleep(20)
time.sleep(20)
";

    run_memory_bomb(&stage, source).await;
}

/// Shared memory stays as large as it was made while one page of it is mapped, and only that page
/// shows. Anonymous, and by the device that stands for it; in pieces as large as can be had.
pub(super) async fn memory_that_no_process_shows_is_bounded(stage: Stage) {
    let source = r"
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def hide(size, flags, file):
    start = libc.mmap(None, size, 3, flags, file, 0)
    if start == 2 ** 64 - 1: return 0
    ctypes.memset(start, 1, size)
    assert not libc.munmap(start + 4096, size - 4096)
    return size
device = os.open('/dev/zero', os.O_RDWR)
held = 0
for flags, file in (FLAGS):
    for size in (64 << 20, 4 << 20, 1 << 20):
        while held < 1536 << 20 and (hidden := hide(size, flags, file)): held += hidden
print(held)
";

    run_memory_bomb(&stage, &source.replace("FLAGS", "(0x21, -1), (0x01, device)")).await;
    run_memory_bomb(&stage, &source.replace("FLAGS", "(0x01, device), (0x21, -1)")).await;
}

/// The kernel's records of mappings, in every process.
pub(super) async fn memory_of_mappings_is_bounded(stage: Stage) {
    let source = r"
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
start = libc.mmap(None, ctypes.c_size_t(240 << 20), 3, 0x22, -1, 0)
for page in range(0, 60000, 2): libc.mprotect(start + page * 4096, 4096, 1)
for _ in range(50):
    if not os.fork(): time.sleep(50)
time.sleep(50)
";
    run_memory_bomb(&stage, source).await;
}

/// Of what the kernel charges to nobody. From the end on, so that none has to be searched for.
pub(super) async fn locks_without_number_are_bounded(stage: Stage) {
    let source = r"
import fcntl
with open('locked', 'wb') as file:
    for number in range(1 << 22, 0, -2): fcntl.lockf(file, fcntl.LOCK_EX, 1, number)
print('two million')
";
    let response = stage.run_for(source, 30).await;
    assert_ended_for(&response, &[ScriptReason::OutOfMemory]);
    assert_eq!(response.stderr.as_deref(), Some("Script killed: too many file locks"));
    let unowned = "deny('lock of an open file', lambda: fcntl.fcntl(open('a', 'wb'), fcntl.F_OFD_SETLK,                    struct.pack('hhlli4x', fcntl.F_WRLCK, 0, 0, 0, 0)))";
    stage.attack(1, &format!("import fcntl, struct\n{unowned}")).await;
}

pub(super) async fn a_decompression_bomb_is_bounded(stage: Stage) {
    // A full flush leaves the compressor where it began, so one megabyte is good for all.
    let source = "import zlib\npacked = zlib.compressobj(9, wbits=-15)\n\
                  one = packed.compress(bytes(1 << 20)) + packed.flush(zlib.Z_FULL_FLUSH)\n\
                  print(len(zlib.decompress(one * 700 + packed.flush(), -15)))";
    run_memory_bomb(&stage, source).await;
}

pub(super) async fn endless_recursion_ends(stage: Stage) {
    let response = stage.run("def f(): f()\nf()").await;
    assert_eq!(response.exit_code, 1, "{response:?}");
    assert!(response.output.is_some_and(|text| text.contains("RecursionError")));
    let deep = "import sys\nsys.setrecursionlimit(1 << 30)\nf = lambda: [].sort(key=None) or g()\n\
                class G:\n    def __call__(self): return self.again()\n    def __getattr__(self, name): return self\n\
                g = G()\ndef down(n):\n    return sorted([n], key=down)\ndown(1)";
    let response = stage.run(deep).await;
    assert_ne!(response.exit_code, 0, "{response:?}");
}

/// Runs a script that does not end by itself; it is ended at its time, soon after it, and for good.
async fn run_endless(stage: &Stage, source: &str, mark: &str) {
    let source =
        format!("import ctypes\nctypes.CDLL(None).prctl(15, b'{mark}', 0, 0, 0)\n{source}");
    let response = stage.run_for(&source, 1).await;
    assert_ended_for(&response, &[ScriptReason::TimedOut]);
    assert_eq!(response.stderr.as_deref(), Some("Script timed out after 1s"));
    assert!((1000..6000).contains(&response.elapsed_ms), "{response:?}");
    stage.assert_no_process(mark);
}

pub(super) async fn a_busy_loop_ends_at_its_time(stage: Stage) {
    run_endless(&stage, "while True: pass", &host::unique_mark()).await;
}

pub(super) async fn a_sleep_that_ignores_every_signal_ends_at_its_time(stage: Stage) {
    let source = "import signal, time\nfor number in set(signal.Signals) - {9, 19}:\n    \
                  signal.signal(number, signal.SIG_IGN)\ntime.sleep(60)";
    run_endless(&stage, source, &host::unique_mark()).await;
}

pub(super) async fn drips_of_output_do_not_extend_a_run(stage: Stage) {
    let source = "import os, time\nwhile True:\n    os.write(1, b'.')\n    time.sleep(0.02)";
    run_endless(&stage, source, &host::unique_mark()).await;
}

/// Runs a script that writes 100 MB of such blocks to each stream, and measures the service against
/// what a tenth of that cost it: more is not kept. At the port of the runner: the bus would hold
/// the answer as well, and both its ends are in this process.
async fn run_flood(stage: &Stage, block: &str) {
    let run = async |count: u32| {
        let script = Script {
            source: format!(
                "import os\nblock = {block}\nfor _ in range({count}):\n    for file in 1, 2:\n        \
                 left = block\n        while left: left = left[os.write(file, left):]"
            ),
            input: String::new(),
            timeout: Duration::from_secs(60),
            packages: Vec::new(),
            files: Vec::new(),
            prelude: None,
        };

        let outcome = stage.runner().run(script, Run::alone("")).await.expect("it runs");
        assert_eq!(outcome.ending, Ending::Exited(0));

        for kept in [&outcome.output, &outcome.stdout, &outcome.stderr] {
            assert!(kept.truncated && kept.text.len() == OUTPUT_BYTES_MAX);
        }
    };

    // Memory that was free again may lie in pieces; after a few times it fits.
    for _ in 0..5 {
        run(160).await;
    }

    let before = host::resident_bytes();
    run(1600).await;

    let grown = host::resident_bytes().saturating_sub(before);
    assert!(grown < SERVICE_GROWTH_MAX, "{grown} bytes");
}

/// In lines.
pub(super) async fn a_flood_of_output_costs_the_service_nothing(stage: Stage) {
    run_flood(&stage, "(b'y' * 99 + b'\\n') * 655").await;
}

pub(super) async fn a_line_without_end_costs_the_service_nothing(stage: Stage) {
    run_flood(&stage, "b'y' * 65536").await;
}

pub(super) async fn nobody_dumps_core(stage: Stage) {
    let source = "import os, resource\nprint(resource.getrlimit(resource.RLIMIT_CORE))\nif not os.fork(): os.abort()\n\
                  print(os.WCOREDUMP(os.wait()[1]), os.listdir('.'))";
    stage.check(source, "(0, 0)\nFalse ['output']\n", 0).await;
}
