//! What fires tasks: a task that waits for the next time, takes the lease when something is due,
//! and gives it back when nothing is.
//!
//! Of several processes at one store, one has the lease at a time. While nothing is due nobody has
//! it, so that an idle agent writes nothing. It sleeps in slices, so that it notices when the clock
//! was set.
//!
//! It looks only at tasks that are due or run. All of them are looked through twice a minute, page
//! by page: where the clock was set, or somebody lives in another zone, they are armed again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_store::{Error as StoreError, Lease, until_changed};
use toolbus_wire::name::AgentName;

use crate::ledger::{Ledger, Page, TaskKey, View};
use crate::occurrence::OccurrenceState;
use crate::plan::Decision;
use crate::rows::{Ending, OpenRow, PROCESS_ENDED, TaskRow};
use crate::running::{Ended, Runs, fire_of};
use crate::schedules::{NamedZone, Schedules};
use crate::tables::CHANGES;
use crate::{Error, RunEnd, RunTask, ScheduleOwner};

/// The longest sleep, and how often all tasks are looked through.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);
/// The shortest sleep.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(1);
/// How long to wait after the store has failed.
const STORE_BACKOFF: Duration = Duration::from_secs(1);

/// Fires the tasks of an agent until it is closed.
pub struct Scheduler {
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// What a scheduler works with.
pub struct SchedulerDeps {
    /// The tasks.
    pub schedules: Schedules,
    /// Whose tasks are fired.
    pub agent: AgentName,
    /// This process, for who wants to know which one has the schedules.
    pub holder: String,
    /// Runs what fires.
    pub run: Arc<dyn RunTask>,
}

impl Scheduler {
    /// Begins to fire. Needs a tokio runtime. It opens the store when there is something in it.
    #[must_use]
    pub fn start(deps: SchedulerDeps) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let driver = Driver {
            ledger: Ledger::new(deps.schedules.clone(), deps.agent.clone()),
            lease_name: format!("schedules/{}", deps.agent),
            schedules: deps.schedules,
            holder: deps.holder,
            run: deps.run,
            changes: None,
            sweep: Sweep::default(),
            stop: stop.clone(),
        };
        tasks.spawn(driver.watch());
        tasks.close();
        Self { stop, tasks }
    }

    /// Stops what runs, and lets another process have the schedules. Call it before the store is
    /// closed.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

type Zones = HashMap<ScheduleOwner, NamedZone>;

struct Driver {
    ledger: Ledger,
    schedules: Schedules,
    lease_name: String,
    holder: String,
    run: Arc<dyn RunTask>,
    /// Told when others change tasks, once the store is open.
    changes: Option<watch::Receiver<u64>>,
    sweep: Sweep,
    stop: CancellationToken,
}

/// How far all tasks were looked through.
#[derive(Default)]
struct Sweep {
    /// Where it goes on.
    after: TaskKey,
    is_under_way: bool,
    /// When the last one ended.
    ended: Option<Instant>,
}

impl Sweep {
    fn is_due(&self) -> bool {
        self.is_under_way || self.ended.is_none_or(|ended| ended.elapsed() >= LOOK_INTERVAL)
    }

    /// Goes on after a page.
    fn advance(&mut self, next: Option<TaskKey>) {
        self.is_under_way = next.is_some();
        if next.is_none() {
            self.ended = Some(Instant::now());
        }
        self.after = next.unwrap_or_default();
    }

    /// Begins with the first page again.
    fn restart(&mut self) {
        *self = Self::default();
    }
}

impl Driver {
    async fn watch(mut self) {
        while !self.stop.is_cancelled() {
            let wait = self.round().await.unwrap_or_else(|error| {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "could not look after schedules");
                STORE_BACKOFF
            });
            self.pause(wait).await;
        }
    }

