//! What a fleet costs before anybody calls it: how soon each service is ready, what they hold while
//! they wait, how large their images are, and how long a cluster takes to the first answered call.
//!
//! `cargo bench -p e2e --bench fleet`, or with `-- services` only the parts named. The images are
//! those of the engine that `TOOLBUS_TEST_DOCKER` names, and the cluster, of `pods` and `install`,
//! that of `TOOLBUS_TEST_KUBECONFIG`. Where either is not named, its rows are left out, unless
//! their part is: then the benchmark fails.

mod images;
mod install;
mod pods;
mod services;

use std::path::Path;
use std::process::ExitCode;

use anyhow::ensure;
use e2e::bench::Report;
use tikv_jemallocator::Jemalloc;
use toolbus_testkit::tools;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const PARTS: [&str; 4] = ["services", "pods", "images", "install"];

fn main() -> anyhow::Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for name in &named {
        ensure!(PARTS.contains(&&**name), "{name} is none of the parts: {}", PARTS.join(", "));
    }

    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let mut report = Report::new("fleet");
    if is_wanted("services") {
        services::measure(&mut report)?;
    }

    if is_wanted("pods")
        && let Some(cluster) =
            needed(tools::cluster(), &named, "pods: TOOLBUS_TEST_KUBECONFIG names no cluster")?
    {
        pods::measure(&mut report, &cluster)?;
    }

    if is_wanted("images")
        && let Some(docker) =
            needed(tools::docker(), &named, "images: TOOLBUS_TEST_DOCKER names no engine")?
    {
        images::measure(&mut report, &docker)?;
    }

    if is_wanted("install")
        && let Some(cluster) =
            needed(tools::cluster(), &named, "install: TOOLBUS_TEST_KUBECONFIG names no cluster")?
        && let Some(helm) =
            needed(tools::helm(), &named, "install: dev/parts/fetch helm has not been run")?
    {
        install::measure(&mut report, &cluster, &helm)?;
    }

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}

/// What a wanted part needs. Without it the part is left out, and where parts were named this is an
/// error: nobody is to take a table for whole that lacks what was asked for.
fn needed<T>(found: Option<T>, named: &[String], lack: &'static str) -> anyhow::Result<Option<T>> {
    ensure!(found.is_some() || named.is_empty(), lack);
    Ok(found)
}
