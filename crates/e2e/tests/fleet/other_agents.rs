//! Agents that ask each other over RabbitMQ, in processes that are killed in the middle.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::{Finished, Service};
use toolbus_testkit::rabbit::{self, Message};
use toolbus_testkit::scripted_server::{Asked, Reply, Server};
use toolbus_testkit::{eventually, quiet_for};

use crate::agent::{answer, launch, script, settings};
use crate::support::{Frame, LIMIT, Stranger, as_told, start};

/// The topic that all programs of users hear.
const TOLD: &str = "user.response";

/// A folder with the settings of an agent of this name.
fn named(name: &str, server: &Server, more: &str) -> TempDir {
    let folder = settings(server);
    let config = folder.path().join("toolbus.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("name = \"{name}\"\n{text}\n{more}")).unwrap();
    folder
}

async fn serve(folder: &TempDir, bus: &str) -> Service {
    start(launch(folder.path(), &["--bus", bus, "serve"])).await
}

async fn ask(folder: &Path, bus: &str, text: &str) -> Finished {
    let arguments = ["--bus", bus, "ask", text, "--session", "a"];
    launch(folder, &arguments).run(LIMIT).await.unwrap()
}

/// What a model was told last.
fn last(asked: &Asked) -> &Value {
    asked.body["messages"].as_array().unwrap().last().unwrap()
}

/// Whether this is what the user has said last, and nothing came of it yet.
fn was_said(asked: &Asked, wanted: &str) -> bool {
    let messages = asked.body["messages"].as_array().unwrap();
    let is_said = |message: &&Value| message["role"] == "user" || message["role"] == "outside";
    let said = messages.iter().rev().take_while(is_said);
    said.into_iter().any(|message| text(message) == wanted)
}

fn is_result(message: &Value) -> bool {
    message["role"] == "tool"
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap()
}

fn invocation(agent: &str) -> (&'static str, Value) {
    let arguments = json!({"agent_name": agent, "skill": "sums", "message": "What is 6 * 7?"});
    ("invoke_agent", arguments)
}

/// A model that asks `Worker` where a user wants it, and says what it is told.
async fn asker() -> Server {
    Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = last(asked);
        match text(last) {
            _ if was_said(asked, "Ask the worker") => answer("", &[invocation("worker")]),
            told if told.contains("completed:]") => {
                answer(&format!("It says {}", told.lines().nth(2).unwrap()), &[])
            }
            told if told.contains("gave no result") => answer("It does not answer.", &[]),
            told if told.starts_with("Task dispatched") => answer("I have asked.", &[]),
            told => answer(told, &[]),
        }
    })
    .await
}

fn replies(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| -> String {
        let reply: Value = serde_json::from_slice(&message.body).unwrap();
        assert_eq!(reply["sessionId"], "s1");
        reply["content"].as_str().unwrap().to_owned()
    };
    messages.iter().map(text).collect()
}

async fn user_asks(user: &Stranger<'_>) {
    let said = json!({"content": "Ask the worker", "sessionId": "s1", "userId": "alice",
                      "targetAgent": "Asker"});
    let frame = Frame::new("user.message", "RockBot.UserProxy.UserMessage", said.to_string());
    user.send(&frame.without_reply_topic()).await;
}

/// The processes that asked and worked are killed while the task is under way; the user is told the
/// result once, by the processes that are left.
#[tokio::test]
async fn a_task_has_one_result_whoever_is_killed() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let asking = asker().await;
    // Its first answer is late enough for its process to be killed meanwhile.
    let working = Server::answering(|asked| match is_result(last(&as_told(asked))) {
        true => answer("It is 42.", &[]),
        false => answer("", &[script("import time\ntime.sleep(2)\nprint(42)")]),
    })
    .await;
    let asker_folder = named("Asker", &asking, "");
    let worker_folder = named("Worker", &working, "[a2a]\ndescription = \"Adds.\"\n");
    let scripts = crate::support::scripts(&bus).await;
    let mut askers = [serve(&asker_folder, &bus).await];
    let user = Stranger::new(&vhost, &[TOLD]).await;
    let mut workers = [serve(&worker_folder, &bus).await];

    user_asks(&user).await;
    assert_eq!(replies(&user.take(TOLD, 1).await), ["I have asked."]);
    let until_asked = |server: &Server, count: usize| {
        let asked = server.asked().len();
        if asked >= count { Ok(()) } else { Err(asked) }
    };
    eventually(LIMIT, async || until_asked(&working, 1)).await;
    workers[0].process().kill();
    askers[0].process().kill();
    let _workers = serve(&worker_folder, &bus).await;
    let _asker = serve(&asker_folder, &bus).await;

    assert_eq!(replies(&user.take(TOLD, 1).await), ["It says It is 42."]);
    quiet_for(Duration::from_secs(1), async || {
        match user.vhost.take(TOLD, 10).await.unwrap().len() {
            0 => Ok(()),
            count => Err(format!("it is told once, and {count} times more")),
        }
    })
    .await;
    let tasks: Vec<Asked> = working.asked().iter().map(as_told).collect();
    let told = tasks.iter().map(|asked| text(&asked.body["messages"][1]));
    let expected = "[The agent 'Asker' asks for 'sums'. Your answer goes to it, and nobody is there \
                    to answer questions.]\n\nWhat is 6 * 7?";
    told.for_each(|told| assert_eq!(told, expected));
    drop(scripts);
}

