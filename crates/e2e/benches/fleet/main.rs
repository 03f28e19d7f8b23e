//! What a fleet costs before anybody calls it: how soon each service is ready, what they hold while
//! they wait, how large their images are, and how long a cluster takes to the first answered call.
//!
//! `cargo bench --profile measured -p e2e --bench fleet`, or with `-- --only services` only the part named. The images are
//! those of the engine that `TOOLBUS_TEST_DOCKER` names, and the cluster, of `pods` and `install`,
//! that of `TOOLBUS_TEST_KUBECONFIG`. Where either is not named, its rows are left out, unless
//! their part is: then the benchmark fails.

mod images;
mod install;
mod pods;
mod services;

use std::process::ExitCode;

use anyhow::ensure;
use e2e::bench::Benchmark;
use tikv_jemallocator::Jemalloc;
use toolbus_testkit::tools;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const NO_CLUSTER: &str = "TOOLBUS_TEST_KUBECONFIG names no cluster";

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["services", "pods", "images", "install"];
    let mut benchmark = Benchmark::begin("fleet", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let is_partial = benchmark.is_partial();
    benchmark.part("services", services::measure);
    benchmark.part("pods", |report| {
        let cluster = needed(tools::cluster(), is_partial, NO_CLUSTER)?;
        cluster.map_or(Ok(()), |cluster| pods::measure(report, &cluster))
    });
    benchmark.part("images", |report| {
        let docker = needed(tools::docker(), is_partial, "TOOLBUS_TEST_DOCKER names no engine")?;
        docker.map_or(Ok(()), |docker| images::measure(report, &docker))
    });
    benchmark.part("install", |report| {
        let cluster = needed(tools::cluster(), is_partial, NO_CLUSTER)?;
        let helm = needed(tools::helm(), is_partial, "dev/parts/fetch helm has not been run")?;
        let both = cluster.zip(helm);
        both.map_or(Ok(()), |(cluster, helm)| install::measure(report, &cluster, &helm))
    });
    Ok(benchmark.finish())
}

/// What a wanted part needs. Without it the part is left out, and where parts were named this is an
/// error: nobody is to take a table for whole that lacks what was asked for.
fn needed<T>(found: Option<T>, is_partial: bool, lack: &'static str) -> anyhow::Result<Option<T>> {
    ensure!(found.is_some() || !is_partial, lack);
    Ok(found)
}
