//! A fleet to be broken: a virtual host, the effects server, workers and callers as processes, and
//! a proxy between each of them and the broker. Keeps the history that the judge needs.
//!
//! Everything ends when this is dropped, and by the testkit's guards when the driver dies.

mod caller_process;
mod memory;
mod worker_process;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use futures_util::future::join_all;
use tokio::time::Instant;
use toolbus_testkit::process::{Launch, Process};
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::script_python::ScriptPython;
use url::Url;

pub use caller_process::CallerProcess;
pub use worker_process::WorkerProcess;

use crate::broker::TestBroker;
use crate::judge::{Evidence, QueueRest, Span, StopEvidence};
use crate::ledger;
use crate::proxy::{LinkState, Proxy};
use crate::random::Random;
use crate::record::{EffectRecord, now_ms};
use memory::MemoryWatch;
use worker_process::WorkerKind;

/// How long a process may take to be there.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two looks at something that is waited for.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// For how long the effects must be quiet at the end.
const QUIET_INTERVAL: Duration = Duration::from_secs(3);
/// How long that may take.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a process that was asked to stop may take: its grace (20 s by default) and 5 s.
pub const STOP_TIMEOUT: Duration = Duration::from_secs(25);
/// How much longer than that it is waited for, so that its time can be told.
const STOP_TIMEOUT_MAX: Duration = Duration::from_secs(60);

/// What the names of queues begin with whose messages say which bridge has a server.
const OWNER_QUEUES: &str = "rockbot.mcp.owner.";

/// How a fleet is made.
#[derive(Debug, Clone)]
pub struct FleetConfig {
    /// Bridges.
    pub bridges: usize,
    /// How many of them run at first.
    pub bridges_at_start: usize,
    /// Managers of scripts. Without any, no call is a script.
    pub managers: usize,
    /// How many of a hundred calls are scripts where there are any.
    pub script_percent: u64,
    /// How long workers have to end their calls when they are asked to stop, where that is not the
    /// default.
    pub grace: Option<Duration>,
    /// Callers.
    pub callers: usize,
    /// Calls of all callers together.
    pub calls: u64,
    /// Calls that one caller has under way.
    pub in_flight: u64,
    /// Mean pause of a lane between two calls.
    pub pause: Duration,
    /// What the calls are drawn from.
    pub seed: u64,
    /// By how much the clocks of a third of the processes are ahead, and of a third behind.
    pub clock_error: Option<Duration>,
    /// Where ledgers and logs go.
    pub folder: PathBuf,
}

impl FleetConfig {
    /// How many of a hundred calls are scripts.
    fn script_percent(&self) -> u64 {
        if self.managers == 0 { 0 } else { self.script_percent }
    }

    /// The file that tells the callers to make no more calls.
    fn end_file(&self) -> PathBuf {
        self.folder.join("end")
    }

    /// By how many milliseconds the clock of each process of a kind is wrong: one is ahead, the
    /// next behind, the third right, and so on, beginning with any.
    fn draw_clocks(&self, kind: &str, count: usize) -> Vec<i64> {
        let Some(error) = self.clock_error else { return vec![0; count] };
        let start = Random::new(self.seed).fork("clocks").fork(kind).draw_from(0..3);
        let start = usize::try_from(start).expect("it is below 3");
        let clocks = [signed_ms(error, true), signed_ms(error, false), 0];
        clocks.into_iter().cycle().skip(start).take(count).collect()
    }
}

/// The workers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerGroup {
    /// Of MCP servers.
    Bridges,
    /// Of scripts.
    Managers,
}

/// A fleet that runs.
pub struct Fleet<'a> {
    /// The broker.
    pub broker: &'a mut TestBroker,
    /// Where all of the fleet meets.
    pub vhost: Vhost,
    /// The bridges.
    pub bridges: Vec<WorkerProcess>,
    /// The managers of scripts.
    pub managers: Vec<WorkerProcess>,
    /// The agents.
    pub callers: Vec<CallerProcess>,
    config: FleetConfig,
    effects: Process,
    memory: MemoryWatch,
    stops: Vec<StopEvidence>,
}

