//! Processes that are killed at each step of an approval, over a real broker.
//!
//! The process is this test itself, started again as `kill::victim`: it serves calls of `pay`, and
//! writes a line into a file for each that runs.

use std::future::pending;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use toolbus_approvals::{ApprovalConfig, ApprovalState, Approve, MIGRATIONS};
use toolbus_bus::Bus;
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::{eventually, quiet_for, rabbit};
use toolbus_tools::call::Outcome;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_wire::ErrorCode;

use crate::bus::{answer_requests, call, caller_on};
use crate::support::*;

const PLACE: &str = "APPROVALS_VICTIM_STORE";
const BROKER: &str = "APPROVALS_VICTIM_BROKER";
const LEDGER: &str = "APPROVALS_VICTIM_LEDGER";
const STOPS: &str = "APPROVALS_VICTIM_STOPS";

/// When the process is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The row is written, and nobody has answered.
    Pending,
    /// Somebody has answered, and the process has not heard of it.
    Answered,
    /// The call was let begin, and its tool was not started.
    Consumed,
}

/// Where a call is held up that was let begin.
struct HoldUp;

impl Gate for HoldUp {
    fn name(&self) -> &'static str {
        "hold up"
    }

    fn check<'a>(&'a self, _passage: &'a mut Passage) -> Verdict<'a> {
        Verdict::Later(Box::pin(pending()))
    }
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Bus> {
    RabbitBus::connect(Config::new(url).expect("a URL")).await.expect("a broker")
}

/// Not a test by itself: what the others start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let variable = |name: &str| std::env::var(name).ok();
    let (Some(place), Some(broker), Some(ledger)) =
        (variable(PLACE), variable(BROKER), variable(LEDGER))
    else {
        return;
    };
    let location: Location = place.parse().expect("a location");
    // So that the next one has the calls of one that was killed soon.
    let config = ApprovalConfig { host_ttl: Duration::from_secs(2), ..ApprovalConfig::default() };
    let mut host = Host::new(LazyStore::new(location, &[MIGRATIONS]), config);
    if variable(STOPS).is_some() {
        host = host.with_gate(HoldUp);
    }
    let _responders = answer_requests(&host, connect(&broker).await).await;

    let mut written = 0;
    loop {
        // sleeps: a process that looks until it is killed.
        tokio::time::sleep(Duration::from_millis(5)).await;
        for ran in &host.ran()[written..] {
            let mut options = std::fs::OpenOptions::new();
            let file = options.append(true).create(true).open(&ledger).expect("a ledger");
            writeln!(&file, "{ran}").expect("a line");
            written += 1;
        }
    }
}

/// A process, killed when this is dropped.
struct Victim(Child);

impl Victim {
    fn start(place: &str, broker: &str, ledger: &Path, stops: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "kill::victim", "--nocapture"]).stdout(Stdio::null());
        command.env(PLACE, place).env(BROKER, broker).env(LEDGER, ledger);
        if stops {
            command.env(STOPS, "1");
        }
        Self(command.spawn().expect("a process"))
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.0.id()).expect("an id");
        kill_process(Pid::from_raw(id).expect("an id"), signal).expect("a signal");
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.0.kill().expect("a kill");
        self.0.wait().expect("its end");
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn kill_at(step: Step, place: &str, operator: &Operator) -> Option<(Outcome, usize)> {
    let vhost = rabbit::vhost().await?;
    let broker = vhost.amqp_url();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger");
    let first = Victim::start(place, &broker, &ledger, step == Step::Consumed);
    let caller = caller_on(connect(&broker).await).await;

    let killing = async {
        let asked = operator.asked().await;
        // sleeps: the broker knows that the request is done with, and the caller that it is kept,
        // which nothing shows.
        tokio::time::sleep(Duration::from_millis(700)).await;
        match step {
            Step::Pending => first.kill(),
            Step::Answered => {
                // A process that is stopped within a write keeps the database locked.
                eventually(PATIENCE, async || {
                    first.signal(Signal::CONT);
                    first.signal(Signal::STOP);
                    operator.try_say(&asked, Approve::ONCE).await
                })
                .await;
                first.kill();
            }
            Step::Consumed => {
                operator.say(&asked, Approve::ONCE).await;
                eventually(PATIENCE, async || {
                    match operator.store.find(&asked.id).await.expect("it").state {
                        ApprovalState::Consumed => Ok(()),
                        other => Err(other),
                    }
                })
                .await;
                first.kill();
            }
        }
        let second = Victim::start(place, &broker, &ledger, false);
        if step == Step::Pending {
            operator.say(&asked, Approve::ONCE).await;
        }
        second
    };
    // What is brought back waits until the one that was killed counts as dead.
    let called = eventually(Duration::from_secs(55), async || {
        match call(&caller, json!({"to": "alice"})).await {
            // The process is not there yet.
            Err(error) if error.code == ErrorCode::Unroutable => Err(error),
            outcome => Ok(outcome),
        }
    });
    let (outcome, second) = tokio::join!(called, killing);
    let lines = || std::fs::read_to_string(&ledger).unwrap_or_default().lines().count();
    // What has run is written down soon, and nothing runs after that.
    let ran = usize::from(outcome.is_ok());
    eventually(PATIENCE, async || if lines() >= ran { Ok(()) } else { Err(lines()) }).await;
    quiet_for(Duration::from_millis(200), async || match lines() {
        lines if lines == ran => Ok(()),
        lines => Err(lines),
    })
    .await;
    drop(second);
    Some((outcome, lines()))
}

async fn kill_at_all(place: &Place, text_of: &str) {
    let operator = place.operator();
    for step in [Step::Pending, Step::Answered, Step::Consumed] {
        let Some((outcome, lines)) = kill_at(step, text_of, &operator).await else { return };
        match step {
            Step::Pending | Step::Answered => {
                assert_eq!(text(outcome), "paid", "{step:?}");
                assert_eq!(lines, 1, "{step:?}: it runs once");
            }
            Step::Consumed => {
                let error = outcome.expect_err("nobody knows how it ended");
                assert_eq!(error.code, ErrorCode::OutcomeUnknown, "{error}");
                assert_eq!(lines, 0, "it is not begun again");
            }
        }
    }
    let states = operator.states().await;
    assert_eq!(states, [ApprovalState::Consumed; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_be_killed_at_each_step_with_sqlite() {
    let place = Place::sqlite();
    let text_of = place.location.to_string();
    kill_at_all(&place, &text_of).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_may_be_killed_at_each_step_with_postgres() {
    let Some(url) = toolbus_testkit::postgres::database().await else { return };
    let place = Place::at(url.parse().expect("a location"));
    kill_at_all(&place, &url).await;
}
