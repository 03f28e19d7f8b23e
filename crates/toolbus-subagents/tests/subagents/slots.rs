//! Who may run: three in a session, and who matters more pauses who matters less.

use std::time::Duration;

use toolbus_subagents::{Error, Priority};
use toolbus_testkit::eventually;

use crate::support::*;

async fn eventually_paused(host: &Host, expected: &[(&str, bool)]) {
    let expected: Vec<_> = expected.iter().map(|(id, is)| ((*id).to_owned(), *is)).collect();
    eventually(PATIENCE, async || {
        let pauses = host.work.pauses();
        if pauses == expected { Ok(()) } else { Err(pauses) }
    })
    .await;
}

#[tokio::test]
async fn the_fourth_is_refused_until_one_has_ended() {
    for setup in Setup::all(Work::endless).await {
        let host = setup.start();
        let first = host.spawn("a").await;
        host.spawn("b").await;
        host.spawn("c").await;
        for priority in [Priority::Low, Priority::Normal] {
            let refused = host.spawn_with("d", priority).await;
            assert!(matches!(refused, Err(Error::TooMany { max: 3 })), "{refused:?}");
        }
        // Another session has slots of its own.
        let call = toolbus_tools::id::CallId::random();
        let other = scope_of("alice", "s2");
        host.subagents.spawn(&other, &call, new_subagent("x")).await.unwrap();

        assert!(host.subagents.cancel(&scope(), &first).await.unwrap());
        host.end_of(&first).await;
        host.spawn("d").await;
        assert!(host.spawn_with("e", Priority::Normal).await.is_err());
    }
}

#[tokio::test]
async fn one_that_matters_more_pauses_one_that_matters_less() {
    for setup in Setup::all(Work::endless).await {
        let host = setup.start();
        host.spawn("a").await;
        host.spawn_with("b", Priority::Low).await.unwrap();
        host.spawn("c").await;
        let high = host.spawn_with("d", Priority::High).await.unwrap();
        eventually_paused(&host, &[("b", true)]).await;
        let critical = host.spawn_with("e", Priority::Critical).await.unwrap();
        eventually_paused(&host, &[("b", true), ("c", true)]).await;

        // The one that matters most goes on first.
        assert!(host.subagents.cancel(&scope(), &critical).await.unwrap());
        eventually_paused(&host, &[("b", true), ("c", true), ("c", false)]).await;
        assert!(host.subagents.cancel(&scope(), &high).await.unwrap());
        eventually_paused(&host, &[("b", true), ("c", true), ("c", false), ("b", false)]).await;
        assert!(host.spawn_with("f", Priority::Normal).await.is_err());
    }
}

/// Its time goes on while it is paused, and it can be cancelled.
#[tokio::test]
async fn one_that_is_paused_may_end() {
    for setup in Setup::all(Work::endless).await {
        let host = setup.start();
        let brief = host.spawn_within("a", Duration::from_millis(700)).await;
        host.spawn_with("b", Priority::Critical).await.unwrap();
        host.spawn_with("c", Priority::Critical).await.unwrap();
        host.spawn_with("d", Priority::Critical).await.unwrap();
        eventually_paused(&host, &[("a", true)]).await;
        assert_eq!(host.end_of(&brief).await.1.as_deref(), Some("it took longer than 1 s"));
    }
}

/// A process pauses what another one runs.
#[tokio::test]
async fn slots_are_those_of_all_processes() {
    for setup in Setup::all(Work::endless).await {
        let (here, there) = (setup.start(), setup.working(&Work::endless()).start());
        for name in ["a", "b", "c"] {
            there.spawn(name).await;
        }
        there.work.eventually_ran(3).await;
        let refused = here.spawn_with("d", Priority::Normal).await;
        assert!(matches!(refused, Err(Error::TooMany { max: 3 })), "{refused:?}");
        let high = here.spawn_with("d", Priority::High).await.unwrap();
        eventually_paused(&there, &[("c", true)]).await;
        assert!(there.subagents.cancel(&scope(), &high).await.unwrap());
        eventually_paused(&there, &[("c", true), ("c", false)]).await;
    }
}

/// Of two processes that spawn at once, neither takes what the other has taken.
#[tokio::test(flavor = "multi_thread")]
async fn two_processes_that_spawn_at_once_take_three_slots() {
    for setup in Setup::all(Work::endless).await {
        let (one, other) = (setup.start(), setup.start());
        // Both have opened the store.
        let count = "SELECT COUNT(*) FROM subagents WHERE state = 'running'";
        assert_eq!((one.count(count).await, other.count(count).await), (0, 0));
        let spawning = (0..20).map(|number| {
            let host = if number % 2 == 0 { &one } else { &other };
            host.spawn_with("x", Priority::Normal)
        });
        let spawned = futures_util::future::join_all(spawning).await;
        assert_eq!(spawned.iter().filter(|spawned| spawned.is_ok()).count(), 3, "{spawned:?}");
        assert_eq!(one.count(count).await, 3);
        one.close(Duration::ZERO).await;
        other.close(Duration::ZERO).await;
    }
}