impl<'a> Fleet<'a> {
    /// Starts everything and waits for the workers.
    ///
    /// # Errors
    /// When a part does not start.
    pub async fn start(broker: &'a mut TestBroker, config: FleetConfig) -> anyhow::Result<Self> {
        let vhost = broker.vhost().await?;
        let urls = vhost.amqp_url();
        let urls = urls.split(',').map(Url::parse).collect::<Result<Vec<_>, _>>()?;
        let python = ScriptPython::create(&config.folder.join("python"))?;
        let (effects, address) = start_effects(&config.folder, &python).await?;

        let mut fleet = Self {
            broker,
            vhost,
            bridges: Vec::new(),
            managers: Vec::new(),
            callers: Vec::new(),
            effects,
            memory: MemoryWatch::start(),
            stops: Vec::new(),
            config,
        };

        let bridges = WorkerKind::Bridge(address);
        fleet.bridges = fleet.place_workers("bridge", fleet.config.bridges, bridges, &urls).await?;
        let managers = WorkerKind::Manager(Arc::new(python));
        fleet.managers =
            fleet.place_workers("manager", fleet.config.managers, managers, &urls).await?;

        let bridges = fleet.bridges.iter_mut().take(fleet.config.bridges_at_start);
        launch_all(bridges.chain(&mut fleet.managers), &fleet.memory).await?;
        fleet.start_callers(&urls).await?;
        Ok(fleet)
    }

    /// The places of the workers of a kind, none of which runs yet.
    async fn place_workers(
        &self,
        name: &str,
        count: usize,
        kind: WorkerKind,
        urls: &[Url],
    ) -> anyhow::Result<Vec<WorkerProcess>> {
        let clocks = self.config.draw_clocks(&format!("{name}s"), count);
        let mut workers = Vec::new();
        for (number, clock) in clocks.into_iter().enumerate() {
            let name = format!("{name}-{number}");
            let folder = self.config.folder.join(&name);
            let mut place = ProcessPlace::new(name, folder, urls).await?;
            place.clock_shift_ms = clock;
            workers.push(WorkerProcess::new(place, kind.clone(), self.config.grace));
        }
        Ok(workers)
    }

    async fn start_callers(&mut self, urls: &[Url]) -> anyhow::Result<()> {
        let count = self.config.callers as u64;
        let clocks = self.config.draw_clocks("callers", self.config.callers);
        for (number, clock) in (0..count).zip(clocks) {
            let name = format!("caller-{number}");
            let folder = self.config.folder.join(&name);
            let mut place = ProcessPlace::new(name, folder, urls).await?;
            place.clock_shift_ms = clock;
            let more = u64::from(number < self.config.calls % count);
            let quota = self.config.calls / count + more;
            let mut caller = CallerProcess::new(place, &self.config, quota);
            caller.launch(&self.memory)?;
            self.callers.push(caller);
        }
        Ok(())
    }

    /// Whether a caller still has calls to make. One that failed is an error.
    ///
    /// # Errors
    /// When a caller ended otherwise than it should.
    pub fn is_calling(&mut self) -> anyhow::Result<bool> {
        let mut is_calling = false;
        for caller in &mut self.callers {
            is_calling |= caller.is_calling()?;
        }
        Ok(is_calling)
    }

    /// Tells the callers to make no more calls.
    ///
    /// # Errors
    /// When the file that tells them cannot be written.
    pub fn end_calls(&self) -> anyhow::Result<()> {
        let file = self.config.end_file();
        std::fs::write(&file, "").with_context(|| file.display().to_string())
    }

    /// How many calls have been made.
    ///
    /// # Errors
    /// When a ledger cannot be read.
    pub fn count_calls(&self) -> anyhow::Result<u64> {
        self.callers.iter().map(CallerProcess::count_intents).sum()
    }

    /// Waits so long, or until the callers are done; says whether they still call.
    ///
    /// # Errors
    /// As [`Fleet::is_calling`].
    pub async fn sleep_while_calling(&mut self, time: Duration) -> anyhow::Result<bool> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            if !self.is_calling()? {
                return Ok(false);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        self.is_calling()
    }

    /// A worker of the group that runs, by a number that was drawn.
    pub fn pick_worker(&mut self, group: WorkerGroup, victim: u64) -> Option<&mut WorkerProcess> {
        let workers = match group {
            WorkerGroup::Bridges => &mut self.bridges,
            WorkerGroup::Managers => &mut self.managers,
        };
        let mut running = running_of(workers);
        let at = usize::try_from(victim).unwrap_or(usize::MAX).checked_rem(running.len())?;
        Some(running.swap_remove(at))
    }

    /// A caller that calls, by a number that was drawn.
    pub fn pick_caller(&mut self, victim: u64) -> Option<&mut CallerProcess> {
        let mut calling: Vec<_> = self
            .callers
            .iter_mut()
            .filter_map(|caller| caller.is_calling().is_ok_and(|is| is).then_some(caller))
            .collect();
        let at = usize::try_from(victim).unwrap_or(usize::MAX).checked_rem(calling.len())?;
        Some(calling.swap_remove(at))
    }

