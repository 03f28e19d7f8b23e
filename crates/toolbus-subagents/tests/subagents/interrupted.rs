//! Processes that are killed: what they had begun is gone on with, and counts once.
//!
//! A process of these tests has a runtime of its own. It is killed by ending that: whatever it was
//! doing stays as it is, and its connections end without a word.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use toolbus_subagents::{NewSubagent, Priority, SubagentEnd};
use toolbus_testkit::{eventually, quiet_for};
use toolbus_tools::budget::{TurnUsage, Usage};
use toolbus_tools::id::{CallId, ToolId};

use crate::support::*;

/// A process that can be killed.
struct Process {
    host: Option<Host>,
    runtime: Option<Runtime>,
}

impl Process {
    async fn start(setup: &Setup) -> Self {
        let setup = setup.clone();
        let started = move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
            let host = runtime.block_on(async { setup.start() });
            Self { host: Some(host), runtime: Some(runtime) }
        };
        // A runtime cannot block within another.
        tokio::task::spawn_blocking(started).await.expect("it starts")
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("it runs")
    }

    async fn spawn(&self, description: &str) -> String {
        self.spawn_new(new_subagent(description)).await
    }

    async fn spawn_new(&self, new: NewSubagent) -> String {
        let handle = self.runtime.as_ref().expect("it runs").handle().clone();
        let subagents = self.host().subagents.clone();
        let spawning = async move {
            subagents.spawn(&scope(), &CallId::random(), new).await.expect("it is spawned")
        };
        tokio::task::spawn_blocking(move || handle.block_on(spawning)).await.expect("it is done")
    }

    /// Ends it without a word.
    async fn kill(mut self) {
        let (host, runtime) = (self.host.take(), self.runtime.take());
        let killed = move || {
            runtime.expect("it runs").shutdown_timeout(Duration::from_secs(2));
            // Nothing that it holds may say goodbye before that.
            drop(host);
        };
        tokio::task::spawn_blocking(killed).await.expect("it is killed");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let (host, runtime) = (self.host.take(), self.runtime.take());
        if let Some(runtime) = runtime {
            let _ = thread::spawn(move || {
                runtime.shutdown_timeout(Duration::from_secs(2));
                drop(host);
            })
            .join();
        }
    }
}

