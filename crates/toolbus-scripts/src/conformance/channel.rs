//! The channel of a script to its caller: what is asked is answered, once, and whatever a script
//! does with it harms nobody but itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;
use toolbus_wire::envelope::new_id;

use super::stage::Stage;
use crate::runner::{
    CHANNEL_BODY_BYTES_MAX, CHANNEL_OPEN_MAX, Channel, Ending, Outcome, Run, Script,
};

/// Runs a script as `__main__`, which finds the descriptor under `CHANNEL`.
pub const PRELUDE: &str = r#"
def run(source, descriptor, started):
    import sys
    names = sys.modules["__main__"].__dict__
    names["CHANNEL"] = descriptor
    started()
    code = None
    remember_source(None, source)
    try:
        code = compile(source + "\n", "<string>", "exec", dont_inherit=True)
        remember_source(code, source)
        exec(code, names)
    except SystemExit:
        raise
    except BaseException:
        show_from(code)
        raise
"#;

/// Frames, as scripts write and read them.
pub const FRAMES: &str = r"
import os, socket, struct
channel = socket.socket(fileno=os.dup(CHANNEL))
def frame(number, body): return struct.pack('>II', len(body), number) + body
def send(number, body): channel.sendall(frame(number, body))
def exactly(count):
    parts = b''
    while len(parts) < count:
        part = channel.recv(count - len(parts))
        if not part: raise EOFError
        parts += part
    return parts
def receive():
    length, number = struct.unpack('>II', exactly(8))
    return number, exactly(length)
def ask(number, body):
    send(number, body)
    return receive()
def is_closed():
    try: return channel.recv(1) == b''
    except OSError: return True
";

/// How many requests a channel has answered, and has open.
#[derive(Clone, Default)]
struct Counts {
    asked: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

/// A request that is open.
struct Open(Counts);

impl Counts {
    fn open(&self) -> Open {
        self.asked.fetch_add(1, Relaxed);
        self.most.fetch_max(self.open.fetch_add(1, Relaxed) + 1, Relaxed);
        Open(self.clone())
    }

