//! Lanes: in each, one call follows the other.

use std::time::{Duration, Instant};

use e2e::bench::Latencies;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

/// How many calls are under way where it is about throughput.
pub(crate) const IN_FLIGHT: usize = 64;

/// Makes one call after the other.
pub(crate) trait Lane: Send + 'static {
    /// Makes a call and waits for its answer.
    fn call(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The runtime of our services, with two threads whatever the machine has: the goals are for two
/// cores.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Makes calls one after the other, and says how long each took.
pub(crate) fn one_by_one(
    runtime: &Runtime,
    mut lane: impl Lane,
    count: usize,
) -> anyhow::Result<Latencies> {
    on(runtime, async move {
        let mut latencies = Latencies::with_capacity(count);
        for _ in 0..count {
            let started = Instant::now();
            lane.call().await?;
            latencies.add(started.elapsed());
        }
        Ok(latencies)
    })
}

/// Makes calls in [`IN_FLIGHT`] lanes, and says how many there were in a second.
pub(crate) fn at_once<L: Lane>(
    runtime: &Runtime,
    lane: impl Fn() -> L,
    count: usize,
) -> anyhow::Result<f64> {
    let lanes: Vec<L> = (0..IN_FLIGHT).map(|_| lane()).collect();
    let took = on(runtime, async move {
        let started = Instant::now();
        let mut running = JoinSet::new();
        for mut lane in lanes {
            running.spawn(async move {
                for _ in 0..count / IN_FLIGHT {
                    lane.call().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = running.join_next().await {
            ended??;
        }
        Ok(started.elapsed())
    })?;
    let calls = count / IN_FLIGHT * IN_FLIGHT;
    Ok(calls as f64 / Duration::as_secs_f64(&took))
}

/// Runs on the runtime's own threads: a call from another thread would wait to be woken.
fn on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(work, runtime.handle());
    runtime.block_on(async { tasks.join_next().await.expect("one task was spawned") })?
}