/// A turn that is under way when the result comes is told it.
#[tokio::test]
async fn the_turn_that_waits_is_told_the_result() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let working = Server::answering(|_| answer("It is 42.", &[])).await;
    let worker_folder = named("Worker", &working, "");
    let _worker = serve(&worker_folder, &bus).await;
    let _scripts = crate::support::scripts(&bus).await;
    let asking = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = last(asked);
        let asked_for = text(last).starts_with("Task dispatched to agent 'Worker'");
        match text(last) {
            _ if was_said(asked, "Ask and wait") => answer("", &[invocation("worker")]),
            _ if asked_for => answer("", &[script("import time\ntime.sleep(3)")]),
            told if told.contains("It is 42.") => answer("It says 42.", &[]),
            told => answer(&format!("Nothing came: {told}"), &[]),
        }
    })
    .await;
    let asker_folder = named("Asker", &asking, "");
    // It is known as soon as it has announced itself.
    let asked = ask(asker_folder.path(), &bus, "Ask and wait").await;
    assert_eq!(asked.stdout, "It says 42.\n", "{asked:?}");

    let noticed = launch(asker_folder.path(), &["sessions", "a"]).run(LIMIT).await.unwrap();
    assert!(noticed.stdout.contains("of agent 'Worker' completed:]"), "{noticed:?}");
    assert!(noticed.stdout.contains("[kept in working memory under 'session/a/a2a/Worker/"));
}

/// Agents know each other, with their skills; who is not there is told as that, and a task without
/// an answer ends.
#[tokio::test]
async fn agents_are_known_and_those_that_do_not_answer_are_given_up() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let working = Server::answering(|_| {
        // sleeps: a model that takes its time.
        std::thread::sleep(Duration::from_millis(100));
        Reply::error(500, &json!({"error": {"message": "broken"}}))
    })
    .await;
    let skills = "[a2a]\ndescription = \"Adds.\"\n[[a2a.skills]]\nid = \"sums\"\ndescription = \
                  \"Adds numbers.\"\n";
    let worker_folder = named("Worker", &working, skills);
    let _worker = serve(&worker_folder, &bus).await;
    let asking = Server::start([
        answer("", &[("list_known_agents", json!({})), invocation("nobody")]),
        answer("", &[("search_known_services", json!({"query": "adds numbers"}))]),
        answer("Done.", &[]),
    ])
    .await;
    let asker_folder = named("Asker", &asking, "[a2a]\ntimeout = \"2s\"\n");
    // Who comes is told by those who are there.
    let _other = serve(&asker_folder, &bus).await;
    let knows = || async {
        let asked = ask(asker_folder.path(), &bus, "Who is there?").await;
        assert!(asked.status.success(), "{asked:?}");
    };
    knows().await;
    let asked = as_told(asking.asked().last().unwrap());
    let results: Vec<_> = asked.body["messages"].as_array().unwrap().clone();
    let results: Vec<_> = results.iter().filter(|message| is_result(message)).map(text).collect();
    assert!(results[0].contains("\"agentName\": \"Worker\""), "{results:?}");
    assert!(results[0].contains("Adds numbers."), "{results:?}");
    assert!(results[1].contains("nobody"), "{results:?}");
    assert!(results[2].contains("\"type\": \"a2a\""), "{results:?}");
}