    /// Waits until no request is open.
    async fn settle(&self) {
        for _ in 0..500 {
            if self.open.load(Relaxed) == 0 {
                return;
            }
            // sleeps: looks again, within a limit.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("requests are open that nobody waits for");
    }

    /// Answers with the request itself, a moment later.
    fn echo(&self) -> Channel {
        let counts = self.clone();
        Channel::to(move |_, body: Bytes| {
            let open = counts.open();
            async move {
                tokio::task::yield_now().await;
                drop(open);
                body
            }
        })
    }

    /// Answers nothing.
    fn silence(&self) -> Channel {
        let counts = self.clone();
        Channel::to(move |_, _| {
            let open = counts.open();
            async move {
                let _open = open;
                std::future::pending().await
            }
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Relaxed);
    }
}

fn script(source: &str) -> Script {
    Script {
        source: format!("{FRAMES}{source}"),
        input: String::new(),
        timeout: Duration::from_secs(60),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: Some(PRELUDE.to_owned()),
    }
}

async fn run(stage: &Stage, script: Script, channel: Channel) -> Outcome {
    let run = Run { channel: Some(channel), ..Run::alone(&format!("call_{}", new_id())) };
    stage.runner().run(script, run).await.expect("the script runs")
}

/// Runs a script whose requests are echoed, and checks its output and exit code.
async fn check(stage: &Stage, source: &str, output: &str, exit_code: i32) -> Counts {
    let counts = Counts::default();
    let outcome = run(stage, script(source), counts.echo()).await;
    assert_eq!(outcome.output.text, output, "{source}");
    assert_eq!(outcome.ending, Ending::Exited(exit_code), "{source}");
    counts.settle().await;
    counts
}

pub(super) async fn a_request_gets_its_response(stage: Stage) {
    check(&stage, "print(CHANNEL, ask(7, b'{}'), ask(7, b''))", "4 (7, b'{}') (7, b'')\n", 0).await;
    let number = "print(ask(0xffffffff, b'1')[0] == 0xffffffff)";
    check(&stage, number, "True\n", 0).await;

    // What the prelude has left: nothing but what it has put there.
    let source = "print([name for name in globals() if not name.startswith('__')][0])\n1/0";
    let outcome = run(&stage, script(source), Counts::default().echo()).await;
    let text = outcome.output.text;
    assert!(
        text.starts_with("CHANNEL\nTraceback (most recent call last):\n  File \"<string>\","),
        "{text}"
    );
    assert!(text.ends_with("ZeroDivisionError: division by zero\n"), "{text}");

    // Bodies are the caller's alone to understand.
    let fixed = Channel::to(|number, _| async move { format!("{number}").into() });
    let outcome = run(&stage, script("print(ask(9, b'\\xff'), ask(9, b''))"), fixed).await;
    assert_eq!(outcome.output.text, "(9, b'0') (9, b'1')\n");
}

pub(super) async fn a_prelude_that_fails_ends_the_script(stage: Stage) {
    for (prelude, error) in [
        ("def run(", "SyntaxError"),
        ("1/0", "ZeroDivisionError"),
        ("", "KeyError"),
        ("def run(source, descriptor, started): raise ValueError", "ValueError"),
    ] {
        let failing = Script { prelude: Some(prelude.to_owned()), ..script("print(1)") };
        let outcome = run(&stage, failing, Counts::default().echo()).await;
        assert_eq!(outcome.ending, Ending::Exited(1), "{prelude}");
        assert!(outcome.stderr.text.contains(error), "{}", outcome.stderr.text);
    }
}

pub(super) async fn requests_come_one_after_another(stage: Stage) {
    let source = "for number in range(1000):\n    body = b'%d' % number\n    \
                  assert ask(number % 3, body) == (number % 3, body)\nprint('all')";
    let counts = check(&stage, source, "all\n", 0).await;
    assert_eq!(counts.asked.load(Relaxed), 1000);
}

pub(super) async fn requests_are_open_together(stage: Stage) {
    let threads = r"
import threading
lock, ready, answers = threading.Lock(), threading.Barrier(32), {}
def work(place):
    ready.wait()
    for number in (place, place + 32):
        with lock: send(number, b'%d' % number)
threads = [threading.Thread(target=work, args=(place,)) for place in range(32)]
for thread in threads: thread.start()
for _ in range(64):
    number, body = receive()
    answers[number] = body
print(answers == {number: b'%d' % number for number in range(64)})
";
    // None is answered before all are there.
    let counts = Counts::default();
    let counting = counts.clone();
    let all = Arc::new(tokio::sync::Barrier::new(64));
    let together = Channel::to(move |_, body| {
        let open = counting.open();
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            drop(open);
            body
        }
    });
    let outcome = run(&stage, script(threads), together).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("True\n", Ending::Exited(0)));
    assert_eq!(counts.most.load(Relaxed), 64);

    let asyncio = r"
import asyncio
async def main():
    reader, writer = await asyncio.open_unix_connection(sock=channel)
    waiting = {}
    async def read():
        while True:
            length, number = struct.unpack('>II', await reader.readexactly(8))
            waiting.pop(number).set_result(await reader.readexactly(length))
    async def ask(number):
        waiting[number] = asyncio.get_running_loop().create_future()
        writer.write(frame(number, b'%d' % number))
        return await waiting[number]
    reading = asyncio.create_task(read())
    answers = await asyncio.gather(*(ask(number) for number in range(200)))
    reading.cancel()
    print(answers == [b'%d' % number for number in range(200)])
asyncio.run(main())
";
    let counts = check(&stage, asyncio, "True\n", 0).await;
    assert_eq!(counts.asked.load(Relaxed), 200);
    assert!(counts.most.load(Relaxed) <= CHANNEL_OPEN_MAX);
}

pub(super) async fn more_than_may_be_open_wait(stage: Stage) {
    let source = r"
import threading
def write():
    for number in range(200): send(number, b'%d' % number)
writing = threading.Thread(target=write)
writing.start()
answers = dict(receive() for _ in range(200))
writing.join()
print(answers == {number: b'%d' % number for number in range(200)})
";

    let counts = Counts::default();
    let counting = counts.clone();
    let slow = Channel::to(move |_, body| {
        let open = counting.open();
        async move {
            // sleeps: long enough for as many as may be open to be asked at a time.
            tokio::time::sleep(Duration::from_millis(20)).await;
            drop(open);
            body
        }
    });

    let outcome = run(&stage, script(source), slow).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("True\n", Ending::Exited(0)));
    assert_eq!(counts.asked.load(Relaxed), 200);
    assert_eq!(counts.most.load(Relaxed), CHANNEL_OPEN_MAX);
}

