//! A fleet on RabbitMQ, as in the compose file: two hosts with one PostgreSQL, a bridge and a
//! scripts manager. The test replaces them one by one with programs of the other commit, until all
//! are new, and back, while callers of both commits make calls.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use anyhow::ensure;
use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::json;
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::script_python::ScriptPython;
use toolbus_testkit::{postgres, rabbit};

use super::api::{self, Api};
use super::effects::{Ledger, stored_jobs};
use super::tally::{Ended, Tally, now_ms, read_outcome};
use super::{Ending, Version};
use crate::support::{LIMIT, start};

const KEY: &str = "5b2f8c0e7d914a36b8e2f1c05d7a9e43";
/// Number of calls that end between two replacements.
const CALLS_BETWEEN: u64 = 12;
/// Duration of an effect in milliseconds, so that it is in flight when its worker is replaced.
const EFFECT_MS: u64 = 400;
/// Number of lanes of each kind, each with one call at a time.
const LANES: usize = 2;

/// A place in the fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    FirstHost,
    SecondHost,
    Bridge,
    Manager,
}

use Ending::{Kill, Stop};
use Place::{Bridge, FirstHost, Manager, SecondHost};
use Version::{Current, Earlier};

/// The replacements, in order. All programs start at the earlier commit.
const REPLACEMENTS: [(Place, Version, Ending); 16] = [
    // New workers, old hosts.
    (Bridge, Current, Stop),
    (Manager, Current, Stop),
    // Hosts of both commits.
    (FirstHost, Current, Stop),
    // Old workers, new hosts.
    (Bridge, Earlier, Stop),
    (Manager, Earlier, Stop),
    (SecondHost, Current, Kill),
    // All new.
    (Bridge, Current, Kill),
    (Manager, Current, Kill),
    // The same commit again, as after a crash.
    (Bridge, Current, Kill),
    (FirstHost, Current, Kill),
    // Back.
    (FirstHost, Earlier, Stop),
    (Bridge, Earlier, Kill),
    (Manager, Earlier, Stop),
    (SecondHost, Earlier, Stop),
    (Manager, Earlier, Kill),
    (FirstHost, Earlier, Kill),
];

/// The resources of a fleet, independent of the programs in its places.
struct Parts {
    bus: String,
    store: String,
    folder: TempDir,
    ledger: Ledger,
    python: ScriptPython,
    grant_key: Option<PathBuf>,
}

impl Parts {
    fn new(bus: String, store: String, has_grants: bool) -> Self {
        let (folder, ledger) = (tempfile::tempdir().unwrap(), Ledger::new());
        let python = ScriptPython::create(&folder.path().join("python")).unwrap();
        let grant_key = has_grants.then(|| {
            let file = folder.path().join("grant.key");
            std::fs::write(&file, format!("{KEY}\n")).unwrap();
            file
        });

        let servers = json!({"mcpServers": {"ledger": ledger.server()}}).to_string();
        std::fs::write(folder.path().join("mcp.json"), servers).unwrap();
        let policy = "[[policy.rules]]\nname = \"all\"\neffect = \"allow\"\n";
        let head = format!("store = \"{store}\"\n[shutdown]\ngrace = \"10s\"\n");
        let settings = [&head, api::SETTINGS, policy].concat();
        std::fs::write(folder.path().join("toolbus.toml"), settings).unwrap();
        Self { bus, store, folder, ledger, python, grant_key }
    }

    /// Returns the launch of an agent of a commit, with the key of grants if the fleet has one.
    fn agent(&self, version: Version, arguments: &[&str]) -> Launch {
        let settings = self.folder.path().join("toolbus.toml");
        let launch = version.launch("agent-host").arg("--config").arg(settings);
        let launch = launch.args(["--bus", &self.bus]).args(arguments.iter().copied());
        match &self.grant_key {
            Some(key) => launch.env("TOOLBUS_GRANTS__KEY_FILE", key),
            None => launch,
        }
    }

    fn worker(&self, version: Version, program: &str) -> Launch {
        let launch = version.launch(program).args(["--bus", &self.bus]);
        match &self.grant_key {
            Some(key) => {
                launch.env("TOOLBUS_GRANTS__REQUIRED", "true").env("TOOLBUS_GRANTS__KEY_FILE", key)
            }
            None => launch,
        }
    }

    fn launch(&self, place: Place, version: Version) -> Launch {
        match place {
            FirstHost | SecondHost => self.agent(version, &["serve"]),
            Bridge => {
                let servers = self.folder.path().join("mcp.json");
                self.worker(version, "mcp-bridge").arg("--mcp-config").arg(servers)
            }
            Manager => {
                let python = self.python.interpreter("python").unwrap();
                self.worker(version, "scripts-manager").env("TOOLBUS_SCRIPTS__PYTHON", python)
            }
        }
    }
}

/// An acknowledged job.
struct Submitted {
    job: String,
    call: String,
}

/// A fleet, and the calls as its callers saw them.
struct Fleet {
    parts: Parts,
    /// The current address of each host.
    apis: [Mutex<Api>; 2],
    is_over: AtomicBool,
    /// Ended calls, and acknowledged jobs.
    ended: Mutex<Vec<Ended>>,
    jobs: Mutex<Vec<Submitted>>,
    count: AtomicU64,
    kills_ms: Mutex<Vec<(i64, i64)>>,
}

