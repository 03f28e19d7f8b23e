//! The approvals of one process: who waits here, and what is done from time to time.
//!
//! Calls that wait are woken by the change notice of the store, all of them by one look at the rows
//! of this process. The same task says that the process lives, takes over calls that no living
//! process has, and tidies up.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, OnceCell};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::responder::ParkedRequest;
use toolbus_store::LazyStore;
use toolbus_wire::name::AgentName;

use crate::Error;
use crate::answers::ApprovalStore;
use crate::calls::HostRows;
use crate::gate::ApprovalGate;
use crate::tables::CHANGES;
use crate::upkeep::TakenOver;

/// How often it tidies up.
const TIDY_INTERVAL: Duration = Duration::from_secs(30);
/// Most calls without an answer that are brought back into memory. The others wait in the store.
const WAITING_MAX: usize = 512;
/// Most calls that are on their way back at a time.
const RETURNING_MAX: usize = 256;
/// How long a call that was brought back may take until it counts as none of them any more.
const RETURN_TIMEOUT: Duration = Duration::from_secs(60);
/// How long it is known that a call was brought back: no request is answered after so long.
const RETURNED_TTL: Duration = toolbus_bus::deadline::REQUEST_TIMEOUT_MAX;

/// How approvals are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalConfig {
    /// How long a call waits for its approval, where its caller waits as long.
    pub timeout: Duration,
    /// Whether a call waits for somebody who answers at the store, where there is nobody else to
    /// ask and the call does not outlive this process.
    pub wait_for_operator: bool,
    /// Whether those who make a call may approve it, though they are not the local person.
    pub allow_self_approval: bool,
    /// How long approvals are kept that have ended.
    pub keep_for: Duration,
    /// How long an answer holds that is to be remembered, where its approver does not say.
    pub remember_for: Duration,
    /// Most calls that wait for approval at the store.
    pub pending_max: u64,
    /// How long a host counts as alive that has not said so again. It says so every third of it.
    pub host_ttl: Duration,
}

impl Default for ApprovalConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5 * 60),
            wait_for_operator: false,
            allow_self_approval: false,
            keep_for: Duration::from_secs(30 * 24 * 60 * 60),
            remember_for: Duration::from_secs(8 * 60 * 60),
            pending_max: 2_000_000,
            host_ttl: Duration::from_secs(15),
        }
    }
}

/// The approvals of one process. Clones are the same. Close it before the store.
#[derive(Clone)]
pub struct Approvals {
    desk: Arc<Desk>,
    _end: Arc<DropGuard>,
}

/// Brings requests back: hands them to those who answer such.
type Resume = Box<dyn Fn(Vec<ParkedRequest>) -> BoxFuture<'static, ()> + Send + Sync>;

/// What the gate, the task of the upkeep and the calls that wait share.
pub(crate) struct Desk {
    pub(crate) rows: HostRows,
    pub(crate) config: ApprovalConfig,
    agent: String,
    started: OnceCell<()>,
    waiting: Mutex<HashMap<String, Arc<Notify>>>,
    /// Calls that were brought back, by their keys, and when.
    returning: Mutex<HashMap<String, Instant>>,
    resume: OnceLock<Resume>,
    is_full: AtomicBool,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Approvals {
    /// The approvals of the calls of an agent, in this store, for one process. `host` tells it from
    /// all others at the store. Nothing is opened yet.
    #[must_use]
    pub fn new(store: LazyStore, config: ApprovalConfig, agent: &AgentName, host: &str) -> Self {
        let approvals = ApprovalStore::new(store, config.allow_self_approval);
        let stop = CancellationToken::new();
        let desk = Desk {
            rows: HostRows { approvals, host: host.to_owned() },
            config,
            agent: agent.to_string(),
            started: OnceCell::new(),
            waiting: Mutex::default(),
            returning: Mutex::default(),
            resume: OnceLock::new(),
            is_full: AtomicBool::new(false),
            stop: stop.clone(),
            tasks: TaskTracker::new(),
        };
        Self { desk: Arc::new(desk), _end: Arc::new(stop.drop_guard()) }
    }

    /// The gate that calls pass which need an approval. It has its place before
    /// [`Approved`](toolbus_tools::gate::Approved).
    #[must_use]
    pub fn gate(&self) -> ApprovalGate {
        ApprovalGate::new(self.clone())
    }

    /// What is kept, for who answers.
    #[must_use]
    pub fn store(&self) -> &ApprovalStore {
        &self.desk.rows.approvals
    }

    /// Takes over the calls that an earlier process has left, for whoever is about to answer
    /// requests: those that are answered, and some of the others. The rest follows by
    /// [`resume_with`](Self::resume_with).
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn take_over(&self) -> Result<Vec<ParkedRequest>, Error> {
        self.desk.start().await?;
        self.desk.take_over().await
    }

    /// Has calls that come back later handed to this function. The first one counts.
    pub fn resume_with<F, Fut>(&self, resume: F)
    where
        F: Fn(Vec<ParkedRequest>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        // A second one would be told of calls that the first has.
        let _ = self.desk.resume.set(Box::new(move |requests| Box::pin(resume(requests))));
    }

    pub(crate) fn desk(&self) -> &Arc<Desk> {
        &self.desk
    }

    /// Ends what is done from time to time, and leaves the calls that are kept to others. Call it
    /// once no call waits here any more.
    pub async fn close(&self) {
        let Desk { stop, tasks, started, rows, .. } = &*self.desk;
        stop.cancel();
        tasks.close();
        tasks.wait().await;
        if started.initialized()
            && let Err(error) = rows.remove_host().await
        {
            // It counts as dead soon.
            tracing::debug!(%error, "could not say that this process ends");
        }
    }
}

impl Desk {
    /// Opens the store, says that this process lives, and begins the upkeep.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<(), Error> {
        let starting = self.started.get_or_try_init(|| async {
            self.rows.renew_host(self.config.host_ttl).await?;
            let desk = Arc::clone(self);
            self.tasks.spawn(async move { desk.keep_up().await });
            Ok(())
        });
        starting.await.copied()
    }

