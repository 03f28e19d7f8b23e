//! Subagents and wisps: an agent splits its work, in processes that are killed in the middle.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::process::Finished;
use toolbus_testkit::rabbit;
use toolbus_testkit::scripted_server::{Asked, Server};
use toolbus_testkit::{eventually, quiet_for};

use crate::agent::{answer, launch, script, settings};
use crate::support::{Frame, LIMIT, Stranger, as_told, scripts, start};

async fn run(folder: &Path, arguments: &[&str]) -> Finished {
    launch(folder, arguments).run(LIMIT).await.unwrap()
}

fn messages(asked: &Asked) -> &Vec<Value> {
    asked.body["messages"].as_array().unwrap()
}

fn text(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

fn is_subagent(asked: &Asked) -> bool {
    messages(asked).iter().any(|message| text(message).starts_with("[You are a subagent"))
}

fn tools(asked: &Asked) -> Vec<&str> {
    let tools = asked.body["tools"].as_array().unwrap().iter();
    tools.map(|tool| tool["function"]["name"].as_str().unwrap()).collect()
}

/// The results of a turn that waits come into it, and what subagents see is less than all.
#[tokio::test]
async fn the_work_of_subagents_comes_into_the_turn_that_waits() {
    let server = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = messages(asked).last().unwrap();
        let is_result = last["role"] == "tool";
        match is_subagent(asked) {
            true if is_result => answer("It is 42.", &[]),
            true => answer(
                "",
                &[
                    ("report_progress", json!({"message": "I count."})),
                    ("whiteboard_write", json!({"key": "sum", "value": "42"})),
                    ("spawn_subagent", json!({"description": "More."})),
                ],
            ),
            false if text(last) == "Split it" => {
                let work = json!({"description": "Count.", "context": "To 42."});
                answer("", &[("spawn_subagent", work)])
            }
            false if is_result && text(last).starts_with("Subagent spawned with task_id: ") => {
                answer("", &[("list_subagents", json!({}))])
            }
            false if is_result && text(last).starts_with("Active subagents") => {
                answer("", &[script("import time\ntime.sleep(3)")])
            }
            false if messages(asked).iter().any(|told| text(told).contains("It is 42.")) => {
                match text(last).contains("42") && is_result {
                    true => answer("All is done.", &[]),
                    false => answer("", &[("whiteboard_read", json!({"key": "sum"}))]),
                }
            }
            false => answer(&format!("Nothing came: {}", text(last)), &[]),
        }
    })
    .await;
    let folder = settings(&server);
    let asked = run(folder.path(), &["ask", "Split it", "--session", "a"]).await;
    assert_eq!(asked.stdout, "All is done.\n", "{asked:?}");

    let all: Vec<Asked> = server.asked().iter().map(as_told).collect();
    let of_subagent = all.iter().find(|asked| is_subagent(asked)).unwrap();
    let told = text(&messages(of_subagent)[1]);
    assert!(
        told.ends_with("report_progress what it should know before that.]\n\nCount.\n\nTo 42.")
    );
    let theirs = tools(of_subagent);
    assert!(theirs.contains(&"report_progress") && theirs.contains(&"execute_python_script"));
    for withheld in ["spawn_subagent", "cancel_subagent", "schedule_task", "mcp_register_server"] {
        assert!(!theirs.contains(&withheld), "{withheld}: {theirs:?}");
    }
    assert!(!tools(&all[0]).contains(&"report_progress"));
    let refused = all.iter().rfind(|asked| is_subagent(asked)).unwrap();
    assert_eq!(
        text(messages(refused).last().unwrap()),
        "Error: Tool 'spawn_subagent' is not registered."
    );
}

/// Its process is killed; another goes on where it was, and the user is told once.
#[tokio::test]
async fn a_subagent_goes_on_in_another_process() {
    const TOLD: &str = "user.response";
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let server = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = messages(asked).last().unwrap();
        match is_subagent(asked) {
            true if last["role"] == "tool" => answer("It is 42.", &[]),
            true => answer("", &[script("import time\ntime.sleep(3)\nprint(42)")]),
            false if text(last) == "Split it" => {
                answer("", &[("spawn_subagent", json!({"description": "Count."}))])
            }
            false if text(last).contains("has completed its task") => answer("It is done.", &[]),
            false => answer("It is begun.", &[]),
        }
    })
    .await;
    let folder = settings(&server);
    let _scripts = scripts(&bus).await;
    let serve = || start(launch(folder.path(), &["--bus", &bus, "serve"]));
    let mut first = serve().await;
    let user = Stranger::new(&vhost, &[TOLD]).await;
    let said = json!({"content": "Split it", "sessionId": "s1", "userId": "alice"});
    let frame = Frame::new("user.message", "RockBot.UserProxy.UserMessage", said.to_string());
    user.send(&frame.without_reply_topic()).await;
    let reply = |message: &rabbit::Message| -> String {
        let reply: Value = serde_json::from_slice(&message.body).unwrap();
        reply["content"].as_str().unwrap().to_owned()
    };
    assert_eq!(reply(&user.take(TOLD, 1).await[0]), "It is begun.");
    eventually(LIMIT, async || {
        let count = server.asked().iter().filter(|asked| is_subagent(asked)).count();
        if count > 0 { Ok(()) } else { Err(count) }
    })
    .await;
    first.process().kill();
    let _second = serve().await;

    assert_eq!(reply(&user.take(TOLD, 1).await[0]), "It is done.");
    quiet_for(Duration::from_secs(1), async || {
        match user.vhost.take(TOLD, 10).await.unwrap().len() {
            0 => Ok(()),
            count => Err(format!("it is told once, and {count} times more")),
        }
    })
    .await;
}