    /// Kills a worker and starts it again after a while.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn kill_worker(
        &mut self,
        group: WorkerGroup,
        victim: u64,
        away: Duration,
    ) -> anyhow::Result<()> {
        let memory = self.memory.clone();
        let Some(worker) = self.pick_worker(group, victim) else { return Ok(()) };
        worker.kill();
        tokio::time::sleep(away).await;
        worker.launch(&memory)
    }

    /// Kills a caller and starts it again after a while, for what it has left to do.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn kill_caller(&mut self, victim: u64, away: Duration) -> anyhow::Result<()> {
        let memory = self.memory.clone();
        let Some(caller) = self.pick_caller(victim) else { return Ok(()) };
        caller.kill();
        tokio::time::sleep(away).await;
        caller.launch(&memory)
    }

    /// Asks a worker to stop, waits for it, and starts it again after a while.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn restart_worker(
        &mut self,
        group: WorkerGroup,
        victim: u64,
        away: Duration,
    ) -> anyhow::Result<()> {
        let memory = self.memory.clone();
        let Some(worker) = self.pick_worker(group, victim) else { return Ok(()) };
        let stop = worker.stop(STOP_TIMEOUT_MAX).await;
        tokio::time::sleep(away).await;
        worker.launch(&memory)?;
        self.stops.extend(stop);
        Ok(())
    }

    /// Asks a bridge to stop, starts it again with a wall clock that is wrong, and after a while
    /// once more with one that is right.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn restart_worker_with_wrong_clock(
        &mut self,
        victim: u64,
        error: Duration,
        hold: Duration,
    ) -> anyhow::Result<()> {
        let memory = self.memory.clone();
        let Some(worker) = self.pick_worker(WorkerGroup::Bridges, victim) else { return Ok(()) };
        let mut stops = Vec::new();
        // Another bit than those that choose the victim.
        let is_ahead = (victim >> 32).is_multiple_of(2);

        stops.extend(worker.stop(STOP_TIMEOUT_MAX).await);
        worker.place.clock_shift_ms = signed_ms(error, is_ahead);
        worker.launch(&memory)?;
        tokio::time::sleep(hold).await;

        stops.extend(worker.stop(STOP_TIMEOUT_MAX).await);
        worker.place.clock_shift_ms = 0;
        worker.launch(&memory)?;

        self.stops.extend(stops);
        Ok(())
    }

    /// Scales the bridges: from one to all and back to one, or from all to one and back to all,
    /// with so much time between the two.
    ///
    /// # Errors
    /// When one cannot be started.
    pub async fn scale_bridges(&mut self, victim: u64, hold: Duration) -> anyhow::Result<()> {
        if running_of(&mut self.bridges).len() <= 1 {
            self.scale_out().await?;
            tokio::time::sleep(hold).await;
            self.scale_in(victim).await;
            return Ok(());
        }

        self.scale_in(victim).await;
        tokio::time::sleep(hold).await;
        self.scale_out().await
    }

    /// Asks all bridges but one to stop, at once.
    async fn scale_in(&mut self, victim: u64) {
        let mut others = running_of(&mut self.bridges);
        let kept = usize::try_from(victim).unwrap_or(usize::MAX).checked_rem(others.len());
        if let Some(kept) = kept {
            others.swap_remove(kept);
        }
        let stopping = others.into_iter().map(|worker| worker.stop(STOP_TIMEOUT_MAX));
        let stops = join_all(stopping).await;
        self.stops.extend(stops.into_iter().flatten());
    }

    async fn scale_out(&mut self) -> anyhow::Result<()> {
        launch_all(self.bridges.iter_mut(), &self.memory).await
    }

    /// Waits until the effects are quiet and the queues have had time to drain, stops all workers,
    /// and returns what was found.
    ///
    /// # Errors
    /// When a ledger cannot be read or the broker does not answer.
    pub async fn finish(mut self) -> anyhow::Result<Evidence> {
        self.wait_until_quiet().await?;
        let queues = self.read_queues().await?;
        let mut workers = running_of(&mut self.bridges);
        workers.extend(running_of(&mut self.managers));
        let stopping = workers.into_iter().map(|worker| worker.stop(STOP_TIMEOUT_MAX));
        let stops = join_all(stopping).await;
        self.stops.extend(stops.into_iter().flatten());
        self.effects.kill();

        let mut callers = Vec::new();
        for caller in &self.callers {
            callers.extend(caller.read_evidence()?);
        }
        let effects: Vec<EffectRecord> = ledger::read(&effects_ledger(&self.config.folder))?;

        Ok(Evidence {
            callers,
            effects,
            killed_workers: self.workers().flat_map(WorkerProcess::killed).collect(),
            queues,
            stops: self.stops,
            memory: self.memory.read_peaks(),
        })
    }

    /// The workers of both kinds.
    pub fn workers(&self) -> impl Iterator<Item = &WorkerProcess> {
        self.bridges.iter().chain(&self.managers)
    }

    async fn wait_until_quiet(&self) -> anyhow::Result<()> {
        let path = effects_ledger(&self.config.folder);
        let length = || std::fs::metadata(&path).map_or(0, |data| data.len());
        let end = Instant::now() + SETTLE_TIMEOUT;
        let mut last = length();

        loop {
            tokio::time::sleep(QUIET_INTERVAL).await;
            let now = length();
            let is_drained = self
                .read_queues()
                .await?
                .iter()
                .all(|queue| queue.is_dead_letters || queue.messages == 0);
            if (now == last && is_drained) || Instant::now() >= end {
                return Ok(());
            }
            last = now;
        }
    }

    /// The queues that have messages.
    async fn read_queues(&self) -> anyhow::Result<Vec<QueueRest>> {
        let queues = self.vhost.queues().await?.into_iter();
        // What says which bridge has a server stays.
        let queues = queues.filter(|queue| !queue.name.starts_with(OWNER_QUEUES));
        let left = queues.filter(|queue| queue.messages > 0).map(|queue| QueueRest {
            is_dead_letters: queue.name.ends_with(".dlq"),
            messages: queue.messages,
            name: queue.name,
        });
        Ok(left.collect())
    }
}