/// Without a broker, agents reach each other over HTTP, by the A2A protocol.
#[tokio::test]
async fn agents_ask_each_other_over_http() {
    let working = Server::answering(|_| answer("It is 42.", &[])).await;
    let tokens = "[http.tokens]\nasker = \"hunter2-hunter2-hunter2\"\n";
    let worker_folder = named("Worker", &working, tokens);
    let serving = launch(worker_folder.path(), &["serve", "--http", "127.0.0.1:0"]);
    let worker = start(serving).await;
    let (_, status) = worker.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let address = status["details"]["http"].as_str().unwrap();

    let asking = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = last(asked);
        let asked_for = text(last).starts_with("Task dispatched to agent 'Remote'");
        match text(last) {
            _ if was_said(asked, "Ask and wait") => answer("", &[invocation("remote")]),
            _ if asked_for => answer("", &[script("import time\ntime.sleep(3)")]),
            told if told.contains("It is 42.") => answer("It says 42.", &[]),
            told => answer(&format!("Nothing came: {told}"), &[]),
        }
    })
    .await;
    let agent = format!(
        "[[a2a.agents]]\nname = \"Remote\"\ncard_url = \
         \"http://{address}/.well-known/agent-card.json\"\napi_key = \
         \"hunter2-hunter2-hunter2\"\ninternal = true\n"
    );
    let asker_folder = named("Asker", &asking, &agent);
    let asked = launch(asker_folder.path(), &["ask", "Ask and wait"]).run(LIMIT).await.unwrap();
    assert_eq!(asked.stdout, "It says 42.\n", "{asked:?}");
    let told = as_told(&working.asked()[0]);
    let told = text(&told.body["messages"][1]);
    assert!(told.starts_with("[The agent 'http:token:http/asker' asks for 'sums'."), "{told}");

    // Who has no token is refused, and shows nobody a task.
    let refused = named("Stranger", &asking, &agent.replace("\"hunter2", "\"wrong"));
    let asked = launch(refused.path(), &["ask", "Ask and wait"]).run(LIMIT).await.unwrap();
    assert!(asked.stdout.contains("answers with status 401"), "{asked:?}");
    assert_eq!(working.asked().len(), 1);
    assert!(!asked.stdout.contains("hunter2") && !asked.stderr.contains("hunter2"), "{asked:?}");
}

/// What an operator is told of other agents, and of settings that cannot be.
#[tokio::test]
async fn agents_of_the_settings_are_listed_and_checked() {
    let server = Server::start([]).await;
    let folder = named(
        "Asker",
        &server,
        "[[a2a.well_known]]\nname = \"Worker\"\ndescription = \"Adds.\"\n[[a2a.well_known.skills]]\n\
         id = \"sums\"\ndescription = \"Adds numbers.\"\n[[a2a.agents]]\nname = \"Travel\"\n\
         card_url = \"https://travel.example.com/card.json\"\napi_key = \"hunter2\"\n",
    );
    let listed = launch(folder.path(), &["agents"]).run(LIMIT).await.unwrap();
    assert_eq!(
        listed.stdout,
        "Worker  of the settings  sums  Adds.\n\
         Travel  over HTTP  https://travel.example.com/card.json\n",
        "{listed:?}"
    );
    let json = launch(folder.path(), &["agents", "--json"]).run(LIMIT).await.unwrap();
    assert!(!json.stdout.contains("hunter2") && json.stdout.contains("\"sums\""), "{json:?}");

    let wrong = named(
        "Asker",
        &server,
        "[a2a]\ntimeout = \"48h\"\npublic_url = \"ftp://x\"\n[[a2a.skills]]\nid = \"\"\ndescription \
         = \"\"\n[[a2a.agents]]\nname = \"a b\"\ncard_url = \"file:///etc/passwd\"\napi_key = \
         \"${hunter2\"\n[schedules]\nzone = \"Mars/Base\"\nheartbeat = \"* *\"\n[subagents]\n\
         timeout = \"2h\"\n[wisps]\ntimeout = \"1h\"\n",
    );
    let refused = launch(wrong.path(), &["agents"]).run(LIMIT).await.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    for key in [
        "a2a.timeout",
        "a2a.public_url",
        "a2a.skills[0].id",
        "a2a.agents[0].name",
        "a2a.agents[0].card_url",
        "a2a.agents[0].api_key",
        "schedules.zone",
        "schedules.heartbeat",
        "subagents.timeout",
        "wisps.timeout",
    ] {
        assert!(refused.stderr.contains(key), "{key}: {refused:?}");
    }
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");
}