/// The row is there, and the work was never begun.
#[tokio::test]
async fn one_that_was_killed_before_it_ran_runs_elsewhere() {
    for setup in Setup::all(Work::deaf).await {
        let killed = setup.start();
        let id = killed.spawn("x").await;
        killed.work.eventually_ran(1).await;
        killed.close(Duration::ZERO).await;
        let next = setup.working(&Work::echo()).start_without_runner();
        // As it was written down, by a process that wrote nothing more.
        next.sabotage("UPDATE subagents SET holder = 'gone', begun = 1, lease_until_ms = 1").await;
        let next = setup.working(&Work::echo()).start();
        assert_eq!(next.end_of(&id).await, ("did x".to_owned(), None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_process_is_killed_goes_on_elsewhere() {
    for setup in Setup::all(Work::interruptible).await {
        let second = Work::interruptible();
        let killed = Process::start(&setup.working(&Work::interruptible())).await;
        let new = NewSubagent { context: Some("for May".to_owned()), ..new_subagent("x") };
        let id = killed.spawn_new(new).await;
        let first = Arc::clone(&killed.host().work);
        first.eventually_ran(1).await;
        let other = setup.working(&second).start();
        // It is the other's for as long as that lives.
        other.eventually_renewed("SELECT lease_until_ms FROM subagents").await;
        assert_eq!(second.count(), 0);

        killed.kill().await;
        assert_eq!(other.end_of(&id).await, ("done after all".to_owned(), None));
        let run = second.ran.lock()[0].clone();
        assert_eq!((run.context.as_deref(), run.is_resumed), (Some("for May"), true));
        let scope = &run.scope;
        assert_eq!((scope.depth, &run.owner), (1, &owner()));
        assert_eq!(scope.doors, scope_of("alice", "s1").doors);
        // What its caller does not see, it does not see either.
        assert!(!scope.view.sees(&ToolId::of("mcp:secret", "read")));
        assert!(!scope.view.sees(&ToolId::of("subagent", "spawn_subagent")));
        assert!(scope.view.sees(&ToolId::of("inside:subagent", "report_progress")));
        assert!(run.timeout < Duration::from_secs(600) && run.timeout > Duration::from_secs(500));
        other.tells_no_more_than(1).await;
        assert_eq!((first.count(), second.count(), other.listener.ends().len()), (1, 1, 1));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_process_is_killed_before_telling_is_told_elsewhere() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let killed = Process::start(&setup.hearing(Hearing::Later(usize::MAX))).await;
        let id = killed.spawn("x").await;
        let listener = Arc::clone(&killed.host().listener);
        eventually(PATIENCE, async || {
            if listener.tellings.load(Ordering::SeqCst) > 0 { Ok(()) } else { Err(()) }
        })
        .await;
        killed.kill().await;
        let next = setup.start();
        assert_eq!(next.end_of(&id).await.0, "did x");
        next.tells_no_more_than(1).await;
        assert_eq!((next.listener.ends().len(), next.work.count()), (1, 1));
    }
}

/// It is told again under the same id, for nobody knows whether it was taken.
#[tokio::test(flavor = "multi_thread")]
async fn an_end_whose_process_is_killed_while_telling_is_told_elsewhere() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let killed = Process::start(&setup.hearing(Hearing::Hangs)).await;
        let id = killed.spawn("x").await;
        let listener = Arc::clone(&killed.host().listener);
        eventually(PATIENCE, async || {
            if listener.tellings.load(Ordering::SeqCst) == 1 { Ok(()) } else { Err(()) }
        })
        .await;
        let next = setup.start();
        // It is kept from others for as long as it is told, however long that takes.
        next.eventually_renewed("SELECT telling_until_ms FROM subagents").await;
        assert_eq!(next.listener.tellings.load(Ordering::SeqCst), 0);
        killed.kill().await;
        assert_eq!(next.end_of(&id).await.0, "did x");
        assert_eq!(next.listener.tellings.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_lost_three_times_fails() {
    for setup in Setup::all(Work::deaf).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let first = Process::start(&setup).await;
        let id = first.spawn("x").await;
        let mut killed = first;
        for number in 1..=3 {
            setup.work.eventually_ran(number).await;
            killed.kill().await;
            killed = Process::start(&setup).await;
        }
        let lost = Some("it was begun 3 times, and lost each time".to_owned());
        assert_eq!(killed.host().end_of(&id).await, (String::new(), lost));
        assert_eq!(setup.work.count(), 3);
    }
}

/// A process that stops leaves what it has to another at once, and that is no loss.
#[tokio::test]
async fn one_whose_process_stops_goes_on_elsewhere() {
    for setup in Setup::all(Work::interruptible).await {
        let setup = setup.configured(|config| config.lease_ttl = Duration::from_secs(60));
        let mut stopping = setup.working(&Work::deaf()).start();
        let id = stopping.spawn("x").await;
        stopping.work.eventually_ran(1).await;
        for _ in 0..4 {
            let next = setup.working(&Work::deaf()).start();
            stopping.close(Duration::from_millis(50)).await;
            next.work.eventually_ran(1).await;
            stopping = next;
        }
        let last = setup.working(&Work::interruptible()).start();
        stopping.close(Duration::from_millis(50)).await;
        assert_eq!(last.end_of(&id).await.0, "done after all");
    }
}

#[tokio::test]
async fn a_process_that_stops_spawns_nothing_more_and_waits_for_what_ends() {
    let go_on = Arc::new(Notify::new());
    let work = || {
        let go_on = Arc::clone(&go_on);
        Work::new(move |_, _| {
            let go_on = Arc::clone(&go_on);
            async move {
                go_on.notified().await;
                done("in time")
            }
            .boxed()
        })
    };
    for setup in Setup::all(work).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let host = setup.start();
        let id = host.spawn("x").await;
        let (subagents, listener) = (host.subagents.clone(), Arc::clone(&host.listener));
        host.work.eventually_ran(1).await;
        // It ends only after it was seen that nothing more is spawned.
        let refused = async {
            let refused = eventually(PATIENCE, async || {
                let new = new_subagent("y");
                match subagents.spawn(&scope(), &CallId::random(), new).await {
                    Err(error) => Ok(error.to_string()),
                    Ok(id) => Err(id),
                }
            })
            .await;
            // A look that is under way may still tell an end.
            quiet_for(A_WHILE, async || if listener.ends().is_empty() { Ok(()) } else { Err(()) })
                .await;
            go_on.notify_one();
            refused
        };
        let ((), refused) = tokio::join!(host.close(Duration::from_secs(5)), refused);
        assert_eq!(refused, "the agent is stopping: nothing was spawned");
        // Nobody tells any more; the next process does.
        assert_eq!(listener.ends(), []);
        let next = setup.start();
        assert_eq!(next.end_of(&id).await.0, "in time");
    }
}

#[tokio::test]
async fn cancelling_works_from_another_process() {
    for setup in Setup::all(Work::endless).await {
        let (here, there) = (setup.start(), setup.start());
        let id = here.spawn("x").await;
        here.work.eventually_ran(1).await;
        assert!(there.subagents.cancel(&scope(), &id).await.unwrap());
        assert_eq!(here.end_of(&id).await.1.as_deref(), Some("it was cancelled"));
    }
}

/// Cancelled while nobody has it: it is not begun again.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_cancelled_after_a_kill_is_not_gone_on_with() {
    for setup in Setup::all(Work::echo).await {
        let killed = Process::start(&setup.working(&Work::deaf())).await;
        let id = killed.spawn("x").await;
        killed.host().work.eventually_ran(1).await;
        killed.kill().await;
        let next = setup.working(&Work::echo()).start();
        assert!(next.subagents.cancel(&scope(), &id).await.unwrap());
        assert_eq!(next.end_of(&id).await.1.as_deref(), Some("it was cancelled"));
        assert_eq!(next.work.count(), 0);
        // Once it has ended, there is nothing to cancel.
        assert!(!next.subagents.cancel(&scope(), &id).await.unwrap());
    }
}

/// Nobody was there when its time was over.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_after_a_kill_is_told() {
    for setup in Setup::all(Work::deaf).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let killed = Process::start(&setup).await;
        let timeout = Some(Duration::from_millis(60_000));
        let id = killed.spawn_new(NewSubagent { timeout, ..new_subagent("x") }).await;
        killed.kill().await;
        let late = setup.start_without_runner();
        late.sabotage("UPDATE subagents SET created_ms = created_ms - 61000").await;
        late.sabotage("UPDATE subagents SET deadline_ms = deadline_ms - 61000").await;
        let next = setup.working(&Work::deaf()).start();
        assert_eq!(next.end_of(&id).await.1.as_deref(), Some("it took longer than 60 s"));
        assert_eq!(next.work.count(), 0);
    }
}

