//! Three hosts of one agent and one store on RabbitMQ, of which one is killed in each phase of the
//! work that they share: what is scheduled, subagents, and tasks for another agent.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Finished, Service};
use toolbus_testkit::rabbit;
use toolbus_testkit::scripted_server::{Asked, Reply, Server};

use crate::agent::{answer, launch, script, settings};
use crate::support::{ANSWERS, Frame, LIMIT, Stranger, as_told, scripts, start};

const SESSION: &str = "together";
/// Subagents that are spawned in each round: as many as run at a time.
const SUBAGENTS: usize = 3;

/// What another user says, whom the work of the first one does not keep waiting.
const TICK: &str = "Tick every second";
/// What the user says to see the whiteboard.
const BOARD: &str = "Show the board";

/// When a host is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// The work is handed over, and nothing of it is known to have begun.
    HandedOver,
    /// A call of a subagent runs.
    UnderWay,
    /// The end of one is being told.
    Told,
}

/// A host, with a model of its own, by which it is known who does what.
struct Host {
    folder: TempDir,
    server: Server,
    service: Service,
}

impl Host {
    async fn start(name: &str, bus: &str, store: Option<&Path>) -> Self {
        let server = Server::answering(reply).await;
        let folder = settings(&server);
        let config = folder.path().join("toolbus.toml");
        let mut text = std::fs::read_to_string(&config).unwrap();
        if let Some(store) = store {
            let (_, rest) = text.split_once('\n').unwrap();
            text = format!("store = \"sqlite:{}\"\n{rest}", store.display());
        }
        std::fs::write(&config, format!("name = \"{name}\"\n{text}")).unwrap();
        let service = start(launch(folder.path(), &["--bus", bus, "serve"])).await;
        Self { folder, server, service }
    }

    async fn run(&self, arguments: &[&str]) -> Finished {
        launch(self.folder.path(), arguments).run(LIMIT).await.unwrap()
    }

    async fn json(&self, arguments: &[&str]) -> Value {
        let run = self.run(arguments).await;
        serde_json::from_str(&run.stdout).unwrap_or_else(|_| panic!("{run:?}"))
    }
}

