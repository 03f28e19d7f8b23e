//! What is kept of tasks: names, replacing, cancelling, limits, and whose they are.

use toolbus_schedule::{
    DESCRIPTION_BYTES_MAX, Error, MissedRule, NAME_CHARS_MAX, NewTask, OccurrenceState,
    ScheduleConfig, ScheduleOwner, Scheduled,
};
use toolbus_tools::scope::Proof;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::support::*;

#[tokio::test]
async fn tasks_outlive_a_process() {
    for bench in Bench::all().await {
        *bench.zone.name.lock() = Some("Europe/Berlin".to_owned());
        let missed = Some(MissedRule::RunAll { max: 7 });
        let new = NewTask { missed, run_once: true, ..task("Morning  Mail", "0 9 * * 1-5") };
        let Scheduled::Armed { next_ms } = bench.put(new).await else { panic!("it is armed") };
        bench.store.close().await;

        let tasks = bench.again().schedules.list(&owner("model")).await.unwrap();
        let [kept] = &*tasks else { panic!("{tasks:?}") };
        assert_eq!((&*kept.name, &*kept.cron), ("Morning Mail", "0 9 * * 1-5"));
        assert_eq!((&*kept.description, kept.run_once), ("do Morning  Mail", true));
        assert_eq!(kept.missed, MissedRule::RunAll { max: 7 });
        assert_eq!((&*kept.zone, kept.next_ms), ("Europe/Berlin", Some(next_ms)));
        assert_eq!((kept.last_fired_ms, &kept.owner), (None, &owner("model")));
        assert!((now_ms() - kept.created_ms).abs() < 60_000);
    }
}

#[tokio::test]
async fn a_task_of_the_same_name_is_replaced() {
    for bench in Bench::all().await {
        bench.put(task("Ärger", "0 9 * * *")).await;
        bench.put(task("äRGER", "0 10 * * *")).await;
        let tasks = bench.schedules.list(&owner("model")).await.unwrap();
        let names: Vec<_> = tasks.iter().map(|task| (&*task.name, &*task.cron)).collect();
        assert_eq!(names, [("äRGER", "0 10 * * *")]);

        // One that never fires replaces nothing.
        assert_eq!(bench.put(task("ärger", "0 0 30 2 *")).await, Scheduled::Never);
        assert_eq!(bench.schedules.list(&owner("model")).await.unwrap(), tasks);

        let cancelled = bench.schedules.cancel(&owner("model"), " ÄRGER ").await.unwrap();
        assert_eq!(cancelled.as_deref(), Some("äRGER"));
        assert_eq!(bench.schedules.cancel(&owner("model"), "ärger").await.unwrap(), None);
    }
}

#[tokio::test]
async fn tasks_are_of_a_principal_with_an_agent() {
    for bench in Bench::all().await {
        bench.put(task("mine", "0 9 * * *")).await;
        let other = owner("stranger");
        assert_eq!(bench.schedules.list(&other).await.unwrap(), []);
        assert_eq!(bench.schedules.cancel(&other, "mine").await.unwrap(), None);
        assert!(!bench.schedules.run_now(&other, "mine").await.unwrap());
        bench.schedules.put(&other, task("mine", "0 10 * * *")).await.unwrap();

        let all = bench.schedules.list_all(&AgentName::standard()).await.unwrap();
        let mut owners: Vec<_> = all.iter().map(|task| &*task.owner.principal.name).collect();
        owners.sort_unstable();
        assert_eq!(owners, ["model", "stranger"]);
        let nobody = AgentName::parse("another").unwrap();
        assert_eq!(bench.schedules.list_all(&nobody).await.unwrap(), []);
    }
}

