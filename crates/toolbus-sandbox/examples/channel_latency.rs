//! Measures how long a request of a script to its caller takes, where the caller answers at once
//! and in the same process as the runner.

#![allow(clippy::print_stdout, reason = "a program of the terminal")]

use std::time::Duration;

use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::runner::{Channel, Run, Runner, Script};

/// Runs the script as `__main__`, with the descriptor under a name.
const PRELUDE: &str = r#"
def run(source, descriptor, started):
    import sys
    names = sys.modules["__main__"].__dict__
    names["CHANNEL"] = descriptor
    started()
    exec(compile(source, "<string>", "exec", dont_inherit=True), names)
"#;
const SCRIPT: &str = r"
import os, struct, time
head = struct.Struct('>II')
def ask(number, body):
    os.write(CHANNEL, head.pack(len(body), number) + body)
    answer = os.read(CHANNEL, 65536)
    while len(answer) < 8 + head.unpack(answer[:8])[0]: answer += os.read(CHANNEL, 1 << 20)
    return answer[8:]
for size in (32, 4096, 65536, 1 << 20):
    times = []
    for number in range(3000 if size < 65536 else 100):
        body = b'x' * size
        start = time.perf_counter()
        assert ask(number, body) == body
        times.append(time.perf_counter() - start)
    times.sort()
    parts = ', '.join(f'p{part} {times[len(times) * part // 100] * 1e6:.0f} us' for part in (50, 95, 99))
    print(f'{size} bytes: {parts}')
";

#[tokio::main]
async fn main() {
    let sandbox = Sandbox::probe(Config::default()).await.expect("a sandbox");
    let script = Script {
        source: SCRIPT.to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(60),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: Some(PRELUDE.to_owned()),
    };
    let channel = Channel::to(|_, body| std::future::ready(body));
    let run = Run { channel: Some(channel), ..Run::alone("latency") };
    let outcome = sandbox.run(script, run).await.expect("an outcome");
    println!("{}", outcome.output.text);
}
