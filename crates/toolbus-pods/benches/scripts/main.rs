//! Scripts in pods: how long one takes from its request to its response, and what the manager
//! keeps.
//!
//! `cargo bench -p toolbus-pods --bench scripts`, or with `-- cold` only the parts named. Needs the
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

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Report, runtime};

use cluster::Cluster;
use tikv_jemallocator::Jemalloc;

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
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let runtime = runtime()?;
    let mut report = Report::new("scripts");
    if is_wanted("local") {
        runtime.block_on(local::measure(&mut report))?;
    }
    let cluster = runtime.block_on(Cluster::connect())?;
    if let Some(vhost) = runtime.block_on(toolbus_testkit::rabbit::vhost()) {
        let broker = vhost.amqp_url();
        if is_wanted("cold") {
            runtime.block_on(cold::measure(&mut report, &cluster, &broker))?;
        }
        if is_wanted("warm") {
            runtime.block_on(warm::measure(&mut report, &cluster, &broker))?;
        }
        if is_wanted("chain") {
            runtime.block_on(chain::measure(&mut report, &cluster, &broker))?;
        }
        if is_wanted("ends") {
            runtime.block_on(ends::measure(&mut report, &cluster, &broker))?;
        }
        if is_wanted("flood") {
            runtime.block_on(flood::measure(&mut report, &cluster, &broker))?;
        }
        if is_wanted("idle") {
            runtime.block_on(idle::measure(&mut report, &cluster, &broker))?;
        }
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}

/// What a call gives, and how long it took.
pub(crate) async fn timed<T>(
    call: impl Future<Output = anyhow::Result<T>>,
) -> anyhow::Result<(Duration, T)> {
    let started = Instant::now();
    let gives = call.await?;
    Ok((started.elapsed(), gives))
}
