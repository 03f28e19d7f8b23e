//! Telling ends: once, however the port behaves.

use std::sync::atomic::Ordering;
use std::time::Duration;

use toolbus_testkit::eventually;

use crate::support::*;

#[tokio::test]
async fn what_cannot_be_taken_is_told_again() {
    for setup in Setup::all(Work::echo).await {
        for hearing in [Hearing::Later(3), Hearing::Panics(2)] {
            let host = setup.hearing(hearing).start();
            let id = host.spawn("x").await;
            assert_eq!(host.end_of(&id).await.0, "did x");
            host.tells_no_more_than(1).await;
            host.close(Duration::from_secs(1)).await;
        }
    }
}

/// Telling takes longer than a claim: no other process tells it meanwhile, and nobody tells it
/// again.
#[tokio::test]
async fn what_takes_long_to_tell_is_told_once() {
    for setup in Setup::all(Work::echo).await {
        let slow = setup.hearing(Hearing::Held);
        let (host, other) = (slow.start(), slow.start());
        let id = host.spawn("x").await;
        let claimed = "SELECT COUNT(*) FROM subagents WHERE telling_until_ms > 0";
        host.eventually_counts(claimed, 1).await;
        host.eventually_renewed("SELECT telling_until_ms FROM subagents").await;
        host.listener.release.cancel();
        assert_eq!(host.end_of(&id).await.0, "did x");
        host.eventually_counts("SELECT COUNT(*) FROM subagents WHERE told_ms IS NULL", 0).await;
        host.tells_no_more_than(1).await;
        assert_eq!(host.listener.tellings.load(Ordering::SeqCst), 1);
        assert_eq!(other.listener.tellings.load(Ordering::SeqCst), 0);
    }
}

/// A port that never answers keeps nobody else from being told, and is asked again.
#[tokio::test]
async fn a_port_that_never_answers_is_given_up_and_asked_again() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| config.tell_timeout = Duration::from_millis(100));
        let host = setup.hearing(Hearing::Hangs).start();
        let id = host.spawn("x").await;
        eventually(PATIENCE, async || {
            let tellings = host.listener.tellings.load(Ordering::SeqCst);
            if tellings >= 2 { Ok(()) } else { Err(tellings) }
        })
        .await;
        *host.listener.hearing.lock() = Hearing::Takes;
        assert_eq!(host.end_of(&id).await.0, "did x");
        assert_eq!(host.listener.ends().len(), 1);
    }
}

/// Of two processes at one store, the one that has it tells.
#[tokio::test]
async fn two_processes_tell_each_end_once() {
    for setup in Setup::all(Work::echo).await {
        let (host, idle) = (setup.start(), setup.start());
        for number in 0..8 {
            let id = host.spawn(&number.to_string()).await;
            assert_eq!(host.end_of(&id).await.0, format!("did {number}"));
        }
        host.eventually_counts("SELECT COUNT(*) FROM subagents WHERE told_ms IS NULL", 0).await;
        assert_eq!((host.listener.ends().len(), idle.listener.ends().len()), (8, 0));
    }
}

#[tokio::test]
async fn an_end_that_cannot_be_read_is_left_out() {
    for setup in Setup::all(Work::echo).await {
        let setup = setup.configured(|config| config.handover_grace = A_WHILE);
        let quiet = setup.start_without_runner();
        quiet.spawn("x").await;
        quiet.eventually_counts("SELECT COUNT(*) FROM subagents WHERE state = 'ended'", 1).await;
        quiet.sabotage("UPDATE subagents SET outcome = '{', holder = 'gone'").await;
        let host = setup.start();
        host.eventually_counts("SELECT COUNT(*) FROM subagents WHERE told_ms IS NULL", 0).await;
        assert_eq!(host.listener.ends(), []);
    }
}
