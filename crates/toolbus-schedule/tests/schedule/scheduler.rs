//! The scheduler: what fires when, and what becomes of it.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::json;
use toolbus_schedule::{
    Cause, MissedRule, NewTask, OccurrenceState, RunEnd, ScheduleConfig, Scheduled,
};
use toolbus_testkit::{eventually, quiet_for};

use crate::support::*;

#[tokio::test]
async fn a_task_fires_again_and_again_at_its_times() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        // It is there before there is a store.
        let scheduler = bench.start(&runner);
        let Scheduled::Armed { next_ms } = bench.put(task("tick", "* * * * * *")).await else {
            panic!("it is armed")
        };
        runner.eventually_ran(3).await;
        scheduler.close().await;

        let ran = runner.ran.lock().clone();
        let dues: Vec<_> = ran.iter().take(3).map(|fire| fire.due_ms - next_ms).collect();
        assert_eq!(dues, [0, 1_000, 2_000]);
        let first = &ran[0];
        assert_eq!((&*first.name, &*first.description), ("tick", "do tick"));
        assert_eq!(
            (&first.owner, first.cause, first.missed),
            (&owner("model"), Cause::Schedule, 0)
        );
        let history = bench.history().await;
        let done = history.iter().filter(|it| it.state == OccurrenceState::Done);
        assert_eq!(done.count(), ran.len());
        let kept = bench.schedules.list(&owner("model")).await.unwrap().remove(0);
        assert!(kept.last_fired_ms.unwrap() >= ran.last().unwrap().due_ms);
    }))
    .await;
}

#[tokio::test]
async fn a_task_that_runs_once_is_removed_after_it() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        bench.put(soon("reminder")).await;
        bench.eventually_in(OccurrenceState::Done).await;
        assert_eq!(bench.schedules.list(&owner("model")).await.unwrap(), []);
        scheduler.close().await;
        assert_eq!(runner.count(), 1);
    }))
    .await;
}

/// What is cancelled or replaced while it runs does not come back after the run.
#[tokio::test]
async fn a_task_may_be_cancelled_or_replaced_during_its_run() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let gate = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
        let opened = std::sync::Arc::clone(&gate);
        let runner = Runner::new(move |_, _| {
            let opened = std::sync::Arc::clone(&opened);
            async move {
                opened.acquire().await.expect("it is open").forget();
                RunEnd::Done
            }
            .boxed()
        });
        let scheduler = bench.start(&runner);
        bench.put(task("cancelled", "* * * * * *")).await;
        runner.eventually_ran(1).await;
        bench.schedules.cancel(&owner("model"), "cancelled").await.unwrap();
        gate.add_permits(1);
        bench.eventually_in(OccurrenceState::Done).await;
        assert_eq!(bench.schedules.list(&owner("model")).await.unwrap(), []);

        bench.put(task("replaced", "* * * * * *")).await;
        runner.eventually_ran(2).await;
        let far =
            NewTask { description: "the new one".to_owned(), ..task("replaced", "0 0 1 1 *") };
        let Scheduled::Armed { next_ms } = bench.put(far).await else { panic!("it is armed") };
        gate.add_permits(1);
        eventually(PATIENCE, async || {
            let history = bench.history().await;
            let done = history.iter().filter(|it| it.state == OccurrenceState::Done).count();
            if done == 2 { Ok(()) } else { Err(history) }
        })
        .await;
        let kept = bench.schedules.list(&owner("model")).await.unwrap().remove(0);
        assert_eq!((&*kept.description, kept.next_ms), ("the new one", Some(next_ms)));
        assert_eq!(kept.last_fired_ms, None, "the one before has fired");

        // Nothing of the old ones fires in their next seconds, in which another one does.
        bench.put(task("witness", "* * * * * *")).await;
        gate.add_permits(2);
        runner.eventually_ran(4).await;
        let ran: Vec<_> = runner.ran.lock().iter().map(|fire| fire.name.clone()).collect();
        assert_eq!(ran, ["cancelled", "replaced", "witness", "witness"]);
        scheduler.close().await;
    }))
    .await;
}