fn running_of(workers: &mut [WorkerProcess]) -> Vec<&mut WorkerProcess> {
    let running = |worker: &mut WorkerProcess| worker.is_running();
    workers.iter_mut().filter_map(|worker| running(worker).then_some(worker)).collect()
}

/// Starts these workers, but for those that run, and waits until all are ready.
async fn launch_all(
    workers: impl Iterator<Item = &mut WorkerProcess>,
    memory: &MemoryWatch,
) -> anyhow::Result<()> {
    let mut workers: Vec<_> = workers.collect();
    for worker in &mut workers {
        worker.launch(memory)?;
    }
    for worker in workers {
        worker.wait_ready(READY_TIMEOUT).await?;
    }
    Ok(())
}

/// What every process of the fleet has: a name, a folder, and a proxy for each node of the broker.
#[derive(Debug)]
pub struct ProcessPlace {
    /// Its name.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The URLs of the broker's nodes through the proxies, with commas between.
    pub broker: String,
    /// By how many milliseconds the wall clock of the next process here is ahead of the true one.
    pub clock_shift_ms: i64,
    proxies: Vec<Proxy>,
}

impl ProcessPlace {
    async fn new(name: String, folder: PathBuf, urls: &[Url]) -> anyhow::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let mut proxies = Vec::new();
        let mut proxied = Vec::new();

        for url in urls {
            let node = url.socket_addrs(|| None)?;
            let proxy = Proxy::start(*node.first().context("a node's address")?).await?;
            let mut url = url.clone();
            let is_set = url.set_port(Some(proxy.address().port())).is_ok();
            ensure!(is_set, "the broker's URL takes no port");
            proxied.push(url.to_string());
            proxies.push(proxy);
        }

        Ok(Self { name, folder, broker: proxied.join(","), clock_shift_ms: 0, proxies })
    }

    /// Resets every connection to the broker.
    pub fn reset(&self) {
        self.proxies.iter().for_each(Proxy::reset);
    }

    /// Changes how the links to the broker are.
    pub fn set_link(&self, state: LinkState) {
        self.proxies.iter().for_each(|proxy| proxy.set_link(state));
    }
}

fn signed_ms(error: Duration, is_ahead: bool) -> i64 {
    let error = i64::try_from(error.as_millis()).unwrap_or(i64::MAX);
    if is_ahead { error } else { -error }
}

fn effects_ledger(folder: &Path) -> PathBuf {
    folder.join("effects.jsonl")
}

/// Starts the effects server and returns where it listens, which it prints.
async fn start_effects(
    folder: &Path,
    python: &ScriptPython,
) -> anyhow::Result<(Process, SocketAddr)> {
    let logs = folder.join("effects");
    std::fs::create_dir_all(&logs)?;
    let mut process = Launch::new("chaos")
        .args(["effects", "--listen", "127.0.0.1:0", "--ledger"])
        .arg(effects_ledger(folder))
        .arg("--socket")
        .arg(python.socket())
        .spawn(&logs)?;
    let end = Instant::now() + READY_TIMEOUT;

    loop {
        if let Some(address) = process.stdout().lines().next() {
            let address = address.parse().with_context(|| format!("an address: {address:?}"))?;
            return Ok((process, address));
        }
        if let Some(status) = process.exit_status() {
            bail!("the effects server ended: {status}: {}", process.stderr());
        }
        ensure!(Instant::now() < end, "the effects server does not listen");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// From then until now.
pub(crate) fn span_until_now(from_ms: u64) -> Span {
    Span { from_ms, to_ms: now_ms() }
}
