//! One subagent, from its beginning to its end.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_policy::SessionOwner;
use toolbus_store::until_changed;
use toolbus_tools::budget::Usage;
use toolbus_tools::id::CallId;
use toolbus_tools::{Budget, Lineage, Scope};
use tracing::{Instrument as _, Span};

use crate::metrics::{Outcome, fail};
use crate::publish::publish_event;
use crate::rows::Hold;
use crate::scope::{child_scope, subagent_session};
use crate::subagents::{Inner, RunningHere};
use crate::tables::CHANGES;
use crate::{SubagentChange, SubagentEnd, SubagentEvent, SubagentRun};

/// How often an end is written down, where the store fails.
const KEEP_ATTEMPTS_MAX: u32 = 30;
/// Between two of them.
const KEEP_BACKOFF: Duration = Duration::from_secs(1);

/// A subagent that begins here, or goes on.
pub(crate) struct Start {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    pub(crate) description: String,
    pub(crate) context: String,
    /// That of the scope that has spawned it. `None`: it cannot be read.
    pub(crate) lineage: Option<Lineage>,
    /// What it had spent when another process had it.
    pub(crate) spent: Usage,
    pub(crate) is_paused: bool,
    pub(crate) is_resumed: bool,
    pub(crate) timeout: Duration,
    /// `None`: another process has begun it.
    pub(crate) scope: Option<Arc<Scope>>,
    /// The span of its work.
    pub(crate) span: Span,
}

/// How a subagent ended: what is told, and what is counted.
pub(crate) struct Ended {
    end: SubagentEnd,
    outcome: Outcome,
}

/// How it came to an end here.
enum Stopped {
    /// It has ended.
    Ended(Ended),
    /// Another process has it.
    Lost,
    /// It is left to another process.
    Left,
}

/// What goes on beside the work.
struct Watched<'a> {
    id: &'a str,
    stop: &'a CancellationToken,
    pause: &'a watch::Sender<bool>,
    account: &'a Budget,
}

impl Inner {
    /// Does the work of a subagent that is this process's, and writes down how it ended.
    pub(crate) async fn work(self: Arc<Self>, start: Start, here: RunningHere) {
        match self.run(&start).instrument(start.span.clone()).await {
            Stopped::Ended(end) => self.keep_end(&start, end).await,
            Stopped::Lost => {
                tracing::warn!(id = start.id, "another process has taken a subagent over");
            }
            Stopped::Left => {}
        }
        drop(here);
        self.nudge.notify_one();
    }

    async fn run(&self, start: &Start) -> Stopped {
        let scope = match &start.scope {
            Some(scope) => Arc::clone(scope),
            None => match self.restore_scope(start).await {
                Ok(scope) => Arc::new(scope),
                Err(error) => return Stopped::Ended(failed(error).into()),
            },
        };
        let (account, stop) = (scope.budget.clone(), scope.cancelled.clone());
        // Dropped after the work: what that leaves below itself ends, too.
        let _below = stop.clone().drop_guard();
        let (pause, paused) = watch::channel(start.is_paused);

        let run = start.as_run(scope);
        let work = async { self.deps.work.run(run, paused).await };
        let mut work = std::pin::pin!(AssertUnwindSafe(work).catch_unwind());
        let watched = Watched { id: &start.id, stop: &stop, pause: &pause, account: &account };
        let mut watching = std::pin::pin!(self.watch(watched));
        let dropped = async {
            stop.cancelled().await;
            tokio::time::sleep(self.deps.config.cancel_grace).await;
        };

        // Every arm only waits; the work goes on through them.
        let ended = tokio::select! {
            ended = &mut work => ended,
            () = &mut watching => return Stopped::Lost,
            () = self.left.cancelled() => return Stopped::Left,
            () = dropped => {
                tracing::warn!(id = start.id, "dropped a subagent that did not stop");
                Ok(SubagentEnd::Cancelled { text: String::new() })
            }
            () = tokio::time::sleep(start.timeout) => {
                stop.cancel();
                // However it ends now, its time was over. It is this process's meanwhile.
                let ended = tokio::select! {
                    ended = &mut work => ended.ok(),
                    () = &mut watching => return Stopped::Lost,
                    () = tokio::time::sleep(self.deps.config.timeout_grace) => None,
                };
                return Stopped::Ended(timed_out(start.timeout, ended));
            }
        };
        let end = match ended {
            // What came of it after it was stopped came of that.
            Ok(SubagentEnd::Failed { text, .. }) if stop.is_cancelled() => {
                SubagentEnd::Cancelled { text }
            }
            Ok(end) => end,
            Err(_) => failed("the subagent failed within the agent".to_owned()),
        };
        Stopped::Ended(end.into())
    }

