//! The three tools, by what they say.

use serde_json::{Value, json};
use toolbus_schedule::{MissedRule, OccurrenceState};

use crate::support::*;

fn weekday() -> Value {
    json!({"name": "mail", "cron": "0 9 * * 1-5", "description": "Read the mail"})
}

#[tokio::test]
async fn tasks_are_scheduled_listed_and_cancelled() {
    for bench in Bench::all().await {
        *bench.zone.name.lock() = Some("America/Chicago".to_owned());
        assert_text!(mask_times(&bench.say("list_scheduled_tasks", json!({})).await),
            @"No scheduled tasks. Current time: TIME (America/Chicago)");
        let said = bench.say("schedule_task", weekday()).await;
        assert!(said.contains(" 09:00:00 (America/Chicago). Current"), "{said}");
        assert_text!(mask_times(&said), @"Scheduled task 'mail' with cron '0 9 * * 1-5'. Next fire: TIME (America/Chicago). Current time: TIME (America/Chicago).");

        let pipes = json!({"name": "a|b", "cron": "@daily", "description": "one\ntwo | three", "runOnce": "true"});
        bench.say("schedule_task", pipes).await;
        assert_text!(mask_times(&bench.say("list_scheduled_tasks", json!({})).await), @r"
        Current time: TIME (America/Chicago)
        Scheduled tasks (2):

        | Name | Cron | Next fire | Description | Created | Last fired |
        |---|---|---|---|---|---|
        | a\|b | `@daily` (once) | TIME (America/Chicago) | one two \| three | TIME (America/Chicago) | never |
        | mail | `0 9 * * 1-5` | TIME (America/Chicago) | Read the mail | TIME (America/Chicago) | never |
        ");

        assert_text!(bench.say("cancel_scheduled_task", json!({"name": "MAIL"})).await,
            @"Cancelled scheduled task 'mail'.");
        assert_text!(bench.say("cancel_scheduled_task", json!({"name": "MAIL"})).await,
            @"No scheduled task named 'MAIL' was found.");
    }
}

#[tokio::test]
async fn what_cannot_be_scheduled_is_refused() {
    for bench in Bench::all().await {
        let without = |name: &str| {
            let mut arguments = weekday();
            arguments.as_object_mut().unwrap().remove(name);
            arguments
        };
        for name in ["name", "cron", "description"] {
            let refusal = bench.refusal("schedule_task", without(name)).await;
            assert_eq!(refusal, format!("Missing required argument: {name}"));
        }
        assert_text!(bench.refusal("cancel_scheduled_task", json!({"name": null})).await,
            @"Missing required argument: name");

        let with = |name: &str, value: &str| {
            let mut arguments = weekday();
            arguments[name] = value.into();
            arguments
        };
        assert_text!(bench.refusal("schedule_task", with("cron", "0 25 * * *")).await,
            @"the cron expression cannot be used: the hour '25' cannot be read: a number from 0 to 23 is expected");
        assert_text!(bench.refusal("schedule_task", with("description", " ")).await,
            @"the description has 1 bytes, and may have from 1 to 4096");
        assert_text!(bench.refusal("schedule_task", with("name", "")).await,
            @"the name cannot be used: it is empty; it may have 100 characters in one line");
        bench.refusal("schedule_task", with("on_missed", "sometimes")).await;

        let never = bench.say("schedule_task", with("cron", "0 0 30 2 *")).await;
        assert_text!(mask_times(&never), @"WARNING: no future occurrence found — task will never fire with cron '0 0 30 2 *', so nothing was scheduled. Current time: TIME (UTC).");
        assert!(bench.schedules.list(&owner("model")).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn both_spellings_of_run_once_are_read() {
    let bench = Bench::all().await.remove(0);
    for (at, (name, value, expected)) in [
        ("run_once", json!(true), true),
        ("runOnce", json!(true), true),
        ("run_once", json!("False"), false),
        ("run_once", Value::Null, false),
        ("runOnce", json!("true"), true),
    ]
    .into_iter()
    .enumerate()
    {
        let mut arguments = weekday();
        arguments["name"] = at.to_string().into();
        arguments[name] = value;
        bench.say("schedule_task", arguments).await;
        let tasks = bench.schedules.list(&owner("model")).await.unwrap();
        assert_eq!(tasks.last().unwrap().run_once, expected, "{at}");
        // What happens once is done late rather than never.
        let rule = if expected { MissedRule::RunOnce } else { MissedRule::Skip };
        assert_eq!(tasks.last().unwrap().missed, rule);
    }
    let mut arguments = weekday();
    arguments["on_missed"] = "run_all".into();
    bench.say("schedule_task", arguments).await;
    let tasks = bench.schedules.list(&owner("model")).await.unwrap();
    assert_eq!(tasks.last().unwrap().missed, MissedRule::RunAll { max: 10 });
}

#[tokio::test]
async fn a_zone_that_is_not_known_is_not_used() {
    let bench = Bench::all().await.remove(0);
    *bench.zone.name.lock() = Some("Mars/Olympus".to_owned());
    let said = bench.say("schedule_task", weekday()).await;
    assert!(said.contains("(UTC)"), "{said}");
}

/// The list tells what did not run, and why.
#[tokio::test]
async fn missed_fires_are_reported() {
    for bench in Bench::all().await {
        bench.say("schedule_task", weekday()).await;
        bench
            .sabotage(
                "UPDATE schedule_tasks SET cron = '0 * * * *', next_ms = (next_ms / 3600000) * 3600000 - 864000000",
            )
            .await;
        let scheduler = bench.start(&Runner::quick());
        let missed = bench.eventually_in(OccurrenceState::Missed).await;
        scheduler.close().await;
        assert!(missed.fires >= 71, "{missed:?}");

        let listed = bench.say("list_scheduled_tasks", json!({})).await;
        let report = listed.split_once("\n\n").unwrap().1.split_once("\n\n").unwrap().1;
        let report = mask_times(report).replace(&format!("{} more", missed.fires - 1), "N more");
        assert_text!(report, @r"
        Did not run:
        - 'mail', due TIME (UTC), and N more until TIME (UTC): missed, nobody was there to run it
        ");
    }
}

#[tokio::test]
async fn the_store_is_gone_and_its_secrets_are_not_told() {
    let bench = Bench::all().await.remove(0);
    bench.say("list_scheduled_tasks", json!({})).await;
    bench.store.close().await;
    for (tool, arguments) in [
        ("list_scheduled_tasks", json!({})),
        ("schedule_task", weekday()),
        ("cancel_scheduled_task", json!({"name": "x"})),
    ] {
        let refusal = bench.refusal(tool, arguments).await;
        assert_eq!(refusal, "the schedules of this agent cannot be used now");
    }
}

#[tokio::test]
async fn the_guide_names_every_tool_and_its_examples_can_be_called() {
    let bench = Bench::all().await.remove(0);
    let guide = toolbus_schedule::guide();
    assert!(guide.document.len() < 2_500, "{}", guide.document.len());
    let tools = bench.invoker.registry().snapshot();
    assert_eq!(tools.tools().len(), 3);
    for entry in tools.tools() {
        assert_eq!(
            (&*entry.tool.source, entry.tool.group.as_deref()),
            ("scheduling", Some("scheduling"))
        );
        assert!(guide.document.contains(&entry.tool.name), "{}", entry.tool.name);
    }

    let mut called = 0;
    for line in guide.document.lines() {
        let Some((tool, arguments)) = line.split_once(" {") else { continue };
        if bench.invoker.registry().find(tool).is_some() {
            let arguments = serde_json::from_str(&format!("{{{arguments}")).unwrap();
            bench.say(tool, arguments).await;
            called += 1;
        }
    }
    assert_eq!(called, 4);
    let mut read = 0;
    for line in guide.document.lines().filter(|line| line.starts_with("| `")) {
        let cron = line.split('`').nth(1).unwrap();
        cron.parse::<toolbus_schedule::CronExpression>().unwrap();
        read += 1;
    }
    assert_eq!(read, 6);
}

#[tokio::test]
async fn definitions() {
    let bench = Bench::all().await.remove(0);
    let tools = bench.invoker.registry().snapshot();
    let definitions: Vec<_> = tools
        .tools()
        .iter()
        .map(|entry| {
            let tool = &entry.tool;
            json!({
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "readOnly": tool.annotations.read_only,
            })
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&definitions).unwrap());
}