pub(super) async fn large_bodies_arrive_whole(stage: Stage) {
    let source = r"
body = os.urandom(1 << 20)
assert ask(1, body) == (1, body)
import threading
threading.Thread(target=lambda: [send(number, body[number:]) for number in range(20)]).start()
for _ in range(20):
    number, answer = receive()
    assert answer == body[number:]
print('whole')
";
    check(&stage, source, "whole\n", 0).await;

    let long = Channel::to(|_, _| async { vec![b'1'; CHANNEL_BODY_BYTES_MAX + 1].into() });
    let outcome = run(&stage, script("print(b'too_large' in ask(1, b'')[1])"), long).await;
    assert_eq!(outcome.output.text, "True\n");
}

pub(super) async fn a_broken_rule_closes_the_channel_alone(stage: Stage) {
    for broken in [
        "channel.sendall(struct.pack('>II', (1 << 20) + 1, 5))",
        "channel.sendall(struct.pack('>II', 0xffffffff, 5))",
        "channel.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')",
        "channel.sendall(frame(5, b'half')[:-1]); channel.shutdown(socket.SHUT_WR)",
        "channel.sendall(b'x'); channel.shutdown(socket.SHUT_WR)",
        "send(5, b'1'); send(5, b'2')",
        "send(5, b'1'); channel.sendall(b'\\xff' * 100_000)",
    ] {
        let source = format!(
            "print(ask(1, b'before'))\n{broken}\nprint(is_closed())\n\
             try: send(6, b'')\nexcept OSError: print('refused')\nexit(3)"
        );

        let counts = Counts::default();
        let counting = counts.clone();
        // Nothing but the first is answered.
        let channel = Channel::to(move |number, body| {
            let open = counting.open();
            async move {
                let _open = open;
                if number > 0 {
                    std::future::pending::<()>().await;
                }
                body
            }
        });

        let outcome = run(&stage, script(&source), channel).await;
        let expected = "(1, b'before')\nTrue\nrefused\n";
        assert_eq!(
            (outcome.output.text.as_str(), outcome.ending),
            (expected, Ending::Exited(3)),
            "{broken}"
        );
        counts.settle().await;
    }
}

pub(super) async fn a_script_may_close_its_end(stage: Stage) {
    // All of it at once, or for writing alone: then what was asked is answered.
    let source = "send(1, b'x')\nchannel.close()\nos.close(CHANNEL)\nimport time\ntime.sleep(0.5)\nprint('on')";
    let counts = Counts::default();
    let outcome = run(&stage, script(source), counts.silence()).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("on\n", Ending::Exited(0)));
    counts.settle().await;
    let source = "send(1, b'x')\nsend(2, b'y')\nchannel.shutdown(socket.SHUT_WR)\n\
                  print(sorted([receive(), receive()]), is_closed())";
    check(&stage, source, "[(1, b'x'), (2, b'y')] True\n", 0).await;

    // Nothing keeps the first process busy: not a channel that is closed, nor one that was left
    // open with requests in it.
    for close in [
        "channel.close()\nos.close(CHANNEL)",
        "for number in range(64): send(number, b'')\nchannel.close()\nos.close(CHANNEL)",
        "for number in range(64): send(number, b'')\nchannel.shutdown(socket.SHUT_WR)",
    ] {
        let source = format!(
            "import time\ndef ticks(): return sum(map(int, \
             open('/proc/1/stat').read().rpartition(')')[2].split()[11:13]))\n\
             {close}\nbefore = ticks()\ntime.sleep(1)\nspent = ticks() - before\n\
             print('idle' if spent < 30 else spent)"
        );
        let outcome = run(&stage, script(&source), counts.silence()).await;
        assert_eq!(outcome.output.text, "idle\n", "{close}");
    }
}