    /// The scope of a subagent that another process has begun: a child of the scope that has
    /// spawned it, whose run has spent what the subagent had spent.
    async fn restore_scope(&self, start: &Start) -> Result<Scope, String> {
        let Start { id, owner, lineage, spent, .. } = start;
        let lineage = lineage.as_ref().ok_or("what it inherits cannot be read")?;
        let spawner = self.deps.work.restore_scope(lineage, owner.clone()).await?;
        let call = CallId::parse(id).map_err(|error| error.to_string())?;
        let session = subagent_session(id).ok_or("its id is no name of a session")?;
        let scope = child_scope(&spawner, &call, session).ok_or("scopes are nested too deep")?;
        scope.budget.add_spent(*spent);
        Ok(scope)
    }

    /// Keeps a subagent to this process, stops it when it is cancelled, and pauses it. It returns
    /// when another process has it.
    async fn watch(&self, watched: Watched<'_>) {
        let Watched { id, stop, pause, account } = watched;
        let renew_interval = self.deps.config.lease_ttl / 3;
        let mut changes = match self.rows.store.open().await {
            Ok(store) => Some(store.changes(CHANGES)),
            Err(_) => None,
        };
        let mut renewed = Instant::now();
        loop {
            let hold = if renewed.elapsed() >= renew_interval {
                renewed = Instant::now();
                self.rows.renew(id, account.usage()).await
            } else {
                self.rows.look_at(id).await
            };
            match hold {
                Ok(Hold::Held { is_cancelled, is_paused }) => {
                    if is_cancelled {
                        stop.cancel();
                    }
                    pause.send_if_modified(|paused| {
                        std::mem::replace(paused, is_paused) != is_paused
                    });
                }
                Ok(Hold::Lost) => return,
                Err(error) => {
                    tracing::warn!(
                        error = error.as_dyn(),
                        id,
                        "could not renew the lease of a subagent"
                    );
                    tokio::time::sleep(KEEP_BACKOFF.min(renew_interval)).await;
                }
            }

            let left = renew_interval.saturating_sub(renewed.elapsed());
            let _ = tokio::time::timeout(left, until_changed(changes.as_mut())).await;
        }
    }

    /// Writes down how a subagent ended, and says so to whoever listens.
    pub(crate) async fn keep_end(&self, start: &Start, Ended { end, outcome: how }: Ended) {
        if matches!(how, Outcome::Failed | Outcome::TimedOut) {
            fail(&start.span, how);
        }
        let what = SubagentChange::of_end(end, self.deps.config.result_bytes_max);
        // Texts and truth values are always JSON.
        let outcome = serde_json::to_string(&what).unwrap_or_default();
        let Start { id, owner, description, .. } = start;

        for _ in 0..KEEP_ATTEMPTS_MAX {
            match self.rows.end(owner, id, &outcome).await {
                Ok(Some(took_ms)) => {
                    self.metrics.record_end(how, took_ms);
                    let (id, owner) = (id.clone(), owner.clone());
                    let (description, lineage) = (description.clone(), None);
                    let event = SubagentEvent { id, owner, description, what, lineage };
                    self.nudge.notify_one();
                    publish_event(&*self.deps.bus, &event).await;
                    return;
                }
                Ok(None) => {
                    tracing::warn!(id, "another process has taken a subagent over");
                    return;
                }
                Err(error) => {
                    tracing::warn!(error = error.as_dyn(), id, "the end of a subagent is not kept");
                }
            }
            // Every arm only waits.
            tokio::select! {
                () = tokio::time::sleep(KEEP_BACKOFF) => {}
                () = self.left.cancelled() => return,
            }
        }
        // Whoever takes it up finds its turn at its end.
    }
}

impl From<SubagentEnd> for Ended {
    fn from(end: SubagentEnd) -> Self {
        let outcome = Outcome::of_end(&end);
        Self { end, outcome }
    }
}

impl Start {
    fn as_run(&self, scope: Arc<Scope>) -> SubagentRun {
        SubagentRun {
            id: self.id.clone(),
            owner: self.owner.clone(),
            scope,
            description: self.description.clone(),
            context: Some(self.context.clone()).filter(|context| !context.is_empty()),
            is_resumed: self.is_resumed,
            timeout: self.timeout,
        }
    }
}

pub(crate) fn failed(error: String) -> SubagentEnd {
    SubagentEnd::Failed { text: String::new(), error }
}

/// The end of one whose time is over, with the text that it came to.
pub(crate) fn timed_out(timeout: Duration, ended: Option<SubagentEnd>) -> Ended {
    let text = match ended {
        Some(
            SubagentEnd::Completed { text }
            | SubagentEnd::Cancelled { text }
            | SubagentEnd::Failed { text, .. },
        ) => text,
        None => String::new(),
    };
    let seconds = timeout.as_millis().div_ceil(1_000);
    let end = SubagentEnd::Failed { text, error: format!("it took longer than {seconds} s") };
    Ended { end, outcome: Outcome::TimedOut }
}
