//! Scripts in pods: how long one takes from its request to its response, and what the manager
//! keeps.
//!
//! `cargo bench --profile measured -p toolbus-pods --bench scripts`, or with `-- --only cold` only the part named. Needs the
//! cluster that `TOOLBUS_TEST_KUBECONFIG` names. Prints a table, writes it as
//! `target/bench/scripts.md` and `scripts.json`, and exits 1 when a goal is missed.

mod bare;
mod chain;
mod cluster;
mod cold;
mod connect;
mod ends;
mod flood;
mod idle;
mod local;
mod manager;
mod refill;
mod warm;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Benchmark, at_end, runtime};

use cluster::Cluster;
use tikv_jemallocator::Jemalloc;
use toolbus_testkit::tools::remove_namespace;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What is run where it is about time, and what it prints.
pub(crate) const SCRIPT: &str = "print(6 * 7)";
pub(crate) const PRINTS: &str = "42\n";
/// Scripts at a time where it is about many.
pub(crate) const AT_ONCE: u16 = 8;

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["local", "cold", "warm", "chain", "ends", "flood", "idle"];
    let mut benchmark = Benchmark::begin("scripts", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    benchmark.part("local", |report| runtime.block_on(local::measure(report)));
    if !benchmark.wants(&parts[1..]) {
        return Ok(benchmark.finish());
    }

    let cluster = runtime.block_on(Cluster::connect())?;
    at_end(|| remove_namespace(cluster::NAMESPACE));
    if let Some(vhost) = runtime.block_on(toolbus_testkit::rabbit::vhost()) {
        let broker = vhost.amqp_url();
        let to = (&cluster, broker.as_str());
        benchmark.part("cold", |report| runtime.block_on(cold::measure(report, to.0, to.1)));
        benchmark.part("warm", |report| runtime.block_on(warm::measure(report, to.0, to.1)));
        benchmark.part("chain", |report| runtime.block_on(chain::measure(report, to.0, to.1)));
        benchmark.part("ends", |report| runtime.block_on(ends::measure(report, to.0, to.1)));
        benchmark.part("flood", |report| runtime.block_on(flood::measure(report, to.0, to.1)));
        benchmark.part("idle", |report| runtime.block_on(idle::measure(report, to.0, to.1)));
    }
    Ok(benchmark.finish())
}

/// What a call gives, and how long it took.
pub(crate) async fn timed<T>(
    call: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(Duration, T)> {
    let started = Instant::now();
    let gives = call.await?;
    Ok((started.elapsed(), gives))
}