#[tokio::test]
async fn what_is_due_during_a_run_is_skipped_and_told() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::new(|fire, _| {
            async move {
                let is_first = fire.missed == 0 && fire.name == "slow";
                // sleeps: a task is due at whole seconds, and is to be due twice meanwhile.
                tokio::time::sleep(Duration::from_millis(if is_first { 2_500 } else { 1 })).await;
                RunEnd::Done
            }
            .boxed()
        });
        let scheduler = bench.start(&runner);
        bench.put(task("slow", "* * * * * *")).await;
        let skipped = bench.eventually_in(OccurrenceState::Skipped).await;
        scheduler.close().await;
        assert!(skipped.fires >= 2, "{skipped:?}");
        assert_eq!(skipped.until_ms - skipped.due_ms, 1_000 * (skipped.fires as i64 - 1));
        assert_eq!(skipped.reason, "the run before it was not over");
    }))
    .await;
}

#[tokio::test]
async fn failures_are_written_down_and_the_task_goes_on() {
    let config = ScheduleConfig { run_timeout: Duration::from_millis(300), ..quick_config() };
    join_all(Bench::all_with(&config).await.into_iter().map(async |bench| {
        let runner = Runner::new(|fire, stop| {
            async move {
                match &*fire.name {
                    "fails" => return RunEnd::Failed("no\0 luck".to_owned()),
                    "panics" => panic!("as it is told"),
                    _ => stop.cancelled().await,
                }
                RunEnd::Done
            }
            .boxed()
        });
        let scheduler = bench.start(&runner);
        for name in ["fails", "panics", "endless"] {
            bench.put(soon(name)).await;
            eventually(PATIENCE, async || {
                let of_task =
                    bench.schedules.history(&owner("model"), Some(name), 9).await.unwrap();
                let failed = of_task.iter().find(|it| it.state == OccurrenceState::Failed);
                failed.map(|_| ()).ok_or(of_task)
            })
            .await;
        }
        scheduler.close().await;
        let mut reasons: Vec<_> = bench.history().await.into_iter().map(|it| it.reason).collect();
        reasons.sort();
        assert_eq!(reasons, ["it panicked", "it took longer than 0 s", "no luck"]);
    }))
    .await;
}

#[tokio::test]
async fn another_zone_arms_tasks_anew() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let scheduler = bench.start(&Runner::quick());
        bench.put(task("yearly", "30 12 1 6 *")).await;
        let zone_of = async || bench.schedules.list(&owner("model")).await.unwrap().remove(0);
        assert_eq!(zone_of().await.zone, "UTC");
        let in_utc = zone_of().await.next_ms.unwrap();

        *bench.zone.name.lock() = Some("Asia/Tokyo".to_owned());
        bench.schedules.wake();
        eventually(PATIENCE, async || {
            let kept = zone_of().await;
            if kept.zone == "Asia/Tokyo" { Ok(kept) } else { Err(kept) }
        })
        .await;
        assert_eq!(zone_of().await.next_ms.unwrap() - in_utc, -9 * 3_600_000);
        scheduler.close().await;
    }))
    .await;
}

/// There are more tasks than are looked at together; one of them fires all the same.
#[tokio::test]
async fn another_zone_arms_every_task_anew() {
    let config = ScheduleConfig { tasks_max: 5_000, agent_tasks_max: 5_000, ..quick_config() };
    join_all(Bench::all_with(&config).await.into_iter().map(async |bench| {
        bench.put(task("yearly", "30 12 1 6 *")).await;
        bench
            .sabotage(
                "WITH RECURSIVE copies (n) AS
                     (SELECT 2 UNION ALL SELECT n + 1 FROM copies WHERE n < 1200)
                 INSERT INTO schedule_tasks
                     (agent, owner, id, generation, name, principal, cron, zone, run_once, missed,
                      missed_max, created_ms, next_ms, description)
                 SELECT agent, owner, id || n, generation || n, name || n, principal, cron, zone,
                        run_once, missed, missed_max, created_ms, next_ms, description
                 FROM schedule_tasks, copies",
            )
            .await;
        *bench.zone.name.lock() = Some("Asia/Tokyo".to_owned());
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        bench.put(soon("reminder")).await;
        runner.eventually_ran(1).await;

        eventually(PATIENCE, async || {
            let tasks = bench.schedules.list(&owner("model")).await.unwrap();
            let yearly = tasks.iter().filter(|task| task.name.starts_with("yearly"));
            let in_tokyo = yearly.filter(|task| task.zone == "Asia/Tokyo").count();
            if in_tokyo == 1_200 { Ok(()) } else { Err(in_tokyo) }
        })
        .await;
        scheduler.close().await;
    }))
    .await;
}

