//! A planned stop under load, with the local sandbox and a real broker: what ran is known from
//! scripts that tell it to a socket of the test, not from any manager.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use toolbus::{Call, CallTime, Scripts, Toolbus};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::script_python::ScriptPython;
use toolbus_testkit::{eventually, rabbit};

/// How long anything may take that ends sooner on an idle machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The grace of managers, of which four fifths are for their scripts.
const GRACE: &str = "6s";
const LONG_SCRIPTS: usize = 6;
/// Longer than the grace, and than the rest of the test.
const LONG_SECONDS: f32 = 20.0;
const SHORT_SCRIPTS: usize = 80;
/// Short scripts that one agent has under way.
const LANES: usize = 6;

/// What scripts have told, by call.
type Ledger = Arc<Mutex<BTreeMap<String, Vec<(String, String)>>>>;

/// An agent whose scripts tell what they do.
struct Agent {
    toolbus: Toolbus,
    ledger: Ledger,
}

impl Agent {
    async fn join(vhost: &Vhost, ledger: Ledger) -> Arc<Self> {
        let bus = RabbitBus::connect(Config::new(&vhost.amqp_url()).unwrap()).await.unwrap();
        let toolbus = Toolbus::builder().bus(bus).scripts(Scripts::remote()).open().await.unwrap();
        Arc::new(Self { toolbus, ledger })
    }

    /// Runs a script that tells its start and its end; gives what it prints, or the code of its
    /// error.
    async fn run(self: Arc<Self>, call: String, seconds: f32) -> (String, String) {
        let body = format!(
            "tell('start', '{call}')\n\
             time.sleep({seconds})\n\
             tell('end', '{call}')\n\
             print('{call}')"
        );
        let arguments = json!({"script": ScriptPython::script(&body), "timeout_seconds": 60});
        let invocation =
            Call::by_name(&self.toolbus.local_scope(), "execute_python_script", arguments).unwrap();
        let outcome = self.toolbus.invoke(invocation.with_time(CallTime::within(LIMIT))).await;
        let result = match outcome {
            Ok(output) => output.content.unwrap_or_default().trim_end().to_owned(),
            Err(error) => error.code.as_str().to_owned(),
        };
        (call, result)
    }

    /// What was told of a call: events, and the manager that ran it.
    fn events(&self, call: &str) -> Vec<(String, String)> {
        self.ledger.lock().get(call).cloned().unwrap_or_default()
    }
}

async fn start_manager(vhost: &Vhost, python: &ScriptPython, name: &str) -> Service {
    let launch = Launch::new("scripts-manager")
        .args(["--bus", &vhost.amqp_url()])
        .env("TOOLBUS_SCRIPTS__PYTHON", python.interpreter(name).unwrap())
        .env("TOOLBUS_SCRIPTS__MAX_CONCURRENT", "4")
        .env("TOOLBUS_AGENTS__MAX_CONCURRENT", "4")
        .env("TOOLBUS_AGENTS__MAX_WAITING", "16")
        .env("TOOLBUS_SHUTDOWN__GRACE", GRACE);
    let mut manager = launch.start().unwrap();
    manager.ready(LIMIT).await.unwrap();
    manager
}

fn take_events(socket: &Path, ledger: Ledger) -> JoinSet<()> {
    let listener = ScriptPython::listen(socket).unwrap();
    let mut taking = JoinSet::new();
    taking.spawn(async move {
        let mut scripts = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            scripts.spawn(take_script(stream, Arc::clone(&ledger)));
        }
    });
    taking
}

async fn take_script(mut stream: UnixStream, ledger: Ledger) {
    let (read, mut write) = stream.split();
    let mut lines = BufReader::new(read).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let [event, call, manager] = line.split(' ').collect::<Vec<_>>()[..] else { return };
        let told = (event.to_owned(), manager.to_owned());
        ledger.lock().entry(call.to_owned()).or_default().push(told);
        if write.write_all(b"ok\n").await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_stops_under_load_loses_nothing_but_what_outlasts_its_grace() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let python = ScriptPython::create(&folder.path().join("python")).unwrap();
    let ledger = Ledger::default();
    let _taking = take_events(&python.socket(), Arc::clone(&ledger));
    let mut managers = BTreeMap::new();
    for name in ["first", "second", "third"] {
        managers.insert(name.to_owned(), start_manager(&vhost, &python, name).await);
    }
    let agent = Agent::join(&vhost, ledger).await;

    let mut long = JoinSet::new();
    for number in 0..LONG_SCRIPTS {
        long.spawn(Arc::clone(&agent).run(format!("long-{number}"), LONG_SECONDS));
    }
    let (_, victim) = eventually(LIMIT, async || {
        let starts = (0..LONG_SCRIPTS).map(|number| agent.events(&format!("long-{number}")));
        let starts: Vec<_> = starts.filter_map(|events| events.first().cloned()).collect();
        if starts.len() == LONG_SCRIPTS { Ok(starts[0].clone()) } else { Err(starts) }
    })
    .await;

    let mut lanes = JoinSet::new();
    for lane in 0..LANES {
        let agent = Arc::clone(&agent);
        lanes.spawn(async move {
            let mut results = Vec::new();
            for number in (lane..SHORT_SCRIPTS).step_by(LANES) {
                let seconds = 0.05 * (number % 7) as f32;
                let run = Arc::clone(&agent).run(format!("short-{number}"), seconds);
                results.push(run.await);
            }
            results
        });
    }
    eventually(LIMIT, async || {
        let count = agent.ledger.lock().len();
        if count >= LONG_SCRIPTS + SHORT_SCRIPTS / 4 { Ok(()) } else { Err(count) }
    })
    .await;
    let manager = managers.get_mut(&victim).unwrap();
    let status = manager.process().terminate(LIMIT).await.unwrap();
    assert!(status.success(), "{status}: {}", manager.process().stderr());

    let short: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    assert_eq!(short.len(), SHORT_SCRIPTS);
    for (call, result) in short {
        let events = agent.events(&call);
        let told: Vec<_> = events.iter().map(|(event, _)| event.as_str()).collect();
        assert_eq!((call.as_str(), told), (result.as_str(), vec!["start", "end"]), "{events:?}");
    }
    for (call, result) in long.join_all().await {
        let events = agent.events(&call);
        let told: Vec<_> = events.iter().map(|(event, _)| event.as_str()).collect();
        if events[0].1 == victim {
            assert_eq!((result.as_str(), told), ("outcome_unknown", vec!["start"]), "{call}");
        } else {
            assert_eq!((result.as_str(), told), (call.as_str(), vec!["start", "end"]));
        }
    }
    let after_stop: Vec<_> = agent.ledger.lock().values().flatten().cloned().collect();
    assert!(after_stop.iter().any(|(_, manager)| *manager != victim));
}
