//! The in-memory broker: both agents in one process, as when there is no broker at all.

use std::sync::Arc;
use std::time::Duration;

use e2e::bench::{Goal, Report, Rounds, Row, process_time};
use tokio::runtime::{Builder, Runtime};
use toolbus_bus::{Bus, MemoryBus};
use toolbus_tools::Invoker;
use toolbus_wire::name::AgentName;

use crate::calls::{IN_FLIGHT, Worker, at_once, caller, one_by_one};

const ROUNDS: usize = 3;
/// Calls of a round, one by one.
const CALLS: usize = 2_000;
/// Calls of a round, many at once.
const MANY_CALLS: usize = 20_000;

/// Two workers, whatever the machine has: the goals are for two cores.
const THREADS: usize = 2;

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let name = AgentName::parse("worker")?;
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let worker = runtime.block_on(Worker::start(Arc::clone(&bus), &name))?;
    let invoker = runtime.block_on(caller(bus, &name))?;

    let (mut latencies, mut rates, mut processor) = (Rounds::new(), Rounds::new(), Rounds::new());
    // The first round is for caches, allocators and the outcome memory to fill.
    for round in 0..=ROUNDS {
        let one = on(&runtime, one_by_one(invoker.clone(), CALLS))?;
        let before = process_time();
        let took = on(&runtime, at_once(invoker.clone(), MANY_CALLS))?;
        let busy = process_time() - before;
        if round > 0 {
            latencies.add_latencies(one, Duration::from_micros(1));
            rates.add(MANY_CALLS as f64 / took.as_secs_f64());
            processor.add(busy.as_secs_f64() * 1e6 / MANY_CALLS as f64);
        }
    }
    drop(worker);
    drop::<Invoker>(invoker);

    let name = |what: &str| format!("in memory, {what}");
    report.add(
        Row::new(name("1 in flight"), "µs", latencies).with_goal(Goal::AtMost(25.0)),
    );
    report.add(
        Row::new(name(&format!("{IN_FLIGHT} in flight")), "calls/s", rates)
            .with_goal(Goal::AtLeast(100_000.0)),
    );
    report.add(Row::new(name("processor time of a call"), "µs", processor));
    report.note(format!(
        "In memory: `invoke` of a tool that does nothing, from one agent's gates over the bus to \
         another's and back, on {THREADS} threads. {ROUNDS} rounds of {CALLS} calls one by one and \
         {MANY_CALLS} with {IN_FLIGHT} in flight."
    ));
    Ok(())
}

/// Runs on the runtime's own threads: a call from another thread would wait to be woken.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn_on(work, runtime.handle());
    runtime.block_on(async { tasks.join_next().await.expect("one task was spawned") })?
}
