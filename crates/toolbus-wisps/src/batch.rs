//! Runs all wisps of a call: a few at a time, until the last has ended or the time is over.

use std::collections::HashMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _, stream};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::task::TaskTracker;
use toolbus_artifacts::Artifacts;
use toolbus_bus::Deadline;
use toolbus_memory::MemoryOwner;
use toolbus_tools::budget::BudgetLimits;
use toolbus_tools::call::{Invocation, Outcome};
use toolbus_tools::{CallError, Door, Scope};

use crate::breaker::Breaker;
use crate::definition::{MCP_TOOL, Wisp, Work};
use crate::ids::BatchId;
use crate::kept::{Kept, output_path};
use crate::metrics::WispMetrics;
use crate::mistake::{Mistake, Mistakes};
use crate::report::{BatchReport, WispReport};
use crate::runner::{PlannedWisp, Runner};
use crate::tool::WispsDeps;

/// How long wisps have to end once their call was cancelled: it is dropped soon after.
const CANCEL_GRACE: Duration = Duration::from_millis(200);
/// What of a caller's time is left for stopping and telling the result: a third, and no more than
/// this.
const REPORT_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// The wisps of one call.
pub(crate) struct Batch<'a> {
    pub(crate) deps: &'a WispsDeps,
    pub(crate) breaker: &'a Breaker,
    pub(crate) metrics: &'a WispMetrics,
    pub(crate) call: &'a Invocation,
    pub(crate) id: BatchId,
    pub(crate) wisps: &'a [Wisp],
}

/// Lets artifacts go that the calls of a scope have pinned, however it ends.
struct UnpinOnDrop {
    artifacts: Option<Artifacts>,
    holder: Option<String>,
    tasks: TaskTracker,
}

impl Drop for UnpinOnDrop {
    fn drop(&mut self) {
        let (Some(artifacts), Some(holder)) = (self.artifacts.take(), self.holder.take()) else {
            return;
        };
        self.tasks.spawn(async move {
            if let Err(error) = artifacts.unpin_all(&holder).await {
                tracing::warn!(error = &error as &dyn std::error::Error, "artifacts stay pinned");
            }
        });
    }
}

