//! The in-memory broker: both agents in one process, as when there is no broker at all.

use std::sync::Arc;
use std::time::Duration;

use e2e::bench::{Goal, Report, Rounds, Row, at_once, one_by_one, process_time, runtime};
use toolbus_bus::{Bus, MemoryBus};

use crate::IN_FLIGHT;
use crate::tool::{Caller, Worker};

const ROUNDS: usize = 15;
/// Calls of a round, one by one.
const CALLS: usize = 2_000;
/// Calls of a round, many at once.
const MANY_CALLS: usize = 19_200;

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let _worker = runtime.block_on(Worker::start(Arc::clone(&bus)))?;
    let caller = runtime.block_on(Caller::start(bus))?;

    let (mut latencies, mut rates, mut processor) = (Rounds::new(), Rounds::new(), Rounds::new());
    // The first round is for caches, allocators and the outcome memory to fill.
    for round in 0..=ROUNDS {
        let one = one_by_one(&runtime, caller.clone(), CALLS)?;
        let before = process_time();
        let lanes = (0..IN_FLIGHT).map(|_| caller.clone());
        let rate = at_once(&runtime, lanes, MANY_CALLS)?.rate;
        let busy = process_time() - before;
        if round > 0 {
            latencies.add_latencies(one, Duration::from_micros(1));
            rates.add(rate);
            processor.add(busy.as_secs_f64() * 1e6 / MANY_CALLS as f64);
        }
    }

    report.add(
        Row::new("in memory, tool, 1 in flight", "µs", latencies).with_goal(Goal::AtMost(25.0)),
    );
    report.add(
        Row::new(format!("in memory, tool, {IN_FLIGHT} in flight"), "calls/s", rates)
            .with_goal(Goal::AtLeast(100_000.0)),
    );
    report.add(Row::new("in memory, tool, processor time of a call", "µs", processor));
    report.note(format!(
        "In memory: `invoke` of a tool that does nothing, from one agent's gates over the bus to \
         another's and back, in one process on two threads. {ROUNDS} rounds of {CALLS} calls one \
         by one and {MANY_CALLS} with {IN_FLIGHT} in flight."
    ));

    Ok(())
}
