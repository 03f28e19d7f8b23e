//! Agents that want more than there is.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Deadline;

use super::*;
use crate::files::Produced;
use crate::runner::{Captured, Ending};

const SHARES: Shares = Shares { running: 3, running_of_one: 2, waiting: 6, waiting_of_one: 4 };

/// Runs each script until it may end, and writes down whose it was.
struct Held {
    started: watch::Sender<Vec<String>>,
    may_end: watch::Sender<usize>,
}

impl Runner for Arc<Held> {
    fn name(&self) -> &'static str {
        "held"
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        let mut number = 0;
        self.started.send_modify(|started| {
            started.push(script.source.clone());
            number = started.len();
        });

        let mut may_end = self.may_end.subscribe();

        Box::pin(async move {
            let ended = may_end.wait_for(|count| *count >= number);
            tokio::select! {
                ended = ended => drop(ended),
                () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            }

            Ok(Outcome {
                output: Captured { text: script.source, truncated: false },
                stdout: Captured::default(),
                stderr: Captured::default(),
                ending: Ending::Exited(0),
                elapsed: Duration::ZERO,
                usage: None,
                produced: Produced::default(),
            })
        })
    }
}

fn stage() -> (Arc<Held>, FairRunner) {
    let held =
        Arc::new(Held { started: watch::Sender::default(), may_end: watch::Sender::default() });
    (Arc::clone(&held), FairRunner::new(Arc::new(held), SHARES))
}

fn of(agent: &str, number: usize) -> (Script, Run) {
    let script = Script {
        source: format!("{agent}{number}"),
        input: String::new(),
        timeout: Duration::from_secs(1),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    };
    (script, Run { source: agent.to_owned(), ..Run::alone("call_1") })
}

