//! Many scripts that mean no harm, by both runners: how many failed, and what is left after them.
//!
//! `cargo xtask accept soak` starts it. Every script goes the way of a fleet's: over RabbitMQ to
//! `scripts-manager` as a process, and its answer is judged as the conformance suite does. Pods are
//! those of the cluster that `TOOLBUS_TEST_KUBECONFIG` names. Prints a table, writes it as
//! `target/bench/soak.md` and `soak.json`, and exits 1 when a goal is missed.

#![allow(clippy::print_stderr, reason = "tells how far it has come")]

mod arguments;
#[path = "../scripts/connect.rs"]
mod connect;
#[path = "../../tests/cluster/index.rs"]
mod index;
mod local;
mod manager;
mod outages;
mod pods;
#[path = "../../tests/cluster/proxy.rs"]
#[allow(dead_code, reason = "the tests hold up and slow down as well")]
mod proxy;
mod tally;

use std::process::ExitCode;

use anyhow::Context as _;
use clap::Parser as _;
use e2e::bench::{Benchmark, runtime};

use arguments::{Arguments, Place};
use tikv_jemallocator::Jemalloc;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = runtime()?;
    let vhost = runtime.block_on(toolbus_testkit::rabbit::vhost()).context("there is no broker")?;
    let broker = vhost.amqp_url();

    let shares = arguments.shares();
    let wanted = shares.iter().map(|(place, _)| place.part()).collect();
    let parts = [Place::Local.part(), Place::Pods.part()];
    let mut benchmark = Benchmark::begin_with("soak", env!("CARGO_TARGET_TMPDIR"), &parts, wanted)?;
    for (place, runs) in shares {
        benchmark.part(place.part(), |report| match place {
            Place::Local => runtime.block_on(local::soak(report, &broker, runs)),
            Place::Pods => runtime.block_on(pods::soak(report, &broker, runs)),
        });
    }

    benchmark.note(format!(
        "Every {}th script asks for numpy, pandas and matplotlib, which the runner installs; the \
         others use the standard library alone. Each has an answer of its own, which is compared. \
         {} at a time, over RabbitMQ, by one `scripts-manager` for each runner, built as for tests. \
         What is left is counted when all are answered, beside what was there after the first tenth \
         of them; what a manager is to remember of the answers of the last ten minutes, for requests \
         that come twice, by the length of those answers. An outage takes {} s, in which the way to \
         the cluster's API is closed for the manager; whoever is told meanwhile that nobody began a \
         script asks again.",
        tally::SCIENTIFIC_EVERY,
        arguments.at_once,
        outages::AWAY.as_secs()
    ));
    Ok(benchmark.finish())
}
