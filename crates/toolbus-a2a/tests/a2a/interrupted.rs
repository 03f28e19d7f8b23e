//! Processes that are killed: what they had begun is gone on with, and counts once.
//!
//! A process of these tests has a runtime of its own. It is killed by ending that: whatever it was
//! doing stays as it is, and its connections end without a word.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::runtime::Runtime;
use toolbus_a2a::TaskChange;
use toolbus_testkit::eventually;

use crate::support::*;

/// A process that can be killed.
pub(crate) struct Process {
    host: Option<Host>,
    runtime: Option<Runtime>,
}

impl Process {
    pub(crate) async fn start(setup: &Setup) -> Self {
        let setup = setup.clone();
        let started = move || {
            let mut runtime = tokio::runtime::Builder::new_multi_thread();
            let runtime = runtime.worker_threads(1).enable_all().build().expect("a runtime");
            let host = runtime.block_on(setup.start());
            Self { host: Some(host), runtime: Some(runtime) }
        };
        // A runtime cannot block within another.
        tokio::task::spawn_blocking(started).await.expect("it starts")
    }

    pub(crate) fn host(&self) -> &Host {
        self.host.as_ref().expect("it runs")
    }

    /// Does something in the process.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let handle = self.runtime.as_ref().expect("it runs").handle().clone();
        tokio::task::spawn_blocking(move || handle.block_on(work)).await.expect("it is done")
    }

    /// Ends it without a word.
    pub(crate) async fn kill(mut self) {
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

/// Every broker that there is here.
async fn brokers() -> Vec<Arc<Broker>> {
    let brokers = [Some(Broker::memory()), Broker::rabbit().await];
    brokers.into_iter().flatten().collect()
}

/// Work that hangs the first time, and is done when it is gone on with.
fn interruptible() -> Arc<Work> {
    Work::new(|task, _| {
        async move {
            match task.is_resumed {
                true => done("done after all"),
                false => std::future::pending().await,
            }
        }
        .boxed()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_worker_is_killed_is_done_by_another() {
    for broker in brokers().await {
        for [ours, theirs] in places().await {
            let (first, second) = (interruptible(), interruptible());
            let researcher = Setup::new(&broker, &theirs, "ResearchAgent");
            let killed = Process::start(&researcher.clone().working(&first)).await;
            let asker = Setup::new(&broker, &ours, "RockBot").start().await;
            let id = asker.ask("ResearchAgent", "x").await;
            eventually(PATIENCE, async || if first.count() == 1 { Ok(()) } else { Err(()) }).await;

            let other = researcher.working(&second).start().await;
            killed.kill().await;
            assert_eq!(asker.answer_to(&id).await, "done after all");
            asker.tells_no_more_than(1).await;
            assert_eq!((first.count(), second.count()), (1, 1));
            other.close().await;
            asker.close().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_for_a_caller_that_is_killed_is_told_by_the_next_process() {
    for broker in brokers().await {
        for [ours, theirs] in places().await {
            let (work, release) = Work::until_released("late");
            let researcher =
                Setup::new(&broker, &theirs, "ResearchAgent").working(&work).start().await;
            let asker = Setup::new(&broker, &ours, "RockBot").handing_over_soon();
            let killed = Process::start(&asker).await;
            let tasks = killed.host().tasks.clone();
            let ask = async move {
                let task = new_task("ResearchAgent", "x");
                tasks.invoke(&scope(&agent("RockBot")), task).await.expect("it is sent").task_id
            };
            let id = killed.run(ask).await;
            eventually(PATIENCE, async || if work.count() == 1 { Ok(()) } else { Err(()) }).await;
            killed.kill().await;

            // Its queue is there: the result comes while nobody is.
            release.cancel();
            eventually(PATIENCE, async || {
                let answered = "SELECT COUNT(*) FROM a2a_tasks WHERE answered_ms IS NOT NULL";
                if researcher.count(answered).await == 1 { Ok(()) } else { Err(()) }
            })
            .await;
            let next = asker.start().await;
            assert_eq!(next.answer_to(&id).await, "late");
            next.tells_no_more_than(1).await;
            assert_eq!(next.count("SELECT COUNT(*) FROM a2a_asked").await, 0);
            next.close().await;
        }
    }
}

/// Nobody was there when the time was over.
#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_is_told_by_the_next_process() {
    for [ours, _] in places().await {
        let broker = Broker::memory();
        let _silent = Stranger::hearing(&broker, "agent.task.#").await;
        let asker = Setup::new(&broker, &ours, "RockBot").handing_over_soon();
        let killed = Process::start(&asker).await;
        let tasks = killed.host().tasks.clone();
        let ask = async move {
            let timeout = Some(Duration::from_secs(60));
            let task = toolbus_a2a::NewTask { timeout, ..new_task("ResearchAgent", "x") };
            tasks.invoke(&scope(&agent("RockBot")), task).await.expect("it is sent").task_id
        };
        let id = killed.run(ask).await;
        killed.kill().await;
        let pass_time = "UPDATE a2a_asked SET created_ms = created_ms - 61000,
            deadline_ms = deadline_ms - 61000";
        asker.sabotage(pass_time).await;

        let next = asker.start().await;
        assert_eq!(next.end_of(&id).await.what, TaskChange::TimedOut { seconds: 60 });
    }
}

/// Of two processes at one store, the one that has asked tells, whoever hears the answer.
#[tokio::test]
async fn two_processes_of_an_agent_tell_each_end_once() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let work = Work::echo();
        let researcher = Setup::new(&broker, &theirs, "ResearchAgent").working(&work);
        let (one, other) = (researcher.start().await, researcher.start().await);
        let asker = Setup::new(&broker, &ours, "RockBot");
        let (asking, idle) = (asker.start().await, asker.start().await);
        for number in 0..8 {
            let id = asking.ask("ResearchAgent", &number.to_string()).await;
            assert_eq!(asking.answer_to(&id).await, format!("research: {number}"));
        }
        assert_eq!(idle.listener.ends(), []);
        assert_eq!(asking.listener.ends().len(), 8);
        assert_eq!(work.count(), 8);
        for host in [one, other, asking, idle] {
            host.close().await;
        }
    }
}

/// A worker that stops leaves its tasks to another at once, and not after its lease.
#[tokio::test]
async fn a_task_whose_worker_stops_is_done_by_another() {
    for [ours, theirs] in places().await {
        let broker = Broker::memory();
        let (first, second) = (interruptible(), interruptible());
        let researcher = Setup::new(&broker, &theirs, "ResearchAgent");
        let mut stopping = researcher.clone().working(&first).start().await;
        let asker = Setup::new(&broker, &ours, "RockBot").start().await;
        let id = asker.ask("ResearchAgent", "x").await;
        eventually(PATIENCE, async || if first.count() == 1 { Ok(()) } else { Err(()) }).await;
        let _other = researcher.working(&second).start().await;
        stopping.close_parts(Duration::from_millis(50)).await;
        assert_eq!(asker.answer_to(&id).await, "done after all");
        assert_eq!((first.count(), second.count()), (1, 1));
    }
}