fn messages(asked: &Asked) -> &Vec<Value> {
    asked.body["messages"].as_array().unwrap()
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

/// What was asked for, where it is a turn of this kind.
fn begins(asked: &Asked, beginning: &str) -> bool {
    messages(asked).get(1).is_some_and(|message| text(message).starts_with(beginning))
}

fn is_of_subagent(asked: &Asked) -> bool {
    begins(asked, "[You are a subagent")
}

/// Whether an end is told, and the model has yet to answer.
fn is_notice(asked: &Asked) -> bool {
    let asked = &as_told(asked);
    let last = text(messages(asked).last().unwrap());
    last.starts_with("[The subagent") || last.starts_with("[The task")
}

/// The model of every host.
fn reply(asked: &Asked) -> Reply {
    let asked = &as_told(asked);
    let last = messages(asked).last().unwrap();
    let is_result = last["role"] == "tool";
    if is_of_subagent(asked) {
        let name = text(&messages(asked)[1]).rsplit("\n\n").next().unwrap();
        return match is_result {
            true => answer(&format!("{name} is done."), &[]),
            false => {
                let entry = json!({"key": name, "value": name});
                answer("", &[("whiteboard_write", entry), script("import time\ntime.sleep(2)")])
            }
        };
    }
    let is_said = |message: &&Value| message["role"] == "user" || message["role"] == "outside";
    let said = messages(asked).iter().rfind(is_said).unwrap();
    match text(last) {
        TICK => {
            let task = json!({"name": "tick", "cron": "* * * * * *", "description": "Tick."});
            answer("", &[("schedule_task", task)])
        }
        BOARD => answer("", &[("whiteboard_list", json!({}))]),
        listed if is_result && text(said) == BOARD => answer(listed, &[]),
        told if told.starts_with("round ") => answer("", &calls_of(told)),
        _ if is_notice(asked) => {
            // sleeps: it is late enough for its host to be killed meanwhile.
            std::thread::sleep(Duration::from_millis(300));
            answer("I see.", &[])
        }
        _ => answer("It is done.", &[]),
    }
}

fn calls_of(round: &str) -> Vec<(&'static str, Value)> {
    let mut calls = Vec::new();
    for at in 0..SUBAGENTS {
        calls.push(("spawn_subagent", json!({"description": format!("{round} part {at}")})));
    }
    calls.push(("invoke_agent", json!({"agent_name": "Worker", "skill": "any", "message": round})));
    calls
}

/// The ends that the session was told, by what they are of.
async fn ends(host: &Host) -> BTreeMap<String, usize> {
    let events = host.json(&["sessions", SESSION, "--json"]).await;
    let mut ends = BTreeMap::new();
    for event in events.as_array().unwrap() {
        let is_told = event["event"] == "said" || event["event"] == "noticed";
        let told = event["text"].as_str().unwrap_or_default();
        if is_told && (told.starts_with("[The subagent") || told.starts_with("[The task")) {
            *ends.entry(told.to_owned()).or_default() += 1;
        }
    }
    ends
}

/// Which host was asked such a thing.
async fn asked(hosts: &[Host], what: impl Fn(&Asked) -> bool) -> usize {
    let mut found = None;
    eventually(LIMIT, async || {
        found = hosts.iter().position(|host| host.server.asked().iter().any(&what));
        found.map(|_| ()).ok_or("nobody was asked")
    })
    .await;
    found.unwrap()
}

/// One round of work, and one host less in the middle.
async fn round(at: usize, phase: Phase, hosts: &mut Vec<Host>, bus: &str, store: &Path) {
    let begin = format!("round {at}");
    let said = ["--bus", bus, "ask", &begin, "--session", SESSION];
    let begun = hosts[0].run(&said).await;
    assert!(begun.status.success(), "{begun:?}");
    let part = format!("round {at} part ");
    let is_part = |asked: &Asked| messages(asked).iter().any(|told| text(told).contains(&part));
    let killed = match phase {
        Phase::HandedOver => 0,
        Phase::UnderWay => asked(hosts, |asked| is_of_subagent(asked) && is_part(asked)).await,
        Phase::Told => asked(hosts, |asked| is_notice(asked) && is_part(asked)).await,
    };
    hosts[killed].service.process().kill();
    hosts.remove(killed);
    hosts.push(Host::start("Asker", bus, Some(store)).await);

    let expected = (at + 1) * (SUBAGENTS + 1);
    eventually(LIMIT.saturating_mul(2), async || {
        let ends = ends(&hosts[0]).await;
        if ends.len() >= expected { Ok(()) } else { Err(format!("{phase:?}: {ends:?}")) }
    })
    .await;
}

#[tokio::test]
async fn hosts_that_are_killed_lose_and_repeat_nothing() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let shared = tempfile::tempdir().unwrap();
    let store = shared.path().join("state.db");
    let _scripts = scripts(&bus).await;
    let _worker = Host::start("Worker", &bus, None).await;
    let mut hosts = Vec::new();
    for _ in 0..3 {
        hosts.push(Host::start("Asker", &bus, Some(&store)).await);
    }
    let other = Stranger::new(&vhost, &[]).await;
    let said = json!({"content": TICK, "sessionId": "ticks", "userId": "alice",
                      "targetAgent": "Asker"});
    other
        .send(&Frame::new("user.message", "RockBot.UserProxy.UserMessage", said.to_string()))
        .await;
    other.take(ANSWERS, 1).await;
    let phases = [Phase::HandedOver, Phase::UnderWay, Phase::Told];
    for (at, phase) in phases.into_iter().enumerate() {
        round(at, phase, &mut hosts, &bus, &store).await;
    }

    // Each end is told once, and is what came of the work.
    let ends = ends(&hosts[0]).await;
    assert_eq!(ends.len(), phases.len() * (SUBAGENTS + 1), "{ends:#?}");
    for (told, times) in &ends {
        assert_eq!(*times, 1, "{told}");
        let is_done = told.contains(" is done.");
        assert!(is_done && told.contains("completed"), "{told}");
    }

    // The whiteboard has what each has written.
    let board = hosts[0].run(&["--bus", &bus, "ask", BOARD, "--session", SESSION]).await;
    for round in 0..phases.len() {
        for at in 0..SUBAGENTS {
            let key = format!("round {round} part {at}");
            assert!(board.stdout.contains(&key), "{key}: {board:?}");
        }
    }

    // Of the schedule, each time ran once at most, and what did not is told.
    let cancelled = hosts[0].run(&["schedules", "show", "tick"]).await;
    let lines: Vec<&str> = cancelled.stdout.lines().filter(|line| line.starts_with("20")).collect();
    let dues: BTreeSet<&str> = lines.iter().map(|line| &line[..19]).collect();
    assert!(lines.len() > 5 && dues.len() == lines.len(), "{cancelled:?}");
    let is_done = |line: &&str| line.contains("  done  ");
    assert!(lines.iter().any(is_done), "{cancelled:?}");
}