/// Nothing fires by the clocks of another zone than the person's.
#[tokio::test]
async fn nothing_fires_while_the_zone_is_not_known() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        bench.put(task("tick", "* * * * * *")).await;
        bench.zone.is_unreadable.store(true, Ordering::Relaxed);
        let refusal = bench.refusal("list_scheduled_tasks", json!({})).await;
        assert_eq!(refusal, "the schedules of this agent cannot be used now");
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        // It is due in each second.
        quiet_for(Duration::from_millis(1_100), async || match runner.count() {
            0 => Ok(()),
            count => Err(count),
        })
        .await;

        bench.zone.is_unreadable.store(false, Ordering::Relaxed);
        bench.schedules.wake();
        runner.eventually_ran(1).await;
        scheduler.close().await;
    }))
    .await;
}

#[tokio::test]
async fn a_task_is_run_at_once_when_somebody_asks() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        let Scheduled::Armed { next_ms } = bench.put(task("yearly", "0 0 1 1 *")).await else {
            panic!("it is armed")
        };
        // As another process does it.
        assert!(bench.again().schedules.run_now(&owner("model"), "Yearly").await.unwrap());
        runner.eventually_ran(1).await;
        bench.eventually_in(OccurrenceState::Done).await;
        scheduler.close().await;
        assert_eq!(runner.ran.lock()[0].cause, Cause::Asked);
        let kept = bench.schedules.list(&owner("model")).await.unwrap().remove(0);
        assert_eq!(kept.next_ms, Some(next_ms), "its schedule stays");
        assert!(kept.last_fired_ms.is_some());
    }))
    .await;
}

/// Nobody was there for some hours.
#[tokio::test]
async fn missed_fires_go_by_the_rule_of_their_task() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        for (name, missed) in [
            ("skip", MissedRule::Skip),
            ("once", MissedRule::RunOnce),
            ("all", MissedRule::RunAll { max: 2 }),
        ] {
            bench.put(NewTask { missed: Some(missed), ..task(name, "30 * * * *") }).await;
        }
        bench.put(NewTask { missed: Some(MissedRule::Skip), ..soon("gone") }).await;
        // They were due at half past some hours ago, and none within the last minutes.
        bench
            .sabotage(
                "UPDATE schedule_tasks SET cron = CASE WHEN name = 'gone' THEN cron ELSE
                 (CAST((created_ms / 60000 + 30) % 60 AS TEXT) || ' * * * *') END,
                 next_ms = (created_ms / 60000) * 60000 + 1800000 - 5 * 3600000,
                 run_once = CASE WHEN name = 'gone' THEN 1 ELSE 0 END",
            )
            .await;
        bench.sabotage("UPDATE schedule_tasks SET cron = '0 0 1 1 *' WHERE name = 'gone'").await;

        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        runner.eventually_ran(3).await;
        eventually(PATIENCE, async || {
            let history = bench.history().await;
            if history.iter().all(|it| it.ended_ms.is_some()) { Ok(()) } else { Err(history) }
        })
        .await;
        scheduler.close().await;

        let mut ran: Vec<_> =
            runner.ran.lock().iter().map(|fire| (fire.name.clone(), fire.missed)).collect();
        ran.sort();
        let expected = [("all", 0), ("all", 3), ("once", 4)];
        assert_eq!(ran, expected.map(|(name, missed)| (name.to_owned(), missed)));
        let missed = async |name: &str| {
            let of_task = bench.schedules.history(&owner("model"), Some(name), 9).await.unwrap();
            let missed = of_task.iter().filter(|it| it.state == OccurrenceState::Missed);
            missed.map(|it| it.fires).collect::<Vec<_>>()
        };
        assert_eq!(missed("skip").await, [5]);
        assert_eq!(missed("once").await, [4]);
        assert_eq!(missed("all").await, [3]);
        assert_eq!(missed("gone").await, [1]);
        let names: Vec<_> = bench.schedules.list(&owner("model")).await.unwrap();
        let names: Vec<_> = names.iter().map(|task| &*task.name).collect();
        assert_eq!(names, ["all", "once", "skip"], "what ran once, or would have, is gone");
    }))
    .await;
}