impl Batch<'_> {
    /// Runs the wisps. Where this call has ended before, its result is given again.
    pub(crate) async fn run(self) -> Outcome {
        let began = Instant::now();
        let owner = MemoryOwner::of(&self.call.scope);
        let config = &*self.deps.config;
        let kept = Kept { memory: &self.deps.memory, owner: owner.clone(), config };
        if let Some(result) = kept.find_result(&self.id).await? {
            return Ok(result);
        }
        self.breaker.check(owner.as_str())?;

        let plans = self.plan()?;
        let end = self.end_of(began);
        let scope = self.open_scope(end)?;
        let _unpin = UnpinOnDrop {
            artifacts: self.deps.artifacts.clone(),
            holder: scope.chain(),
            tasks: self.deps.tasks.clone(),
        };
        // What runs ends with this, also where it is dropped.
        let _cancel = scope.cancelled.clone().drop_guard();
        self.await_servers().await;

        let runner = Runner {
            deps: self.deps,
            calls: &self.call.calls,
            scope: &scope,
            kept: &kept,
            progress: &self.call.context.progress,
        };
        let wisps = self.run_all(&runner, plans, end).await?;
        let report = BatchReport { id: self.id.clone(), wisps, took: began.elapsed() };
        self.breaker.count(owner.as_str(), report.failed());
        self.conclude(&kept, &report).await
    }

    /// The wisps with their ids, and the places of their outputs.
    fn plan(&self) -> Result<Vec<PlannedWisp<'_>>, CallError> {
        let mut mistakes = Mistakes::default();
        let mut plans = Vec::with_capacity(self.wisps.len());

        for (at, wisp) in self.wisps.iter().enumerate() {
            let id = self.id.wisp(at);
            let mut output_paths = HashMap::new();
            for step in &wisp.steps {
                let Some(key) = &step.output_to else { continue };
                match output_path(&self.call.scope, &id, key) {
                    Ok(path) => {
                        output_paths.insert(step.id.clone(), path);
                    }
                    Err(error) => mistakes.add(Mistake {
                        wisp: at + 1,
                        step: Some(step.id.clone()),
                        member: "output_to".to_owned(),
                        problem: error.to_string(),
                        instead: "Write a key such as `findings/prices`".to_owned(),
                    }),
                }
            }
            plans.push(PlannedWisp { wisp, id, output_paths });
        }

        if mistakes.is_empty() { Ok(plans) } else { Err(mistakes.into()) }
    }

    /// When the wisps end at the latest: in time to tell of it.
    fn end_of(&self, began: Instant) -> Instant {
        let left = self.call.context.deadline.left();
        let left = left - (left / 3).min(REPORT_TIMEOUT_MAX);
        began + left.min(self.deps.config.timeout)
    }

    /// The scope of all calls, with what they may spend.
    fn open_scope(&self, end: Instant) -> Result<Scope, CallError> {
        let scope = self.call.calls.scope(Door::Chain)?;
        let calls = self.wisps.iter().map(|wisp| wisp.steps.len() as u64).sum();
        let left = end.saturating_duration_since(Instant::now());
        let budget = scope.budget.child(BudgetLimits {
            calls: Some(calls),
            tokens: self.deps.config.tokens_max,
            deadline: Some(Deadline::after(left)),
            ..BudgetLimits::default()
        });
        Ok(scope.with_budget(budget))
    }

    /// Waits for the MCP servers that steps name, for a while.
    async fn await_servers(&self) {
        let Some(mcp) = &self.deps.mcp else { return };
        let steps = self.wisps.iter().flat_map(|wisp| &wisp.steps);
        let servers = steps.filter_map(|step| match &step.work {
            Work::Mcp { server, .. } => Some(server.clone()),
            _ => None,
        });
        let mut servers: Vec<_> = servers.collect();
        servers.sort_unstable();
        servers.dedup();
        if servers.is_empty() {
            return;
        }

        let waiting = timeout(self.deps.config.mcp_ready_timeout, mcp.wait(&servers));
        tokio::select! {
            ready = waiting => {
                if ready.is_err() {
                    tracing::info!(tool = MCP_TOOL, "MCP servers of wisps are not there yet");
                }
            }
            () = self.call.context.cancelled.cancelled() => {}
        }
    }

    /// Runs the wisps, and gives their reports in order.
    async fn run_all(
        &self,
        runner: &Runner<'_>,
        plans: Vec<PlannedWisp<'_>>,
        end: Instant,
    ) -> Result<Vec<WispReport>, CallError> {
        let mut reports: Vec<_> = plans
            .iter()
            .map(|plan| WispReport::stopped(plan.id.clone(), &plan.wisp.description))
            .collect();
        let mut running: Vec<BoxFuture<'_, (usize, WispReport)>> = Vec::with_capacity(plans.len());
        for (at, plan) in plans.into_iter().enumerate() {
            running.push(async move { (at, runner.run(plan).await) }.boxed());
        }
        let mut running =
            pin!(stream::iter(running).buffer_unordered(self.deps.config.concurrent_max.get()));

        let cancelled = &self.call.context.cancelled;
        let mut limit = end;
        let mut is_stopped = false;
        loop {
            tokio::select! {
                biased;
                ended = running.next() => match ended {
                    Some((at, report)) => reports[at] = report,
                    None => break,
                },
                () = cancelled.cancelled(), if !is_stopped => {
                    is_stopped = true;
                    runner.scope.cancelled.cancel();
                    limit = Instant::now() + CANCEL_GRACE;
                }
                () = sleep_until(limit) => {
                    if is_stopped {
                        break;
                    }
                    is_stopped = true;
                    runner.scope.cancelled.cancel();
                    // The other half is for telling what has become of it.
                    let grace = self.call.context.deadline.left() / 2;
                    limit = Instant::now() + grace.min(self.deps.config.cancel_grace);
                }
            }
        }
        reports.iter().for_each(|report| self.metrics.record(report));
        if cancelled.is_cancelled() { Err(CallError::cancelled()) } else { Ok(reports) }
    }

    /// Keeps how the wisps ended, and tells it.
    async fn conclude(&self, kept: &Kept<'_>, report: &BatchReport) -> Outcome {
        let key = self.id.key("summary");
        let output = report.to_output(Some(&key));
        match kept.keep_result(&self.id, &report.summary(), &output).await {
            Ok(()) => Ok(output),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not keep the summary of wisps");
                Ok(report.to_output(None))
            }
        }
    }
}
