//! The order of a stop, with scripted signals and a paused clock. Whole processes are in
//! `tests/processes.rs`.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::supervise::{Ended, FailureFormat, Signal, Signals, Supervisor};
use super::*;
use crate::health::{Need, State};

const GRACE: Duration = Duration::from_secs(20);

/// Signals after so many milliseconds from the start, and none after the last.
struct Scripted(mpsc::Receiver<Signal>);

impl Scripted {
    fn at(script: &'static [(u64, Signal)]) -> Self {
        let (send, receive) = mpsc::channel(1);
        let start = Instant::now();
        tokio_util::task::TaskTracker::new().spawn(async move {
            for (milliseconds, signal) in script {
                tokio::time::sleep_until(start + Duration::from_millis(*milliseconds)).await;
                if send.send(*signal).await.is_err() {
                    return;
                }
            }
            send.closed().await;
        });
        Self(receive)
    }
}

impl Signals for Scripted {
    async fn next(&mut self) -> Signal {
        match self.0.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// What happened and when, in milliseconds from the start.
#[derive(Clone)]
struct Diary {
    start: Instant,
    lines: Arc<Mutex<Vec<(u128, &'static str)>>>,
}

impl Diary {
    fn new() -> Self {
        Self { start: Instant::now(), lines: Arc::default() }
    }

    fn write(&self, line: &'static str) {
        self.lines.lock().push((self.start.elapsed().as_millis(), line));
    }

    fn lines(&self) -> Vec<(u128, &'static str)> {
        self.lines.lock().clone()
    }
}

fn context() -> Context {
    let identity = Identity { program: "test", version: "0", instance: "1".to_owned(), name: None };
    let (shutdown, health) = (Shutdown::new(), Health::new());
    health.component("bus", Need::Required).set(State::Up);
    Context { identity, shutdown, health, health_address: None, quiet: false }
}

async fn supervised(
    context: &Context,
    script: &'static [(u64, Signal)],
    work: impl Future<Output = Result<Exit, BoxError>> + Send + 'static,
) -> Ended {
    Supervisor::new(Box::pin(work), Scripted::at(script), context, GRACE).run().await
}

#[tokio::test(start_paused = true)]
async fn a_stop_goes_from_not_ready_to_the_last_task() {
    let (context, diary) = (context(), Diary::new());
    let inner = (context.clone(), diary.clone());
    let ended = supervised(&context, &[(1000, Signal::Terminate)], async move {
        let (context, diary) = inner;
        let call = (diary.clone(), context.shutdown.overdue().clone());
        context.shutdown.tasks().spawn(async move {
            sleep(Duration::from_secs(5)).await;
            assert!(!call.1.is_cancelled());
            call.0.write("the running call ended");
        });
        assert!(context.health.is_ready());
        context.shutdown.requested().cancelled().await;
        assert!(!context.health.is_ready(), "not ready comes before the stop");
        diary.write("the work was asked to stop");
        Ok(Exit::SUCCESS)
    });
    let ended = ended.await;
    diary.write("the process may end");
    assert_eq!(
        diary.lines(),
        [
            (1000, "the work was asked to stop"),
            (5000, "the running call ended"),
            (5000, "the process may end"),
        ]
    );
    assert!(matches!(ended, Ended::Returned(Exit::SUCCESS, Some(Signal::Terminate))), "{ended:?}");
    assert_eq!(ended.exit(Role::Service, FailureFormat::Text), Exit::SUCCESS);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_by_itself_stops_its_tasks() {
    let context = context();
    let inner = context.clone();
    let ended = supervised(&context, &[], async move {
        let requested = inner.shutdown.requested().clone();
        inner.shutdown.tasks().spawn(async move { requested.cancelled().await });
        Ok(Exit(7))
    });
    assert_eq!(ended.await.exit(Role::Command, FailureFormat::Text), Exit(7));
}

#[tokio::test(start_paused = true)]
async fn work_over_its_grace_is_told_and_then_left() {
    let (context, diary) = (context(), Diary::new());
    let inner = (context.clone(), diary.clone());
    let ended = supervised(&context, &[(0, Signal::Terminate)], async move {
        let (context, diary) = inner;
        context.shutdown.tasks().spawn(std::future::pending::<()>());
        context.shutdown.overdue().cancelled().await;
        diary.write("the work gave the rest back");
        Ok(Exit::SUCCESS)
    });
    let ended = ended.await;
    diary.write("the process may end");
    assert_eq!(
        diary.lines(),
        [(20_000, "the work gave the rest back"), (22_000, "the process may end")]
    );
    assert_eq!(ended.exit(Role::Service, FailureFormat::Text), Exit::FAILURE);
}

#[tokio::test(start_paused = true)]
async fn a_second_signal_ends_it_at_once() {
    let script = &[(0, Signal::Terminate), (3000, Signal::Interrupt)];
    let check = async |diary: &Diary, expected: u128| {
        let ended = supervised(&context(), script, std::future::pending()).await;
        assert!(ended.is_forced());
        assert_eq!(diary.start.elapsed().as_millis(), expected);
        assert_eq!(ended.exit(Role::Service, FailureFormat::Text), Exit(130));
    };
    check(&Diary::new(), 3000).await;
}

#[tokio::test(start_paused = true)]
async fn a_command_tells_its_signal_by_the_exit_code() {
    let check = async |script: &'static [(u64, Signal)], exit: Exit| {
        let context = context();
        let requested = context.shutdown.requested().clone();
        let ended = supervised(&context, script, async move {
            requested.cancelled().await;
            Ok(Exit::SUCCESS)
        });
        assert_eq!(ended.await.exit(Role::Command, FailureFormat::Text), exit);
    };
    check(&[(5, Signal::Interrupt)], Exit(130)).await;
    check(&[(5, Signal::Terminate)], Exit(143)).await;

    let context = context();
    let requested = context.shutdown.requested().clone();
    let ended = supervised(&context, &[(5, Signal::Interrupt)], async move {
        requested.cancelled().await;
        Err("the call was cancelled".into())
    });
    assert_eq!(ended.await.exit(Role::Command, FailureFormat::Text), Exit(130));
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_a_failure_and_stops_the_rest() {
    let context = context();
    let requested = context.shutdown.requested().clone();
    context.shutdown.tasks().spawn(async move { requested.cancelled().await });
    let ended = supervised(&context, &[], async { panic!("out of cheese") }).await;
    assert!(matches!(&ended, Ended::Failed(error, None) if error.to_string().contains("panicked")));
    assert_eq!(ended.exit(Role::Service, FailureFormat::Text), Exit::FAILURE);
}