    /// Whether too many calls wait already.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Wakes when the approval may have been answered, as long as it is kept.
    pub(crate) fn watch(self: &Arc<Self>, id: &str) -> Watch {
        let wake = Arc::clone(self.waiting.lock().entry(id.to_owned()).or_default());
        Watch { desk: Arc::clone(self), id: id.to_owned(), wake }
    }

    /// Whether this call was brought back. It is forgotten then.
    pub(crate) fn take_returning(
        &self,
        call_key: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        // Hardly ever is there any, and the key costs a digest.
        if self.returning.lock().is_empty() {
            return None;
        }
        let key = call_key()?;
        self.returning.lock().remove(&key).map(|_| key)
    }

    /// Does work that must be done whatever becomes of the call.
    pub(crate) fn spawn(&self, work: impl Future<Output = Result<(), Error>> + Send + 'static) {
        self.tasks.spawn(async move {
            if let Err(error) = work.await {
                tracing::warn!(%error, "what has become of an approval is not written down");
            }
        });
    }

    async fn keep_up(self: Arc<Self>) {
        let Ok(store) = self.rows.store().await else { return };
        let mut changes = store.changes(CHANGES);
        let renew_interval = self.config.host_ttl / 3;
        let [mut renew, mut tidy] = [renew_interval, TIDY_INTERVAL].map(interval);
        for ticks in [&mut renew, &mut tidy] {
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }

        loop {
            // Every arm only waits.
            let (is_renewal, is_tidying) = tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                _ = renew.tick() => (true, false),
                _ = tidy.tick() => (false, true),
                changed = changes.changed() => match changed {
                    Ok(()) => (false, false),
                    Err(_) => return,
                },
            };

            let done = self.look_after(is_renewal, is_tidying).await;
            if let Err(error) = done {
                tracing::debug!(%error, "approvals are not looked after");
            }
        }
    }

    async fn look_after(&self, is_renewal: bool, is_tidying: bool) -> Result<(), Error> {
        if is_renewal {
            self.rows.renew_host(self.config.host_ttl).await?;
        }
        if is_tidying {
            self.rows.tidy(self.config.keep_for).await?;
            let pending = self.rows.approvals.count_pending().await?;
            self.is_full.store(pending >= self.config.pending_max, Ordering::Relaxed);
            self.returning.lock().retain(|_, at| at.elapsed() < RETURNED_TTL);
        }

        for id in self.rows.answered().await? {
            if let Some(wake) = self.waiting.lock().get(&id) {
                wake.notify_one();
            }
        }
        if let Some(resume) = self.resume.get() {
            let requests = self.take_over().await?;
            if !requests.is_empty() {
                resume(requests).await;
            }
        }
        Ok(())
    }

    async fn take_over(&self) -> Result<Vec<ParkedRequest>, Error> {
        let is_returning = |at: &&Instant| at.elapsed() < RETURN_TIMEOUT;
        let returning = self.returning.lock().values().filter(is_returning).count();
        let waiting = self.waiting.lock().len() + returning;
        let answered_max = RETURNING_MAX.saturating_sub(returning);
        let pending_max = WAITING_MAX.saturating_sub(waiting);
        let taken = self.rows.take_over(&self.agent, answered_max, pending_max).await?;

        let mut requests = Vec::with_capacity(taken.len());
        for TakenOver { call_key, request } in taken {
            match toolbus_json::from_trusted(&request) {
                Ok(request) => {
                    self.returning.lock().insert(call_key, Instant::now());
                    requests.push(request);
                }
                Err(error) => {
                    tracing::error!(%error, "a call that was kept cannot be read, and is lost");
                    self.rows.forget_request(&call_key).await?;
                }
            }
        }
        if !requests.is_empty() {
            tracing::info!(calls = requests.len(), "brought back calls that wait for approval");
        }
        Ok(requests)
    }
}

/// Wakes one call.
pub(crate) struct Watch {
    desk: Arc<Desk>,
    id: String,
    wake: Arc<Notify>,
}

impl Watch {
    /// Waits until the approval may have been answered.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.desk.waiting.lock().remove(&self.id);
    }
}