impl Fleet {
    /// Calls one tool by programs of both commits in turn, until the test ends.
    async fn call_by_commands(&self, tool: &str) {
        let mut version = Earlier;
        while !self.is_over.load(Ordering::Relaxed) {
            let call = self.parts.ledger.next_call(tool);
            let arguments = match tool {
                "mcp_invoke_tool" => json!({
                    "server_name": "ledger", "tool_name": "effect",
                    "arguments": {"call": call, "ms": EFFECT_MS},
                }),
                _ => json!({"script": ScriptPython::script(&format!(
                    "tell('start', '{call}')\ntime.sleep({EFFECT_MS} / 1000)\n\
                     tell('end', '{call}')\nprint('{call}: done')\n"
                ))}),
            };

            let from = now_ms();
            let launch = self.parts.agent(version, &["invoke", tool, "-", "--json"]);
            let finished = launch.stdin(arguments.to_string()).run(LIMIT).await.unwrap();
            let (told, why) = read_outcome(&finished.stdout, &call);
            let why = format!("{version:?}: {why} {}", finished.stderr);
            let ended = Ended { call, told, why, span_ms: (from, now_ms()) };
            self.ended.lock().push(ended);
            self.count.fetch_add(1, Ordering::Relaxed);
            version = version.other();
        }
    }

    /// Submits jobs to both hosts in turn, until the test ends. A host that is being replaced may
    /// not acknowledge a job.
    async fn submit_jobs(&self) {
        let mut number = 0;
        while !self.is_over.load(Ordering::Relaxed) {
            let call = self.parts.ledger.next_call("job");
            let api = self.apis[number % 2].lock().clone();
            number += 1;
            if let Ok(job) = api.submit(api::ADMIN, &call, EFFECT_MS).await {
                self.jobs.lock().push(Submitted { job: job.clone(), call });
                self.wait_for_job(&job).await;
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Waits until a job has ended on any host.
    async fn wait_for_job(&self, job: &str) {
        eventually(LIMIT, async || {
            let stored = stored_jobs(&self.parts.store).await?;
            let stored = stored.iter().find(|stored| stored.id == job);
            ensure!(stored.is_some_and(|job| job.ended_ms.is_some()), "{job} is {stored:?}");
            Ok(())
        })
        .await;
    }

    /// Waits until this many more calls have ended.
    async fn calls(&self, more: u64) {
        let target = self.count.load(Ordering::Relaxed) + more;
        eventually(LIMIT, async || {
            let count = self.count.load(Ordering::Relaxed);
            ensure!(count >= target, "{count} of {target} calls");
            Ok(())
        })
        .await;
    }

    /// Replaces the fleet's programs one by one. Each new program is ready before the old one ends.
    async fn replace_all(&self, mut services: Vec<(Place, Service)>) {
        self.calls(CALLS_BETWEEN).await;
        for (place, version, ending) in REPLACEMENTS {
            let next = start(self.parts.launch(place, version)).await;
            if let FirstHost | SecondHost = place {
                let number = usize::from(place == SecondHost);
                let api = Api::of(&next).await;
                *self.apis[number].lock() = api;
            }

            let at = services.iter().position(|(other, _)| *other == place).unwrap();
            let (_, mut last) = std::mem::replace(&mut services[at], (place, next));
            match ending {
                Stop => {
                    last.process().terminate(LIMIT).await.unwrap();
                }
                Kill => {
                    let from = now_ms();
                    last.process().kill();
                    self.kills_ms.lock().push((from, now_ms()));
                }
            }
            self.calls(CALLS_BETWEEN).await;
        }
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Returns all calls as their callers saw them.
    async fn all_ended(&self) -> Vec<Ended> {
        let mut ended = self.ended.lock().clone();
        let stored = stored_jobs(&self.parts.store).await.unwrap();
        for Submitted { job, call } in &*self.jobs.lock() {
            let found = stored.iter().find(|stored| stored.id == *job);
            let found = found.unwrap_or_else(|| panic!("the job {job} is gone"));
            ended.push(found.clone().into_ended(call).expect("it has ended"));
        }
        ended
    }
}

/// Replaces every program of a fleet and rolls all of them back, with calls in flight.
async fn go_there_and_back(name: &str, has_grants: bool) {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(store) = postgres::database().await else { return };
    let parts = Parts::new(vhost.amqp_url(), store, has_grants);
    let mut services = Vec::new();
    for place in [Bridge, Manager, FirstHost, SecondHost] {
        services.push((place, start(parts.launch(place, Earlier)).await));
    }

    let first = Mutex::new(Api::of(&services[2].1).await);
    let second = Mutex::new(Api::of(&services[3].1).await);
    let listener = ScriptPython::listen(&parts.python.socket()).unwrap();
    let fleet = Fleet {
        parts,
        apis: [first, second],
        is_over: AtomicBool::new(false),
        ended: Mutex::default(),
        jobs: Mutex::default(),
        count: AtomicU64::new(0),
        kills_ms: Mutex::default(),
    };

    let tools = ["mcp_invoke_tool", "execute_python_script"].repeat(LANES);
    let commands = join_all(tools.into_iter().map(|tool| fleet.call_by_commands(tool)));
    let jobs = join_all((0..LANES).map(|_| fleet.submit_jobs()));
    let run = async { tokio::join!(fleet.replace_all(services), commands, jobs) };
    // Both arms only wait: the calls that they started end when the futures are dropped.
    tokio::select! {
        () = fleet.parts.ledger.hear_scripts(listener) => unreachable!("it hears for ever"),
        _ = run => {}
    }

    let kills_ms = fleet.kills_ms.lock().clone();
    let tally = Tally::of(&fleet.all_ended().await, &fleet.parts.ledger.effects(), &kills_ms);
    tally.check(name);
}

#[tokio::test]
async fn a_fleet_goes_to_the_next_programs_and_back() {
    Box::pin(go_there_and_back("broker", false)).await;
}

/// Agents and workers of both commits understand each other's grants.
#[tokio::test]
async fn a_fleet_with_grants_goes_to_the_next_programs_and_back() {
    Box::pin(go_there_and_back("broker-with-grants", true)).await;
}
