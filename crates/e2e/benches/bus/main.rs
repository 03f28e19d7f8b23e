//! The main job: how long a call takes to the other side and back, over either bus and into the
//! sandbox, and what a host that waits for calls costs.
//!
//! `cargo bench --profile measured -p e2e --bench bus`, or with `-- memory` only the parts named. Prints a table,
//! writes it as `target/bench/bus.md` and `bus.json`, and exits 1 when a goal is missed.

mod idle;
mod memory;
mod rabbit;
mod request;
mod scripts;
mod tool;

use std::process::ExitCode;

use e2e::bench::Benchmark;
use tikv_jemallocator::Jemalloc;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// How many calls are under way where it is about throughput.
const IN_FLIGHT: u16 = 64;

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [rabbit::WORKER, url] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        rabbit::work(url)?;
        return Ok(ExitCode::SUCCESS);
    }

    let parts = ["memory", "rabbitmq", "scripts", "idle"];
    let mut benchmark = Benchmark::begin("bus", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    benchmark.part("memory", memory::measure);
    benchmark.part("rabbitmq", rabbit::measure);
    benchmark.part("scripts", scripts::measure);
    benchmark.part("idle", idle::measure);
    Ok(benchmark.finish())
}
