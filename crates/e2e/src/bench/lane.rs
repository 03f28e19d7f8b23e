//! Lanes: in each, one call follows the other.

use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

use super::Latencies;

/// Makes one call after the other.
pub trait Lane: Send + 'static {
    /// Makes a call and waits for its answer.
    fn call(&mut self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

/// The runtime of our services, with two threads whatever the machine has: the goals are for two
/// cores.
///
/// # Errors
/// When the machine gives no threads.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

/// Makes calls one after the other, and says how long each took.
///
/// # Errors
/// When a call fails.
pub fn one_by_one(
    runtime: &Runtime,
    mut lane: impl Lane,
    count: usize,
) -> anyhow::Result<Latencies> {
    run_on(runtime, async move { call_in_turn(&mut lane, count).await })
}

/// What calls in several lanes at once gave.
#[derive(Debug)]
pub struct Burst {
    /// Calls in a second, over all lanes.
    pub rate: f64,
    /// How long each call took.
    pub latencies: Latencies,
}

/// Makes `count` calls in all, in as many lanes as are given, at the same time.
///
/// # Errors
/// When a call fails.
pub fn at_once<L: Lane>(
    runtime: &Runtime,
    lanes: impl IntoIterator<Item = L>,
    count: usize,
) -> anyhow::Result<Burst> {
    let lanes: Vec<L> = lanes.into_iter().collect();
    let of_each = count / lanes.len();
    run_on(runtime, async move {
        let started = Instant::now();
        let mut running = JoinSet::new();
        for mut lane in lanes {
            running.spawn(async move { call_in_turn(&mut lane, of_each).await });
        }
        let mut latencies = Latencies::default();
        while let Some(ended) = running.join_next().await {
            latencies.append(ended??);
        }
        let rate = latencies.len() as f64 / started.elapsed().as_secs_f64();
        Ok(Burst { rate, latencies })
    })
}

async fn call_in_turn(lane: &mut impl Lane, count: usize) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::with_capacity(count);
    for _ in 0..count {
        let started = Instant::now();
        lane.call().await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

/// Runs on the runtime's own threads: a call from another thread would wait to be woken.
fn run_on<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = anyhow::Result<T>> + Send + 'static,
) -> anyhow::Result<T> {
    let mut tasks = JoinSet::new();
    tasks.spawn_on(work, runtime.handle());
    runtime.block_on(async { tasks.join_next().await.expect("one task was spawned") })?
}
