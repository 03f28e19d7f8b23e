//! Scheduled tasks: what a model schedules runs in whatever process serves, once each time.

use std::path::Path;

use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Finished, Service};
use toolbus_testkit::scripted_server::{Asked, Server};

use crate::agent::{answer, launch, settings};
use crate::support::{LIMIT, as_told, start};

async fn run(folder: &Path, arguments: &[&str]) -> Finished {
    launch(folder, arguments).run(LIMIT).await.unwrap()
}

fn last_said(asked: &Asked) -> &str {
    let messages = asked.body["messages"].as_array().unwrap();
    let is_said = |message: &&Value| message["role"] == "user" || message["role"] == "outside";
    let said = messages.iter().rfind(is_said).unwrap();
    said["content"].as_str().unwrap()
}

fn is_tick(asked: &Asked) -> bool {
    last_said(&as_told(asked)).starts_with("[The scheduled task 'tick' is due")
}

async fn ticks(server: &Server, count: usize) {
    eventually(LIMIT, async || {
        match server.asked().iter().filter(|asked| is_tick(asked)).count() {
            ticks if ticks >= count => Ok(()),
            ticks => Err(format!("{ticks} of {count} ticks")),
        }
    })
    .await;
}

#[tokio::test]
async fn what_a_model_schedules_runs_once_each_time_whoever_serves() {
    let task = json!({"name": "tick", "cron": "* * * * * *", "description": "Say tick."});
    let server = Server::answering(move |asked| {
        let asked = &as_told(asked);
        let is_result =
            asked.body["messages"].as_array().unwrap().last().unwrap()["role"] == "tool";
        match last_said(asked) == "Tick every second" && !is_result {
            true => answer("", &[("schedule_task", task.clone())]),
            false => answer("Tick.", &[]),
        }
    })
    .await;
    let folder = settings(&server);
    let folder = folder.path();
    let asked = run(folder, &["ask", "Tick every second"]).await;
    assert_eq!(asked.stdout, "Tick.\n", "{asked:?}");
    let listed = run(folder, &["schedules", "list"]).await;
    assert!(listed.stdout.starts_with("tick  * * * * * *  next 20"), "{listed:?}");
    assert_eq!(server.asked().iter().filter(|asked| is_tick(asked)).count(), 0, "nobody serves");

    // Two serve, and the one that has the schedules is killed.
    let serve = || start(launch(folder, &["serve"]));
    let mut hosts: [Service; 2] = [serve().await, serve().await];
    ticks(&server, 3).await;
    hosts[0].process().kill();
    ticks(&server, 6).await;

    let shown = run(folder, &["schedules", "show", "TICK"]).await;
    let has_run = shown.stdout.contains("Say tick.\n\n20") && shown.stdout.contains("  done  ");
    assert!(has_run, "{shown:?}");
    let cancelled = run(folder, &["schedules", "cancel", "tick"]).await;
    assert_eq!(cancelled.stdout, "Cancelled 'tick'.\n", "{cancelled:?}");
    let again = run(folder, &["schedules", "cancel", "tick"]).await;
    assert_eq!(
        (again.status.code(), &*again.stdout),
        (Some(1), "There is no scheduled task 'tick'.\n")
    );
    let empty = run(folder, &["schedules", "list"]).await;
    assert_eq!(empty.stdout, "No scheduled tasks.\n");
    hosts[1].process().terminate(LIMIT).await.unwrap();

    // Each occurrence has a session of its own.
    let sessions = run(folder, &["sessions", "--json"]).await;
    let sessions: Value = serde_json::from_str(&sessions.stdout).unwrap();
    let is_of_task =
        |session: &&Value| session["session"].as_str().unwrap().starts_with("schedule/");
    let runs = sessions.as_array().unwrap().iter().filter(is_of_task).count();
    assert_eq!(server.asked().iter().filter(|asked| is_tick(asked)).count(), runs);
}