/// What a process has left that was killed between firing and running goes by the rule, and what
/// it was running is not run again.
#[tokio::test]
async fn what_a_killed_process_has_left_is_found() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        for (name, missed) in [
            ("skip", MissedRule::Skip),
            ("once", MissedRule::RunOnce),
            ("begun", MissedRule::RunAll { max: 9 }),
            ("reminder", MissedRule::RunOnce),
        ] {
            let run_once = name == "reminder";
            let missed = Some(missed);
            bench.put(NewTask { missed, run_once, ..task(name, "0 0 1 1 *") }).await;
            assert!(bench.schedules.run_now(&owner("model"), name).await.unwrap());
        }
        bench
            .sabotage(
                "UPDATE schedule_occurrences SET cause = 'schedule', due_ms = due_ms - 3600000,
                 state = CASE WHEN name = 'begun' THEN 'running' ELSE 'fired' END",
            )
            .await;
        bench.sabotage("UPDATE schedule_tasks SET next_ms = NULL WHERE run_once = 1").await;

        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        eventually(PATIENCE, async || {
            let history = bench.history().await;
            if history.iter().all(|it| it.ended_ms.is_some()) { Ok(()) } else { Err(history) }
        })
        .await;
        scheduler.close().await;
        let mut ended: Vec<_> =
            bench.history().await.into_iter().map(|it| (it.name, it.state)).collect();
        ended.sort_by(|one, other| one.0.cmp(&other.0));
        let expected = [
            ("begun", OccurrenceState::Lost),
            ("once", OccurrenceState::Done),
            ("reminder", OccurrenceState::Done),
            ("skip", OccurrenceState::Missed),
        ];
        assert_eq!(ended, expected.map(|(name, state)| (name.to_owned(), state)));
        assert_eq!(runner.count(), 2);
        assert_eq!(bench.schedules.list(&owner("model")).await.unwrap().len(), 3);
    }))
    .await;
}

/// Ended occurrences are forgotten, the oldest first.
#[tokio::test]
async fn history_is_bounded() {
    let config = ScheduleConfig { history_max: 2, ..quick_config() };
    join_all(Bench::all_with(&config).await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        bench.put(task("tick", "* * * * * *")).await;
        runner.eventually_ran(5).await;
        scheduler.close().await;
        let history = bench.history().await;
        assert!(history.len() <= 3, "{history:?}");
        assert_eq!(history[0].due_ms, runner.ran.lock().last().unwrap().due_ms);
    }))
    .await;
}

/// A task that cannot be read keeps no other from firing, and can be cancelled.
#[tokio::test]
async fn a_damaged_task_hurts_no_other() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        bench.put(task("bad", "* * * * * *")).await;
        bench.sabotage("UPDATE schedule_tasks SET cron = 'x'").await;
        bench.put(soon("good")).await;
        let runner = Runner::quick();
        let scheduler = bench.start(&runner);
        bench.eventually_in(OccurrenceState::Done).await;
        scheduler.close().await;
        assert_eq!(runner.count(), 1);
        let cancelled = bench.schedules.cancel(&owner("model"), "bad").await.unwrap();
        assert_eq!(cancelled.as_deref(), Some("bad"));
    }))
    .await;
}