/// One that is paused is paused for whoever takes it up, and has no slot.
#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_paused_stays_so() {
    for setup in Setup::all(Work::endless).await {
        let killed = Process::start(&setup.working(&Work::endless())).await;
        killed.spawn("a").await;
        for name in ["b", "c", "d"] {
            let new = NewSubagent { priority: Priority::High, ..new_subagent(name) };
            killed.spawn_new(new).await;
        }
        killed.host().work.eventually_ran(4).await;
        killed.kill().await;
        let next = setup.working(&Work::endless()).start();
        next.work.eventually_ran(4).await;
        eventually(PATIENCE, async || {
            let pauses = next.work.pauses();
            if pauses == [("a".to_owned(), true)] { Ok(()) } else { Err(pauses) }
        })
        .await;
        assert!(next.spawn_with("e", Priority::High).await.is_err());
    }
}

/// What it has spent is counted on, as it was when its lease was renewed last.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_spent_is_not_spent_again() {
    let spending = || {
        Work::new(|run, _| {
            async move {
                let used = TurnUsage { turns: 1, tokens: 60, cost_micro_usd: 7 };
                run.scope.budget.add_usage(used).expect("there is no limit");
                run.scope.budget.charge_call().expect("there is no limit");
                std::future::pending().await
            }
            .boxed()
        })
    };
    for setup in Setup::all(spending).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let mut process = Process::start(&setup.working(&spending())).await;
        process.spawn("x").await;
        for number in 1..=2 {
            process.host().work.eventually_ran(1).await;
            let counted = match number {
                1 => "SELECT COUNT(*) FROM subagents WHERE spent_tokens = 60 AND spent_calls = 1",
                _ => "SELECT COUNT(*) FROM subagents WHERE spent_tokens = 120 AND spent_calls = 2",
            };
            let looking = setup.start_without_runner();
            looking.eventually_counts(counted, 1).await;
            process.kill().await;
            process = Process::start(&setup.working(&spending())).await;
        }
        process.host().work.eventually_ran(1).await;
        let run = process.host().work.ran.lock()[0].clone();
        // The third has spent its own, too.
        let turns = TurnUsage { turns: 3, tokens: 180, cost_micro_usd: 21 };
        eventually(PATIENCE, async || match run.scope.budget.usage() {
            usage if usage == (Usage { calls: 3, turns }) => Ok(()),
            usage => Err(usage),
        })
        .await;
    }
}

