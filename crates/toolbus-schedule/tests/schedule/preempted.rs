//! A person's work comes first.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use toolbus_schedule::{NewTask, OccurrenceState, RunEnd, ScheduleConfig};

use crate::support::*;

#[tokio::test]
async fn a_task_waits_while_the_agent_is_busy() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        runner.is_busy.store(true, Ordering::Relaxed);
        let scheduler = bench.start(&runner);
        bench.put(soon("waits")).await;
        toolbus_testkit::eventually(PATIENCE, async || {
            let history = bench.history().await;
            let waits = history.iter().any(|occurrence| occurrence.attempts >= 2);
            if waits { Ok(()) } else { Err(history) }
        })
        .await;
        assert_eq!(runner.count(), 0);
        assert_eq!(bench.schedules.list(&owner("model")).await.unwrap()[0].last_fired_ms, None);

        runner.is_busy.store(false, Ordering::Relaxed);
        runner.eventually_ran(1).await;
        bench.eventually_in(OccurrenceState::Done).await;
        scheduler.close().await;
        assert_eq!(runner.count(), 1);
    }))
    .await;
}

#[tokio::test]
async fn it_is_given_up_after_so_many_attempts_and_told() {
    let retry_interval = Duration::from_millis(20);
    let config = ScheduleConfig { retries_max: 3, retry_interval, ..quick_config() };
    join_all(Bench::all_with(&config).await.into_iter().map(async |bench| {
        let runner = Runner::quick();
        runner.is_busy.store(true, Ordering::Relaxed);
        let scheduler = bench.start(&runner);
        bench.put(soon("once")).await;
        let skipped = bench.eventually_in(OccurrenceState::Skipped).await;
        scheduler.close().await;
        assert_eq!((skipped.attempts, &*skipped.reason), (3, "the agent was busy for too long"));
        assert_eq!(runner.count(), 0);
        let said = bench.say("list_scheduled_tasks", serde_json::json!({})).await;
        assert!(
            said.contains("'once', due") && said.contains("skipped, the agent was busy"),
            "{said}"
        );
    }))
    .await;
}

/// A run that made way is begun again with the same id, and only then has it fired.
#[tokio::test]
async fn a_run_that_made_way_is_run_again() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runs = AtomicUsize::new(0);
        let runner = Runner::new(move |_, _| {
            let end = match runs.fetch_add(1, Ordering::Relaxed) {
                0 | 1 => RunEnd::Preempted,
                _ => RunEnd::Done,
            };
            std::future::ready(end).boxed()
        });
        let scheduler = bench.start(&runner);
        bench.put(soon("again")).await;
        bench.eventually_in(OccurrenceState::Done).await;
        scheduler.close().await;
        let ran = runner.ran.lock().clone();
        let attempts: Vec<_> = ran.iter().map(|fire| fire.attempts).collect();
        assert_eq!(attempts, [0, 1, 2]);
        assert!(ran.iter().all(|fire| fire.id == ran[0].id));
    }))
    .await;
}

/// What is cancelled while its run makes way is not run again.
#[tokio::test]
async fn a_cancelled_run_that_made_way_is_over() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let release = CancellationToken::new();
        let released = release.clone();
        let runner = Runner::new(move |_, stop| {
            let released = released.clone();
            async move {
                stop.run_until_cancelled(released.cancelled()).await;
                RunEnd::Preempted
            }
            .boxed()
        });
        let scheduler = bench.start(&runner);
        bench.put(NewTask { run_once: false, ..soon("cancelled") }).await;
        runner.eventually_ran(1).await;
        bench.schedules.cancel(&owner("model"), "cancelled").await.unwrap();
        release.cancel();
        bench.eventually_in(OccurrenceState::Cancelled).await;
        scheduler.close().await;
        assert_eq!(runner.count(), 1);
    }))
    .await;
}

/// A process that is closed stops its run, and the next one goes on with it.
#[tokio::test]
async fn a_run_is_stopped_at_the_end_of_its_process() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::new(|_, stop| {
            async move {
                stop.cancelled().await;
                RunEnd::Preempted
            }
            .boxed()
        });
        let scheduler = bench.start(&runner);
        bench.put(soon("moves")).await;
        runner.eventually_ran(1).await;
        scheduler.close().await;

        let next = bench.again();
        let quick = Runner::quick();
        let scheduler = next.start(&quick);
        bench.eventually_in(OccurrenceState::Done).await;
        scheduler.close().await;
        assert_eq!(quick.ran.lock()[0].attempts, 1);
    }))
    .await;
}

#[tokio::test]
async fn a_run_that_ends_in_failure_when_it_is_stopped_is_written_down() {
    join_all(Bench::all().await.into_iter().map(async |bench| {
        let runner = Runner::endless();
        let scheduler = bench.start(&runner);
        bench.put(soon("stopped")).await;
        runner.eventually_ran(1).await;
        scheduler.close().await;
        let history = bench.history().await;
        assert_eq!((history[0].state, &*history[0].reason), (OccurrenceState::Failed, "stopped"));
    }))
    .await;
}
