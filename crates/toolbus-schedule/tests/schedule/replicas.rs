//! Replicas at one store, of which whoever has the schedules is killed again and again, or held
//! up for longer than its lease.
//!
//! A replica is this test itself, started again as `replicas::replica`: it writes a line into a
//! file when a run begins, and one when it ends.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process};
use tokio_util::sync::CancellationToken;
use toolbus_schedule::{
    Fire, MissedRule, NewTask, Occurrence, OccurrenceState, RunEnd, RunTask, ScheduleConfig,
    Scheduler, SchedulerDeps,
};
use toolbus_testkit::eventually;
use toolbus_testkit::state::StatePlace;
use toolbus_wire::name::AgentName;

use crate::support::*;

const PLACE: &str = "SCHEDULE_REPLICA_STORE";
const LEDGER: &str = "SCHEDULE_REPLICA_LEDGER";
const TASKS: usize = 12;
const OCCURRENCES: usize = 200;
const KILLS_MIN: u64 = 6;

/// Writes down what it runs, and takes up to a fifth of a second for it.
struct Ledger(PathBuf);

impl Ledger {
    fn write(&self, what: &str, id: &str) {
        let mut options = std::fs::OpenOptions::new();
        let file = options.append(true).create(true).open(&self.0).expect("a ledger");
        // At once: other runs write, too.
        (&file).write_all(format!("{what} {id}\n").as_bytes()).expect("a line");
    }
}

impl RunTask for Ledger {
    fn is_busy<'a>(&'a self, _fire: &'a Fire) -> BoxFuture<'a, bool> {
        std::future::ready(false).boxed()
    }

    fn run(&self, fire: Fire, _stop: CancellationToken) -> BoxFuture<'_, RunEnd> {
        async move {
            self.write("begun", &fire.id);
            let length = u64::from(fire.id.as_bytes()[0]) * 7 % 200;
            // sleeps: a run takes some time, so that its process is killed in the middle of one.
            tokio::time::sleep(Duration::from_millis(length)).await;
            self.write("ended", &fire.id);
            RunEnd::Done
        }
        .boxed()
    }
}

fn config() -> ScheduleConfig {
    ScheduleConfig { history_max: 100_000, runs_max: 6, ..quick_config() }
}

/// Not a test by itself: what the others start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(location), Some(ledger)) = (variable(PLACE), variable(LEDGER)) else { return };
    let mut place = StatePlace::sqlite();
    place.location = location;
    let bench = Bench::at(Arc::new(place), config());
    let _scheduler = Scheduler::start(SchedulerDeps {
        schedules: bench.schedules.clone(),
        agent: AgentName::standard(),
        holder: std::process::id().to_string(),
        run: Arc::new(Ledger(ledger.into())),
    });
    std::future::pending::<()>().await;
}

/// A process, killed when this is dropped.
struct Replica(Child);

impl Replica {
    fn start(place: &StatePlace, ledger: &Path) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "replicas::replica", "--nocapture"]).stdout(Stdio::null());
        command.env(PLACE, &place.location).env(LEDGER, ledger);
        Self(command.spawn().expect("a process"))
    }
}

impl Replica {
    /// Stops it for longer than it has the lease, and lets it go on.
    async fn hold_up(&self) {
        let id = Pid::from_raw(i32::try_from(self.0.id()).expect("an id")).expect("an id");
        kill_process(id, Signal::STOP).expect("a signal");
        // sleeps: it may have the lock of the file, so that no other gets the lease meanwhile.
        tokio::time::sleep(config().lease_ttl * 2).await;
        kill_process(id, Signal::CONT).expect("a signal");
    }
}