    /// Does what is to be done, where this process may, and says how long to wait.
    async fn round(&mut self) -> Result<Duration, Error> {
        // A file that is not there has no tasks, and is not made for them.
        if !self.schedules.store().may_hold_something() {
            return Ok(LOOK_INTERVAL);
        }
        let view = self.view().await?;
        let is_idle = view.is_idle() && !self.finds_shifted(&view).await?;
        if is_idle && self.sweep.is_under_way {
            return Ok(Duration::ZERO);
        }
        if is_idle && view.next_ms.is_none() {
            // A file of SQLite is looked at four times a second while somebody waits for changes.
            self.changes = None;
            return Ok(LOOK_INTERVAL);
        }
        if is_idle {
            return Ok(time_until_next(&view));
        }

        // Nothing is taken up for those whose clocks are not known.
        self.zones_of(&view).await?;
        let ttl = self.schedules.config().lease_ttl;
        let store = self.schedules.store().open().await?;
        match store.acquire_lease(&self.lease_name, &self.holder, ttl).await? {
            Some(lease) => self.own(lease).await.map(|()| Duration::ZERO),
            None => Ok(ttl / 5),
        }
    }

    /// Waits as long, or until something has changed.
    async fn pause(&mut self, wait: Duration) {
        let changed = until_changed(self.changes.as_mut());
        // Every arm only waits.
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(wait) => {}
            () = self.schedules.nudged() => {}
            () = changed => {}
        }
    }

    async fn view(&mut self) -> Result<View, Error> {
        let store = self.schedules.store().open().await?;
        // What changes from here on wakes the next pause.
        self.changes.get_or_insert_with(|| store.changes(CHANGES)).mark_unchanged();
        self.ledger.view().await
    }

    /// The zone of everybody whose tasks are due or run, as it is set now.
    async fn zones_of(&self, view: &View) -> Result<Zones, Error> {
        let owners = view.tasks.iter().map(|task| &task.owner);
        self.zones(owners.chain(view.open.iter().map(|open| &open.owner))).await
    }

    async fn zones(&self, owners: impl Iterator<Item = &ScheduleOwner>) -> Result<Zones, Error> {
        let mut zones = Zones::new();
        for owner in owners {
            if !zones.contains_key(owner) {
                zones.insert(owner.clone(), self.schedules.zone(owner).await?);
            }
        }
        Ok(zones)
    }

    /// Looks through a page of all tasks where it is time to, and says whether one of them is armed
    /// for another time than it should be. Then it stays at this page.
    async fn finds_shifted(&mut self, view: &View) -> Result<bool, Error> {
        let Some((page, zones)) = self.due_page().await? else { return Ok(false) };
        let is_shifted = shifted(&page, view, &zones).next().is_some();
        if !is_shifted {
            self.sweep.advance(page.next);
        }
        Ok(is_shifted)
    }

    /// Arms the tasks again that [`Self::finds_shifted`] finds, and goes on to the next page. Says
    /// whether there were any.
    async fn rearm_shifted(&mut self, lease: &Lease, view: &View) -> Result<bool, Error> {
        let Some((page, zones)) = self.due_page().await? else { return Ok(false) };
        let writes = shifted(&page, view, &zones)
            .map(|(task, next_ms, zone)| self.ledger.rearm(lease, task, next_ms, zone));
        let written = try_join_all(writes).await?;
        self.sweep.advance(page.next);
        Ok(!written.is_empty())
    }

    /// The page that is to be looked through now, where one is, and the zones of its owners.
    async fn due_page(&mut self) -> Result<Option<(Page, Zones)>, Error> {
        if self.schedules.take_other_zones() {
            self.sweep.restart();
        }
        if !self.sweep.is_due() {
            return Ok(None);
        }
        let page = self.ledger.page(&self.sweep.after).await?;
        let zones = self.zones(page.tasks.iter().map(|task| &task.owner)).await?;
        Ok(Some((page, zones)))
    }

    /// Has the schedules until nothing is due.
    async fn own(&mut self, lease: Lease) -> Result<(), Error> {
        let mut runs = Runs::default();
        let mut worked = self.ledger.recover(&lease).await;
        if worked.is_ok() {
            worked = self.work(&lease, &mut runs).await;
        }

        if !runs.is_empty() && !is_lost(&worked) {
            // They have their time to end before another process may call them lost.
            worked = worked.and(self.renew(&lease).await);
        }
        runs.stop(self.schedules.config().stop_grace).await;
        if !is_lost(&worked) {
            // What cannot be written down is found by whoever has the lease next.
            let written = self.write_down(&lease, &mut runs).await;
            let store = self.schedules.store().open().await?;
            lease.release(store).await?;
            worked = worked.and(written);
        }
        worked
    }

    /// Fires and runs until nothing is due, or this is stopped.
    async fn work(&mut self, lease: &Lease, runs: &mut Runs) -> Result<(), Error> {
        let renew_interval = self.schedules.config().lease_ttl / 3;
        let mut renewed = Instant::now();
        while !self.stop.is_cancelled() {
            let looked = self.look(lease, runs).await;
            if is_lost(&looked) {
                return looked.map(drop);
            }
            let wait = match looked {
                Ok(Some(wait)) => wait,
                Ok(None) => return Ok(()),
                // Runs go on meanwhile.
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "could not look after schedules");
                    STORE_BACKOFF
                }
            };

            let until_renewal = renew_interval.saturating_sub(renewed.elapsed());
            // Every arm only waits; a run that ended is kept until it is written down.
            tokio::select! {
                () = runs.wait() => {}
                () = self.pause(wait.min(until_renewal)) => {}
            }
            if renewed.elapsed() >= renew_interval {
                let held = self.renew(lease).await;
                if is_lost(&held) {
                    return held;
                }
                match held {
                    Ok(()) => renewed = Instant::now(),
                    Err(error) => tracing::warn!(%error, "could not renew the lease of schedules"),
                }
            }
        }
        Ok(())
    }

    async fn renew(&self, lease: &Lease) -> Result<(), Error> {
        let store = self.schedules.store().open().await?;
        Ok(lease.renew(store).await?)
    }

    /// Does what is to be done now, and says how long to wait. `None`: there is nothing left.
    async fn look(&mut self, lease: &Lease, runs: &mut Runs) -> Result<Option<Duration>, Error> {
        self.write_down(lease, runs).await?;
        let mut view = self.view().await?;
        let zones = self.zones_of(&view).await?;
        if self.fire(lease, &view, &zones).await? {
            view = self.view().await?;
        }

        self.start(lease, &view, &zones, runs).await?;
        let has_rearmed = self.rearm_shifted(lease, &view).await?;
        if view.open.is_empty() && runs.is_empty() {
            return Ok(None);
        }
        let is_more = has_rearmed || self.sweep.is_under_way;
        Ok(Some(if is_more { Duration::ZERO } else { time_until_next(&view) }))
    }

    /// Fires what is due, and says whether something was.
    async fn fire(&self, lease: &Lease, view: &View, zones: &Zones) -> Result<bool, Error> {
        let tasks = view.tasks.iter().filter(|task| !view.is_active(&task.generation));
        let writes = tasks.filter_map(|task| {
            let zone = zones.get(&task.owner)?;
            match task.decide(zone, view.now_ms) {
                Decision::Nothing => None,
                decision => Some(self.write_decision(lease, task, decision, zone)),
            }
        });

        // What is written at once is committed together.
        let written = try_join_all(writes).await?;
        Ok(!written.is_empty())
    }

    async fn write_decision(
        &self,
        lease: &Lease,
        task: &TaskRow,
        decision: Decision,
        zone: &NamedZone,
    ) -> Result<(), Error> {
        match decision {
            Decision::Nothing => Ok(()),
            Decision::Rearm { next_ms } => self.ledger.rearm(lease, task, next_ms, zone).await,
            Decision::Fire(firing) => self.ledger.fire(lease, task, &firing, zone).await,
        }
    }

    /// Begins what may run now.
    async fn start(
        &self,
        lease: &Lease,
        view: &View,
        zones: &Zones,
        runs: &mut Runs,
    ) -> Result<(), Error> {
        let config = self.schedules.config();
        let is_running = |open: &&OpenRow| open.state == OccurrenceState::Running;
        let mut running: Vec<&str> = Vec::new();
        for open in view.open.iter().filter(is_running) {
            if !runs.has(&open.id) {
                // The answer to the write that began it was lost, and it was not begun.
                self.end_lost(lease, open).await?;
            }
            running.push(&open.generation);
        }

        for open in view.open.iter().filter(|open| open.state == OccurrenceState::Fired) {
            let is_waiting = open.retry_ms > view.now_ms || running.contains(&&*open.generation);
            if is_waiting || runs.len() >= config.runs_max {
                continue;
            }
            let Some(NamedZone { zone, .. }) = zones.get(&open.owner) else { continue };
            if self.run.is_busy(&fire_of(open)).await {
                self.ledger.put_off(lease, open, OccurrenceState::Fired, zone).await?;
            } else if self.ledger.start(lease, open).await? {
                running.push(&open.generation);
                runs.start(Arc::clone(&self.run), open.clone(), config);
            }
        }
        Ok(())
    }

    async fn end_lost(&self, lease: &Lease, open: &OpenRow) -> Result<(), Error> {
        let ending = Ending {
            id: open.id.clone(),
            from: OccurrenceState::Running,
            to: OccurrenceState::Lost,
            reason: PROCESS_ENDED.to_owned(),
            goes_on_in: None,
        };
        self.ledger.end(lease, ending).await
    }

    /// Writes down how runs ended.
    async fn write_down(&self, lease: &Lease, runs: &mut Runs) -> Result<(), Error> {
        while let Some(ended) = runs.ended().first() {
            let id = ended.row.id.clone();
            self.write_end(lease, ended).await?;
            runs.forget(&id);
        }
        Ok(())
    }

    async fn write_end(&self, lease: &Lease, Ended { row, end }: &Ended) -> Result<(), Error> {
        let zone = self.schedules.zone(&row.owner).await?.zone;
        let from = OccurrenceState::Running;
        let (to, reason) = match end {
            RunEnd::Preempted => return self.ledger.put_off(lease, row, from, &zone).await,
            RunEnd::Done => (OccurrenceState::Done, String::new()),
            RunEnd::Failed(reason) => {
                tracing::warn!(task = row.name, reason, "a scheduled task failed");
                (OccurrenceState::Failed, reason.clone())
            }
        };

        let ending = Ending { id: row.id.clone(), from, to, reason, goes_on_in: Some(zone) };
        self.ledger.end(lease, ending).await
    }
}

