//! Agents that split their work, ask each other and wait for the time of day: what a subagent, a
//! hundred wisps, a task for another agent over RabbitMQ and a hundred thousand schedules cost.
//!
//! `cargo bench --profile measured -p e2e --bench agents`, or with `-- schedules` only the parts named. Prints a
//! table, writes it as `target/bench/agents.md` and `agents.json`, and exits 1 when a goal is
//! missed.

mod asking;
mod round_trip;
mod schedules;
mod signal;
mod subagents;
mod wisps;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use e2e::bench::{Benchmark, runtime};
use tikv_jemallocator::Jemalloc;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::name::AgentName;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const MILLISECOND: Duration = Duration::from_millis(1);

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["subagents", "wisps", "asking", "schedules"];
    let mut benchmark = Benchmark::begin("agents", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    benchmark.part("subagents", |report| runtime.block_on(subagents::measure(report)));
    benchmark.part("wisps", |report| runtime.block_on(wisps::measure(report)));
    benchmark.part("asking", |report| runtime.block_on(asking::measure(report)));
    benchmark.part("schedules", |report| runtime.block_on(schedules::measure(report)));
    Ok(benchmark.finish())
}

/// The scope of a turn of an agent in a session.
fn turn_scope(agent: AgentName, principal: Principal, session: &str) -> anyhow::Result<Arc<Scope>> {
    let session = SessionId::parse(session)?;
    Ok(Arc::new(Scope::new(Door::Turn, principal, agent).with_session(Some(session))))
}