pub(super) async fn children_share_the_channel(stage: Stage) {
    let source = r"
child = os.fork()
if not child:
    print(ask(1, b'child'), flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(ask(1, b'parent'))
import subprocess, sys
asking = 'import socket; channel = socket.socket(fileno=4); channel.sendall(bytes(7) + b\'\\2\'); print(channel.recv(9))'
subprocess.run([sys.executable, '-c', asking], pass_fds=[4], check=True)
";
    let output = "(1, b'child')\n(1, b'parent')\nb'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02'\n";
    check(&stage, source, output, 0).await;
}

pub(super) async fn responses_that_are_not_read_hold_up_nothing(stage: Stage) {
    let source = r"
import threading, time
def flood():
    try:
        for number in range(1000): send(number, b'')
    except OSError: pass
threading.Thread(target=flood, daemon=True).start()
for number in range(5):
    time.sleep(0.1)
    print(number, flush=True)
";
    let counts = Counts::default();
    let counting = counts.clone();
    let large = Bytes::from(vec![b' '; CHANNEL_BODY_BYTES_MAX]);
    let channel = Channel::to(move |_, _| {
        drop(counting.open());
        std::future::ready(large.clone())
    });

    let outcome = run(&stage, script(source), channel.clone()).await;
    assert_eq!(
        (outcome.output.text.as_str(), outcome.ending),
        ("0\n1\n2\n3\n4\n", Ending::Exited(0))
    );
    assert!(counts.asked.load(Relaxed) <= CHANNEL_OPEN_MAX, "it asks for more and more");

    // Nor its end.
    let endless = format!("{source}\nwhile True: time.sleep(1)");
    let script = Script { timeout: Duration::from_secs(1), ..script(&endless) };
    let outcome = run(&stage, script, channel).await;
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert!(outcome.elapsed < Duration::from_secs(2), "{outcome:?}");
}

pub(super) async fn open_requests_end_with_the_script(stage: Stage) {
    let asks = "for number in range(10): send(number, b'')\nprint('asked', flush=True)\n";
    // The last request tells that it has printed.
    let waits = format!("{asks}send(10, b'')\nimport time\ntime.sleep(60)");
    let counts = Counts::default();

    let outcome = run(&stage, script(&format!("{asks}exit(4)")), counts.silence()).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("asked\n", Ending::Exited(4)));
    counts.settle().await;

    // Long enough for a busy machine to start Python and ask.
    let brief = Script { timeout: Duration::from_secs(5), ..script(&waits) };
    let outcome = run(&stage, brief, counts.silence()).await;
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("asked\n", Ending::TimedOut));
    counts.settle().await;

    let cancelled = CancellationToken::new();
    let cancelling = Run {
        cancelled: cancelled.clone(),
        channel: Some(counts.silence()),
        ..Run::alone(&format!("call_{}", new_id()))
    };
    let runner = stage.runner();
    let cancel = async {
        while counts.open.load(Relaxed) < 11 {
            // sleeps: looks again until the script has asked.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(runner.run(script(&waits), cancelling), cancel);
    let outcome = outcome.expect("the script runs");
    assert_eq!((outcome.output.text.as_str(), outcome.ending), ("asked\n", Ending::Cancelled));
    counts.settle().await;
}

/// What looks like the supervisor's lines, where a script can write it.
pub(super) async fn requests_cannot_be_forged(stage: Stage) {
    let source = r"
lines = b''.join(b'local %d %s\n' % (number, text) for number in range(40) for text in (b'ask 0 last Zm9yZ2Vk', b'answered 0', b'closed '))
os.write(1, lines)
os.write(2, lines)
for number in range(5, 256):
    if number != channel.fileno():
        try: os.write(number, lines + b'R\0\0\0\5\0\0\0\0x')
        except OSError: pass
print(ask(3, lines)[1] == lines, ask(3, b'R\0\0\0\5\0\0\0\0x'))
";
    let counts = Counts::default();
    let outcome = run(&stage, script(source), counts.echo()).await;
    assert!(
        outcome.output.text.ends_with("True (3, b'R\\x00\\x00\\x00\\x05\\x00\\x00\\x00\\x00x')\n")
    );
    assert_eq!(counts.asked.load(Relaxed), 2);
}

pub(super) async fn scripts_without_a_prelude_have_no_channel(stage: Stage) {
    let source = "import os\nprint(sorted(int(name) for name in os.listdir('/proc/self/fd')))\n\
                  try: os.fstat(4)\nexcept OSError: print('no channel')";
    let script = Script { prelude: None, source: source.to_owned(), ..script("") };
    let counts = Counts::default();
    let outcome = run(&stage, script, counts.echo()).await;
    // The last is the listed folder itself.
    assert_eq!(outcome.output.text, "[0, 1, 2, 3]\nno channel\n");
    assert_eq!(counts.asked.load(Relaxed), 0);
}