/// A task runs as whoever has scheduled it, however that was known.
#[tokio::test]
async fn every_kind_of_principal_is_kept() {
    for bench in Bench::all().await {
        for proof in [
            Proof::Local,
            Proof::Claimed,
            // Of one that the broker knows, only the user counts.
            Proof::Broker { user: "näme \"x\"".into() },
            Proof::Token { issuer: "https://issuer".into(), id: Some("k1".into()) },
        ] {
            let principal = Principal { name: "näme \"x\"".into(), proof };
            let scope = Scope::new(Door::Turn, principal, AgentName::standard());
            let owner = ScheduleOwner::of(&scope);
            bench.schedules.put(&owner, task("t", "0 9 * * *")).await.unwrap();
            let kept = bench.schedules.list(&owner).await.unwrap().remove(0);
            assert_eq!(kept.owner, owner);
        }
    }
}

#[tokio::test]
async fn tasks_are_bounded() {
    let config = ScheduleConfig { tasks_max: 2, agent_tasks_max: 3, ..quick_config() };
    for bench in Bench::all_with(&config).await {
        bench.put(task("a", "0 9 * * *")).await;
        bench.put(task("b", "0 9 * * *")).await;
        bench.put(task("A", "0 10 * * *")).await;
        let put = async |principal: &str, name: &str| {
            let put = bench.schedules.put(&owner(principal), task(name, "0 9 * * *")).await;
            put.expect_err("there is no room").to_string()
        };
        assert_text!(put("model", "c").await, @"nothing was scheduled: you have 2 tasks already, the most there may be. Cancel what is no longer needed (cancel_scheduled_task)");
        bench.schedules.put(&owner("other"), task("c", "0 9 * * *")).await.unwrap();
        assert_text!(put("other", "d").await, @"nothing was scheduled: this agent has 3 tasks already, the most there may be. Cancel what is no longer needed (cancel_scheduled_task)");
    }
}

#[tokio::test]
async fn texts_are_bounded() {
    let bench = Bench::all().await.remove(0);
    let refused = async |new: NewTask| bench.schedules.put(&owner("model"), new).await.unwrap_err();
    let named = |name: &str| NewTask { name: name.to_owned(), ..task("x", "0 9 * * *") };
    for name in ["", " \n ", "a\u{7}b", &"x".repeat(NAME_CHARS_MAX + 1)] {
        assert!(matches!(refused(named(name)).await, Error::Name(_)), "{name:?}");
    }
    for description in [String::new(), " ".to_owned(), "x".repeat(DESCRIPTION_BYTES_MAX + 1)] {
        let new = NewTask { description, ..task("x", "0 9 * * *") };
        assert!(matches!(refused(new).await, Error::Description { .. }));
    }
    bench.put(named(&"ä".repeat(NAME_CHARS_MAX))).await;
}

#[tokio::test]
async fn a_zero_in_a_description_is_kept_by_every_database() {
    for bench in Bench::all().await {
        bench.put(NewTask { description: "a\0b".to_owned(), ..task("x", "0 9 * * *") }).await;
        let kept = bench.schedules.list(&owner("model")).await.unwrap().remove(0);
        assert_eq!(kept.description, "a\u{fffd}b");
    }
}

#[tokio::test]
async fn what_is_due_of_a_task_goes_with_it() {
    for bench in Bench::all().await {
        for (name, reason) in [("a", "the task was cancelled"), ("b", "the task was replaced")] {
            bench.put(task(name, "0 9 * * *")).await;
            assert!(bench.schedules.run_now(&owner("model"), name).await.unwrap());
            let again = bench.schedules.run_now(&owner("model"), name).await.unwrap_err();
            assert!(matches!(again, Error::AlreadyAsked(_)), "{again}");
            if name == "a" {
                bench.schedules.cancel(&owner("model"), name).await.unwrap();
            } else {
                bench.put(task(name, "0 10 * * *")).await;
            }

            let of_task = bench.schedules.history(&owner("model"), Some(name), 9).await.unwrap();
            let [occurrence] = &*of_task else { panic!("{of_task:?}") };
            assert_eq!(occurrence.state, OccurrenceState::Cancelled);
            assert_eq!(occurrence.reason, reason);
        }
    }
}