fn is_lost<T>(worked: &Result<T, Error>) -> bool {
    matches!(worked, Err(Error::Store(StoreError::LeaseLost(_))))
}

/// The tasks of a page that are armed for another time than they should be, or by the clocks of
/// another zone, each with that time and zone. Those that are due, or run, are not among them.
fn shifted<'a>(
    page: &'a Page,
    view: &'a View,
    zones: &'a Zones,
) -> impl Iterator<Item = (&'a TaskRow, Option<i64>, &'a NamedZone)> {
    let free = page.tasks.iter().filter(|task| !view.is_active(&task.generation));
    free.filter_map(|task| {
        let zone = zones.get(&task.owner)?;
        match task.decide(zone, view.now_ms) {
            Decision::Rearm { next_ms } => Some((task, next_ms, zone)),
            Decision::Nothing | Decision::Fire(_) => None,
        }
    })
}

/// How long until something is due, or is tried again.
fn time_until_next(view: &View) -> Duration {
    let is_free = |task: &&TaskRow| !view.is_active(&task.generation);
    let due = view.tasks.iter().filter(is_free).filter_map(|task| task.next_ms);
    let due = due.chain(view.next_ms);
    let retried = view.open.iter().map(|open| open.retry_ms).filter(|at| *at > view.now_ms);
    let next_ms = due.chain(retried).min().unwrap_or(i64::MAX);
    let wait = u64::try_from(next_ms.saturating_sub(view.now_ms)).unwrap_or_default();
    Duration::from_millis(wait).clamp(SHORTEST_INTERVAL, LOOK_INTERVAL)
}