impl Drop for Replica {
    /// `kill -9`.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The process that has the schedules.
async fn holder(bench: &Bench) -> Option<u32> {
    let store = bench.store.open().await.expect("a store");
    let name = format!("schedules/{}", AgentName::standard());
    store.lease_holder(&name).await.expect("a lease")?.parse().ok()
}

async fn history_of(bench: &Bench, name: &str) -> Vec<Occurrence> {
    let mut history =
        bench.schedules.history(&owner("model"), Some(name), 1_000).await.expect("a history");
    history.reverse();
    history
}

/// Every second from the first one to the last one that is accounted for is in one row.
fn check_accounted(name: &str, history: &[Occurrence]) {
    let mut seconds = BTreeMap::new();
    for occurrence in history {
        let Occurrence { due_ms, until_ms, fires, .. } = occurrence;
        assert_eq!((until_ms - due_ms) / 1_000 + 1, *fires as i64, "{occurrence:?}");
        for second in (*due_ms..=*until_ms).step_by(1_000) {
            let other = seconds.insert(second, occurrence);
            assert!(other.is_none(), "{name}: {occurrence:?} and {other:?}");
        }
    }
    let (first, last) = (seconds.keys().next().unwrap(), seconds.keys().last().unwrap());
    assert_eq!((last - first) / 1_000 + 1, seconds.len() as i64, "{name}: a gap");
}

async fn kill_again_and_again(place: StatePlace) {
    let (place, folder) = (Arc::new(place), tempfile::tempdir().expect("a folder"));
    let ledger = folder.path().join("ledger");
    let bench = Bench::at(Arc::clone(&place), config());
    let rules = [MissedRule::Skip, MissedRule::RunOnce, MissedRule::RunAll { max: 2 }];
    for at in 0..TASKS {
        let missed = Some(rules[at % rules.len()]);
        bench.put(NewTask { missed, ..task(&at.to_string(), "* * * * * *") }).await;
    }

    let mut replicas = [(); 2].map(|()| Replica::start(&place, &ledger));
    let begun = || {
        let text = std::fs::read_to_string(&ledger).unwrap_or_default();
        text.lines().filter(|line| line.starts_with("begun ")).count()
    };
    let mut kills = 0_u64;
    while kills < KILLS_MIN || begun() < OCCURRENCES {
        assert!(kills < 100, "{} runs in {kills} lives", begun());
        let at_least = begun() + 15;
        // Until whoever has the schedules has run some of them, and wherever it is then.
        let of_ours = eventually(Duration::from_secs(30), async || {
            let holder = holder(&bench).await;
            let of_ours = replicas.iter().position(|replica| Some(replica.0.id()) == holder);
            of_ours.filter(|_| begun() >= at_least).ok_or((holder, begun()))
        })
        .await;
        // sleeps: a kill comes at any point of a run.
        tokio::time::sleep(Duration::from_millis(kills * 37 % 300)).await;
        match kills % 3 {
            0 => replicas[of_ours] = Replica::start(&place, &ledger),
            1 => replicas[of_ours].hold_up().await,
            _ => {
                drop(replicas);
                // sleeps: more seconds of the schedules pass than any rule for missed ones runs.
                tokio::time::sleep(Duration::from_secs(3)).await;
                replicas = [(); 2].map(|()| Replica::start(&place, &ledger));
            }
        }
        kills += 1;
    }
    drop(replicas);

    // Whoever comes next settles what was left.
    let last = Scheduler::start(SchedulerDeps {
        schedules: bench.schedules.clone(),
        agent: AgentName::standard(),
        holder: "last".to_owned(),
        run: Arc::new(Ledger(ledger.clone())),
    });
    let settled = begun() + 1;
    eventually(Duration::from_secs(30), async || {
        let begun = begun();
        if begun > settled { Ok(()) } else { Err(begun) }
    })
    .await;
    last.close().await;
    check_all(&bench, &ledger).await;
}

async fn check_all(bench: &Bench, ledger: &Path) {
    let text = std::fs::read_to_string(ledger).expect("a ledger");
    let ids = |what: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(what));
        lines.map(|id| id.trim().to_owned()).collect::<Vec<_>>()
    };
    let (begun, ended) = (ids("begun "), ids("ended "));
    let once: HashSet<_> = begun.iter().cloned().collect();
    assert_eq!(once.len(), begun.len(), "none is run twice");
    assert!(once.len() >= OCCURRENCES);
    let ended: HashSet<_> = ended.into_iter().collect();

    let mut states: HashMap<OccurrenceState, usize> = HashMap::new();
    let mut known = HashSet::new();
    for at in 0..TASKS {
        let name = at.to_string();
        let history = history_of(bench, &name).await;
        check_accounted(&name, &history);
        for occurrence in &history {
            let Occurrence { id, state, .. } = occurrence;
            *states.entry(*state).or_default() += 1;
            known.insert(id.clone());
            match state {
                OccurrenceState::Done => assert!(ended.contains(id), "{occurrence:?}"),
                // It may have been killed before its first line, and after its last.
                OccurrenceState::Lost => {}
                _ => assert!(!once.contains(id), "{occurrence:?}"),
            }
        }
    }
    assert!(once.is_subset(&known), "every run has a row");
    // Some were killed in a run, and nobody was there for others.
    for state in [OccurrenceState::Done, OccurrenceState::Lost, OccurrenceState::Missed] {
        assert!(states.contains_key(&state), "{states:?}");
    }
    assert!(!states.contains_key(&OccurrenceState::Running), "{states:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_occurrence_runs_at_most_once_and_none_is_missing_with_sqlite() {
    kill_again_and_again(StatePlace::sqlite()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_occurrence_runs_at_most_once_and_none_is_missing_with_postgres() {
    let Some(place) = StatePlace::postgres().await else { return };
    kill_again_and_again(place).await;
}