async fn settle() {
    // Paused time moves on when nobody has anything to do.
    tokio::time::sleep(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn one_agent_does_not_keep_another_waiting() {
    let (held, turns) = stage();
    let run = |agent, number| {
        let (script, run) = of(agent, number);
        turns.run(script, run)
    };
    let greedy = join_all((0..6).map(|number| run("a", number)));

    let modest = async {
        settle().await;
        assert_eq!(
            *held.started.borrow(),
            ["a0", "a1"],
            "its share, though there is a third place"
        );

        tokio::join!(run("b", 0), run("b", 1), async {
            settle().await;
            assert_eq!(*held.started.borrow(), ["a0", "a1", "b0"]);
            // One of a's ends: b was next in line, whatever else a has waiting.
            held.may_end.send_replace(1);
            settle().await;
            assert_eq!(*held.started.borrow(), ["a0", "a1", "b0", "b1"]);
            held.may_end.send_replace(100);
        })
    };

    let (greedy, (first, second, ())) = tokio::join!(greedy, modest);

    assert!(greedy.iter().chain([&first, &second]).all(Result::is_ok), "{greedy:?}");
    assert_eq!(held.started.borrow().len(), 8);

    let agents = turns.agents.lock();
    assert!(agents.by_name.is_empty() && agents.scripts == 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_over_a_bound_is_busy_at_once() {
    let (held, turns) = stage();
    let run = |agent, number| {
        let (script, run) = of(agent, number);
        turns.run(script, run)
    };
    let refused = |outcome: Result<Outcome, Error>, text: &str| {
        assert!(matches!(&outcome, Err(Error::Busy(why)) if why.contains(text)), "{outcome:?}");
    };
    let waiting = join_all((0..6).map(|number| run("a", number)));
    let others = join_all((0..3).map(|number| run("b", number)));

    let asking = async {
        settle().await;
        refused(run("a", 7).await, "2 scripts of this agent run and 4 wait");
        refused(run("c", 0).await, "3 scripts run and 6 wait");
        held.may_end.send_replace(100);
    };

    let (waited, others, ()) = tokio::join!(waiting, others, asking);

    assert!(waited.iter().chain(&others).all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_waiting_leaves_nothing_behind() {
    let (held, turns) = stage();
    let cancelled = CancellationToken::new();
    let (script, run) = of("a", 2);
    let waiting = turns.run(script, Run { cancelled: cancelled.clone(), ..run });
    let running = join_all((0..2).map(|number| {
        let (script, run) = of("a", number);
        turns.run(script, run)
    }));

    let giving_up = async {
        settle().await;
        cancelled.cancel();
        settle().await;
        held.may_end.send_replace(100);
    };

    let (ran, gave_up, ()) = tokio::join!(running, waiting, giving_up);

    assert!(ran.iter().all(Result::is_ok));
    assert_eq!(gave_up, Err(Error::Cancelled));
    assert_eq!(*held.started.borrow(), ["a0", "a1"]);

    assert_eq!(turns.agents.lock().scripts, 0);
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_when_the_queue_closes_are_busy_and_not_started() {
    let (held, turns) = stage();
    let run = |number| {
        let (script, run) = of("a", number);
        turns.run(script, run)
    };
    let running = join_all((0..2).map(run));
    let waiting = join_all((2..5).map(run));

    let closing = async {
        settle().await;
        turns.close_queue_at(Instant::now() + Duration::from_secs(10));
        // One more gets its turn before the end.
        held.may_end.send_replace(1);
        tokio::time::sleep(Duration::from_secs(20)).await;
        held.may_end.send_replace(100);
    };

    let (ran, waited, ()) = tokio::join!(running, waiting, closing);

    assert!(ran.iter().chain(&waited[..1]).all(Result::is_ok), "{ran:?}, {waited:?}");
    for refused in &waited[1..] {
        assert!(matches!(refused, Err(Error::Busy(why)) if why.contains("stops")), "{refused:?}");
    }
    assert_eq!(*held.started.borrow(), ["a0", "a1", "a2"]);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_begun_does_not_wait() {
    let (held, turns) = stage();
    let run = |number, redelivered| {
        let (script, run) = of("a", number);
        turns.run(script, Run { redelivered, ..run })
    };

    // Two run, which is all that one agent may, and one waits; then one comes again.
    let all = join_all([run(1, false), run(2, false), run(3, false), run(4, true)]);
    let looking = async {
        settle().await;
        assert_eq!(*held.started.borrow(), ["a1", "a2", "a4"]);
        held.may_end.send_replace(usize::MAX);
    };
    let (outcomes, ()) = tokio::join!(all, looking);

    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
}

#[tokio::test(start_paused = true)]
async fn what_may_have_begun_is_not_refused() {
    let (held, turns) = stage();
    let most = SHARES.running_of_one + SHARES.waiting_of_one;
    let run = |number, redelivered| {
        let (script, run) = of("a", number);
        turns.run(script, Run { redelivered, ..run })
    };
    let all = join_all((0..most + 1).map(|number| run(number, false)));
    let again = async {
        settle().await;
        held.may_end.send_replace(usize::MAX);
        run(100, true).await
    };

    let (outcomes, again) = tokio::join!(all, again);

    assert!(matches!(outcomes.last(), Some(Err(Error::Busy(_)))), "{outcomes:?}");
    assert!(again.is_ok(), "{again:?}");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_come_before_the_deadline_is_busy_and_leaves_nothing_behind() {
    let (held, turns) = stage();
    let run = |number, budget| {
        let (script, run) = of("a", number);
        let deadline = Deadline::after(Duration::from_secs(budget));
        turns.run(script, Run { deadline, ..run })
    };

    let running = join_all((0..2).map(|number| run(number, 3600)));
    let start = Instant::now();

    let waiting = async {
        let busy = run(2, 11).await;
        assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
        held.may_end.send_replace(100);
        busy
    };

    let (ran, busy) = tokio::join!(running, waiting);

    assert!(ran.iter().all(Result::is_ok));
    assert!(matches!(&busy, Err(Error::Busy(why)) if why.contains("made room")), "{busy:?}");
    assert_eq!(*held.started.borrow(), ["a0", "a1"]);

    assert_eq!(turns.agents.lock().scripts, 0);
}

#[tokio::test(start_paused = true)]
async fn a_script_does_not_start_with_less_than_half_of_its_time() {
    let (held, turns) = stage();
    let run = |number, timeout| {
        let (script, run) = of("a", number);
        let timeout = Duration::from_secs(timeout);
        let deadline = Deadline::after(timeout + Duration::from_secs(10));
        turns.run(Script { timeout, ..script }, Run { deadline, ..run })
    };

    let running = join_all((0..2).map(|number| run(number, 3600)));
    let start = Instant::now();
    let waiting = async {
        let busy = run(2, 60).await;
        let waited = start.elapsed();
        held.may_end.send_replace(100);
        (busy, waited)
    };
    let (_, (busy, waited)) = tokio::join!(running, waiting);

    assert!(matches!(&busy, Err(Error::Busy(why)) if why.contains("made room")), "{busy:?}");
    assert_eq!(waited, Duration::from_secs(40));
}
