//! The main job: how long a call takes to the other side and back, over either bus and into the
//! sandbox, and what a host that waits for calls costs.
//!
//! `cargo bench -p e2e --bench bus`, or with `-- memory` only the parts named. Prints a table,
//! writes it as `target/bench/bus.md` and `bus.json`, and exits 1 when a goal is missed.

mod idle;
mod memory;
mod rabbit;
mod request;
mod scripts;
mod tool;

use std::path::Path;
use std::process::ExitCode;

use e2e::bench::Report;
use tikv_jemallocator::Jemalloc;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// How many calls are under way where it is about throughput.
const IN_FLIGHT: u16 = 64;

fn main() -> anyhow::Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    if let [rabbit::WORKER, url] = named.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        rabbit::work(url)?;
        return Ok(ExitCode::SUCCESS);
    }

    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let mut report = Report::new("bus");
    if is_wanted("memory") {
        memory::measure(&mut report)?;
    }

    if is_wanted("rabbitmq") {
        rabbit::measure(&mut report)?;
    }

    if is_wanted("scripts") {
        scripts::measure(&mut report)?;
    }

    if is_wanted("idle") {
        idle::measure(&mut report)?;
    }

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}
