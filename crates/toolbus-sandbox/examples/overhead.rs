//! What a sandboxed run costs over a bare interpreter: interleaved, medians in milliseconds.

use std::process::Command;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolbus_sandbox::{Config, MemoryAccounting, Sandbox};
use toolbus_scripts::runner::{Run, Runner, Script};

const RUNS: usize = 60;

#[tokio::main]
async fn main() {
    let kernel = Sandbox::probe(Config::default()).await.expect("a sandbox");
    let config = Config { memory_accounting: MemoryAccounting::Sampled, ..Config::default() };
    let sampled = Sandbox::probe(config).await.expect("a sandbox");
    let python = std::env::args().nth(1).unwrap_or_else(|| "python3".to_owned());
    let mut times = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        times[0].push(bare(&python, &["-I", "-c", "print(1)"]));
        times[1].push(bare(&python, &["-I", "-S", "-c", "print(1)"]));
        times[2].push(run(&kernel).await);
        times[3].push(run(&sampled).await);
    }
    let names = ["python -I -c", "python -I -S -c", kernel.memory_accounting(), "sampled"];
    for (name, mut times) in names.into_iter().zip(times) {
        times.sort();
        let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!("{name:20} min {:6.2}  p50 {:6.2}  p95 {:6.2}", at(0), at(50), at(95));
    }
}

fn bare(python: &str, arguments: &[&str]) -> Duration {
    let start = Instant::now();
    let output = Command::new(python).args(arguments).output().expect("python");
    assert_eq!(output.stdout, b"1\n");
    start.elapsed()
}

async fn run(sandbox: &Sandbox) -> Duration {
    let script = Script {
        source: "print(1)".to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(10),
        packages: Vec::new(),
    };
    let start = Instant::now();
    let run = Run { cancelled: CancellationToken::new(), live: None };
    let outcome = sandbox.run(script, run).await.expect("an outcome");
    assert_eq!(outcome.output.text, "1\n");
    start.elapsed()
}