/// Steps of wisps call tools through the gates, and ask the model.
#[tokio::test]
async fn wisps_run_scripts_and_ask_the_model() {
    let server = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = messages(asked).last().unwrap();
        let is_step = text(&messages(asked)[0]).starts_with("You do one step of a pipeline");
        match text(last) {
            told if is_step => answer(if told.contains("42") { "It is even." } else { "?" }, &[]),
            "Run it" => {
                let steps = json!([
                    {"id": "count", "mode": "Direct", "gateway": "Script",
                     "params": {"script": "print(6 * 7)"}},
                    {"id": "judge", "mode": "Llm", "prompt": "Is {{steps.count.result}} even?"},
                ]);
                let wisp = |what: &str| json!({"description": what, "steps": steps});
                let wisps = json!({"definitions": [wisp("One"), wisp("Other")]});
                answer("", &[("spawn_wisps", wisps)])
            }
            told => answer(told, &[]),
        }
    })
    .await;
    let folder = settings(&server);
    let asked = run(folder.path(), &["ask", "Run it", "--session", "a"]).await;
    let shown = &asked.stdout;
    assert!(shown.starts_with("2 wisp(s) completed (2 succeeded, 0 failed, "), "{asked:?}");
    assert_eq!(shown.matches("It is even.").count(), 2, "{shown}");
    let memory = json!({}).to_string();
    let kept = run(folder.path(), &["invoke", "list_working_memory", &memory]).await;
    assert!(!kept.stdout.contains("Error"), "{kept:?}");
}

/// A model spawns a subagent for each notice. It stops when the budget of the user's run is spent,
/// and its turns come through the door of the user.
#[tokio::test]
async fn a_loop_of_notices_ends_with_the_budget_of_its_run() {
    const CALLS: usize = 12;
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let server = Server::answering(|asked| {
        let asked = &as_told(asked);
        let last = messages(asked).last().unwrap();
        match is_subagent(asked) {
            true => answer("Counted.", &[]),
            // The turn ends after its calls, and the next notice starts another.
            false if last["role"] == "tool" => answer("I wait.", &[]),
            false => answer(
                "",
                &[
                    ("spawn_subagent", json!({"description": "Count."})),
                    ("whiteboard_write", json!({"key": "sum", "value": "42"})),
                ],
            ),
        }
    })
    .await;
    let folder = settings(&server);
    let path = folder.path().join("toolbus.toml");
    let given = std::fs::read_to_string(&path).unwrap();
    let policy = format!(
        "[[policy.budgets]]\nname = \"small\"\ncalls = {CALLS}\n\
         doors = [\"bus\"]\n[[policy.rules]]\nname = \"no-notes\"\neffect = \"deny\"\nreason = \
         \"not from there\"\ntools = [\"subagent/whiteboard_write\"]\ndoors = [\"bus\"]\n"
    );
    std::fs::write(&path, format!("{given}{policy}")).unwrap();
    let _serving = start(launch(folder.path(), &["--bus", &bus, "serve"])).await;

    let user = Stranger::new(&vhost, &["user.response"]).await;
    let said = json!({"content": "Split it", "sessionId": "s1", "userId": "alice"});
    let frame = Frame::new("user.message", "RockBot.UserProxy.UserMessage", said.to_string());
    user.send(&frame.without_reply_topic()).await;
    let spawned = || server.asked().iter().filter(|asked| is_subagent(asked)).count();
    let is_exhausted = |asked: &Asked| {
        messages(asked).iter().any(|told| text(told).contains("the budget of calls is spent"))
    };
    eventually(LIMIT, async || {
        let is_over = server.asked().iter().any(is_exhausted);
        if is_over { Ok(()) } else { Err(spawned()) }
    })
    .await;
    let requests = server.asked().len();
    quiet_for(Duration::from_secs(2), async || match server.asked().len() {
        // Notices that arrive meanwhile start no turn.
        now if now <= requests + 2 => Ok(()),
        now => Err(format!("{requests} requests, and {now} a moment later")),
    })
    .await;
    assert!((2..=CALLS).contains(&spawned()), "{}", spawned());

    let denied = |asked: &Asked| {
        messages(asked).iter().filter(|told| text(told).contains("not from there")).count()
    };
    let most = server.asked().iter().map(denied).max();
    assert!(most > Some(1), "turns that notices begin are denied what the first one was: {most:?}");
}
