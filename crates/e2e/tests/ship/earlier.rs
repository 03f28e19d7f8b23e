//! The chart and the compose file of an earlier commit are upgraded and rolled back in place, with
//! calls in flight.
//!
//! `cargo xtask accept upgrade` builds the earlier images and runs these tests; a run of all tests
//! excludes them.

#[path = "../fleet/earlier/tally.rs"]
mod tally;

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::ensure;
use serde_json::json;
use toolbus_testkit::tools::{self, output};

use crate::compose::{Fleet, Side};
use crate::outside::Outside;
use crate::release::{API_KEY, Release, WAIT, parts};
use crate::support::{content, repository, until};
use crate::upgrade::{roll_back, stops_in_calls};
use tally::{Ended, Tally, count_effects, now_ms, read_outcome};

/// Variable with the folder of the sources of the earlier commit.
const SOURCE: &str = "TOOLBUS_TEST_EARLIER_SOURCE";
/// Variable with the tag of the earlier images.
const TAG: &str = "TOOLBUS_TEST_EARLIER_TAG";
/// Number of callers of the compose fleet, each with one call at a time.
const CALLERS: usize = 3;
/// Number of calls that end between two changes.
const CALLS_BETWEEN: usize = 6;
/// Duration of an effect in milliseconds.
const EFFECT_MS: u64 = 500;

/// Sources and images of an earlier commit.
struct Earlier {
    source: PathBuf,
    tag: String,
}

impl Earlier {
    fn of_environment() -> Self {
        let of = |name: &str| {
            let value = std::env::var(name);
            value.unwrap_or_else(|_| panic!("{name} is not set: run cargo xtask accept upgrade"))
        };
        Self { source: of(SOURCE).into(), tag: of(TAG) }
    }

    fn side(&self) -> Side {
        Side { folder: self.source.join("deploy/compose"), tag: self.tag.clone() }
    }
}

#[test]
fn a_release_goes_to_the_next_chart_and_back() {
    let Some(parts) = parts() else { return };
    let earlier = Earlier::of_environment();
    let release = Release::new(parts, "earlier");
    let outside = Outside::new(&release, API_KEY);
    let mut values = release.values();
    outside.is_openrouter_of(&mut values);
    let mut before = values.clone();
    before["image"]["tag"] = json!(earlier.tag);
    let check = || {
        until(|| release.invoke("execute_python_script", &json!({"script": "print(1)"})));
        release.check_calls();
    };

    let chart = earlier.source.join("helm/toolbus");
    release.install_chart(&chart, &before, &WAIT).unwrap();
    check();
    let upgrade = || drop(release.install(&values, &[]).unwrap());
    stops_in_calls(&release, upgrade);
    check();
    stops_in_calls(&release, || roll_back(&release));
    check();
    stops_in_calls(&release, upgrade);
    check();
}

/// The compose fleet, and the calls as its callers saw them.
struct Calls {
    fleet: Fleet,
    is_over: AtomicBool,
    next: AtomicU64,
    ended: Mutex<Vec<Ended>>,
}

impl Calls {
    fn new(fleet: Fleet) -> Self {
        let (is_over, next) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { fleet, is_over, next, ended: Mutex::default() }
    }

    /// Makes calls in separate containers, which a change does not touch, until the test ends.
    fn make(&self, side: &Side) {
        while !self.is_over.load(Ordering::Relaxed) {
            let call = format!("call-{}", self.next.fetch_add(1, Ordering::Relaxed));
            let arguments = json!({
                "server_name": "marks", "tool_name": "effect",
                "arguments": {"call": call, "ms": EFFECT_MS},
            });
            let from = now_ms();
            let mut command = self.fleet.command_of(side, "docker");
            command.args(["compose", "run", "--rm", "--no-TTY", "--no-deps", "agent-host"]);
            command.args(["invoke", "mcp_invoke_tool", &arguments.to_string(), "--json"]);
            let ran = command.output().unwrap();

            let printed = String::from_utf8_lossy(&ran.stdout);
            let (told, why) = read_outcome(&printed, &call);
            let why = format!("{why} {}", String::from_utf8_lossy(&ran.stderr));
            let ended = Ended { call, told, why, span_ms: (from, now_ms()) };
            self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(ended);
        }
    }

    fn count(&self) -> usize {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until this many more calls have ended.
    fn wait_for(&self, more: usize) {
        let target = self.count() + more;
        until(|| {
            let count = self.count();
            ensure!(count >= target, "{count} of {target} calls");
            Ok(())
        });
    }

    /// Changes the fleet to a side. Returns the time span in which parts of it were away.
    fn change_to(&self, side: &Side) -> (i64, i64) {
        let from = now_ms();
        output(&mut self.fleet.command_of(side, "./up")).unwrap();
        (from, now_ms())
    }
}

/// Stops the callers, even if the test fails.
struct EndOfCalls<'a>(&'a AtomicBool);

impl Drop for EndOfCalls<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_compose_fleet_goes_to_the_next_images_and_back() {
    let Some(engine) = tools::docker() else { return };
    let (earlier, current) = (Earlier::of_environment().side(), Side::current());
    let script = repository("crates/e2e/tests/fleet/earlier/ledger.py");
    let script = std::fs::read_to_string(script).unwrap();
    let server = json!({"command": "python3", "args": ["-c", script, "/ledger"]});
    let mut fleet = Fleet::with_server(engine, "earlier", &server);

    // The ledger outlives every container. The user that writes it has another id in the container.
    let ledger = fleet.folder.path().join("ledger");
    std::fs::create_dir(&ledger).unwrap();
    std::fs::set_permissions(&ledger, std::fs::Permissions::from_mode(0o777)).unwrap();
    let volume = format!("{}:/ledger", ledger.display());
    let overlay = fleet.folder.path().join("overlay.json");
    let text = json!({"services": {"mcp-bridge": {"volumes": [volume]}}}).to_string();
    std::fs::write(&overlay, text).unwrap();
    fleet.overlay = Some(overlay);
    let calls = Calls::new(fleet);

    let mut away_ms = vec![calls.change_to(&earlier)];
    // Callers of the current side need the token before `up` of this side creates it.
    let token = calls.fleet.folder.path().join("secrets/mcp-token");
    std::fs::write(token, "c4nary-of-mcp-clients").unwrap();
    std::thread::scope(|scope| {
        let end = EndOfCalls(&calls.is_over);
        for number in 0..CALLERS {
            let side = if number.is_multiple_of(2) { &earlier } else { &current };
            let calls = &calls;
            scope.spawn(move || calls.make(side));
        }

        for (number, side) in [&earlier, &current, &earlier, &current].into_iter().enumerate() {
            away_ms.push(calls.change_to(side));
            let fact = json!({"content": format!("The animal is zebra{number}.")});
            content(&calls.fleet.invoke("save_memory", &fact).unwrap());
            for kept in 0..=number {
                let query = json!({"query": format!("zebra{kept}")});
                let found = content(&calls.fleet.invoke("search_memory", &query).unwrap());
                assert!(found.contains(&format!("The animal is zebra{kept}.")), "{found}");
            }
            calls.wait_for(CALLS_BETWEEN);
        }
        drop(end);
    });

    let written = std::fs::read_to_string(ledger.join("ledger")).unwrap();
    let ended = calls.ended.lock().unwrap_or_else(PoisonError::into_inner);
    Tally::of(&ended, &count_effects(written.lines()), &away_ms).check("compose");
}