/// A row without a lineage says of nothing what it may see, so nobody does its work.
#[tokio::test]
async fn one_whose_lineage_cannot_be_read_fails() {
    for setup in Setup::all(Work::endless).await {
        let killed = setup.start_without_runner();
        let id = killed.spawn("x").await;
        killed.close(Duration::ZERO).await;
        let next = setup.working(&Work::echo()).start_without_runner();
        next.sabotage("UPDATE subagents SET holder = 'gone', lease_until_ms = 1, lineage = '{}'")
            .await;
        let next = setup.working(&Work::echo()).start();
        let (text, error) = next.end_of(&id).await;
        assert_eq!(
            (text.as_str(), error.as_deref()),
            ("", Some("what it inherits cannot be read"))
        );
        assert_eq!((next.work.count(), next.listener.ends()[0].lineage.clone()), (0, None));
    }
}

/// Somebody else may have ended it: a process that comes back late writes nothing over that.
#[tokio::test]
async fn one_that_another_has_taken_over_is_let_go_of() {
    let work = || {
        Work::new(|_, stop| {
            async move {
                stop.cancelled().await;
                SubagentEnd::Completed { text: "too late".to_owned() }
            }
            .boxed()
        })
    };
    for setup in Setup::all(work).await {
        let host = setup.start();
        host.spawn("x").await;
        host.work.eventually_ran(1).await;
        host.sabotage("UPDATE subagents SET holder = 'other', lease_until_ms = 9000000000000")
            .await;
        eventually(PATIENCE, async || match host.work.at_a_time.load(Ordering::SeqCst) {
            0 => Ok(()),
            many => Err(many),
        })
        .await;
        host.tells_no_more_than(0).await;
        assert_eq!(host.count("SELECT COUNT(*) FROM subagents WHERE state = 'running'").await, 1);
        host.sabotage("DELETE FROM subagents").await;
    }
}

/// It ends before it has seen that another process has it.
#[tokio::test]
async fn an_end_that_comes_too_late_is_not_written() {
    let go_on = Arc::new(Notify::new());
    let work = || {
        let go_on = Arc::clone(&go_on);
        Work::new(move |_, _| {
            let go_on = Arc::clone(&go_on);
            async move {
                go_on.notified().await;
                done("too late")
            }
            .boxed()
        })
    };
    for setup in Setup::all(work).await {
        let setup = setup.configured(|config| config.lease_ttl = Duration::from_secs(60));
        let host = setup.start();
        host.spawn("x").await;
        host.work.eventually_ran(1).await;
        // What it looks at once when it begins, it has looked at.
        quiet_for(A_WHILE, async || match host.work.at_a_time.load(Ordering::SeqCst) {
            1 => Ok(()),
            many => Err(many),
        })
        .await;
        host.sabotage("UPDATE subagents SET holder = 'other', lease_until_ms = 9000000000000")
            .await;
        go_on.notify_one();
        host.tells_no_more_than(0).await;
        assert_eq!(host.work.at_a_time.load(Ordering::SeqCst), 0);
        assert_eq!(host.count("SELECT COUNT(*) FROM subagents WHERE state = 'running'").await, 1);
    }
}
