use std::sync::Arc;

use serde_json::json;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Call, Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

use super::*;
use crate::principal::parse_principal;
use crate::{LivePolicy, PolicySettings, RuleBook};

fn settings(limits: &str) -> PolicySettings {
    toml::from_str(limits).unwrap()
}

/// An invoker with the tools `a` and `b` under these limits.
fn invoker(limits: &str) -> (Invoker, LivePolicy) {
    let policy = LivePolicy::new(RuleBook::new(&settings(limits)).unwrap());
    let registry = Registry::new();
    for name in ["a", "b"] {
        let run = |_: Invocation| std::future::ready(Ok(Output::text("ran")));
        registry.register(Tool::new(name, "", "test"), run).unwrap();
    }
    let invoker = Invoker::builder(Arc::new(registry)).policy(policy.clone());
    (invoker.gate(policy.rate_limit()).build(), policy)
}

/// Calls a tool, and answers how long to wait where that is too often.
async fn call(invoker: &Invoker, principal: &str, tool: &str) -> Result<(), Duration> {
    let principal = parse_principal(principal).unwrap();
    call_by(invoker, principal, tool).await
}

async fn call_by(invoker: &Invoker, principal: Principal, tool: &str) -> Result<(), Duration> {
    let scope = Arc::new(Scope::new(Door::Bus, principal, AgentName::standard()));
    let call = Call::by_name(&scope, tool, json!({})).unwrap();
    let Err(error) = invoker.invoke(call).await else { return Ok(()) };
    assert_eq!(error.code, ErrorCode::RateLimited, "{error:?}");
    assert!(error.is_retryable);
    Err(error.retry_after.unwrap())
}

const TWO_A_MINUTE: &str = "[[limits]]\nname = \"two\"\ncalls = 2\nper = \"minute\"\n";

#[tokio::test(start_paused = true)]
async fn calls_that_are_too_many_are_refused_and_come_back_evenly() {
    let (invoker, _) = invoker(TWO_A_MINUTE);
    assert_eq!(call(&invoker, "claimed:x", "a").await, Ok(()));
    assert_eq!(call(&invoker, "claimed:y", "b").await, Ok(()));
    let half = Duration::from_secs(30);
    assert_eq!(call(&invoker, "claimed:x", "a").await, Err(half));

    tokio::time::advance(half).await;
    assert_eq!(call(&invoker, "claimed:x", "a").await, Ok(()));
    assert_eq!(call(&invoker, "claimed:x", "a").await, Err(half));
}

#[tokio::test(start_paused = true)]
async fn what_calls_are_counted_by_has_a_count_each() {
    let (invoker, _) = invoker(&format!("{TWO_A_MINUTE}by = [\"principal\", \"tool\"]"));
    for tool in ["a", "a", "b", "b"] {
        assert_eq!(call(&invoker, "claimed:x", tool).await, Ok(()));
    }
    assert!(call(&invoker, "claimed:x", "a").await.is_err());
    assert!(call(&invoker, "claimed:y", "a").await.is_ok());
    assert!(call(&invoker, "local:x", "a").await.is_ok());
}

/// Whoever the broker knows is counted by that, whatever name the message has.
#[tokio::test(start_paused = true)]
async fn another_name_is_no_other_count_of_one_user() {
    let (invoker, _) = invoker(&format!("{TWO_A_MINUTE}by = [\"principal\"]"));
    let user = |name: &str| {
        let proof = toolbus_tools::scope::Proof::Broker { user: "ci".into() };
        call_by(&invoker, Principal { name: name.into(), proof }, "a")
    };
    assert!(user("a").await.is_ok() && user("b").await.is_ok());
    assert!(user("c").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_limit_is_of_calls_that_meet_its_conditions() {
    let (invoker, _) = invoker(&format!("{TWO_A_MINUTE}tools = [\"test/a\"]"));
    for _ in 0..4 {
        assert_eq!(call(&invoker, "claimed:x", "b").await, Ok(()));
    }
    assert!(call(&invoker, "claimed:x", "a").await.is_ok());
    assert!(call(&invoker, "claimed:x", "a").await.is_ok());
    assert!(call(&invoker, "claimed:x", "a").await.is_err());
}

/// A flood of names takes the room of newcomers, and frees nobody.
#[tokio::test(start_paused = true)]
async fn a_flood_of_names_frees_nobody() {
    let (invoker, _) = invoker(&format!("{TWO_A_MINUTE}by = [\"principal\"]"));
    let spent = async || {
        let _ = call(&invoker, "claimed:spent", "a").await;
        call(&invoker, "claimed:spent", "a").await
    };
    assert!(spent().await.is_ok());
    for name in 1..BUCKETS_MAX {
        assert!(call(&invoker, &format!("claimed:{name}"), "a").await.is_ok());
    }

    assert!(spent().await.is_err(), "it is still counted");
    // All further names share one count.
    assert!(call(&invoker, "claimed:new", "a").await.is_ok());
    assert!(call(&invoker, "claimed:newer", "a").await.is_ok());
    assert!(call(&invoker, "claimed:newest", "a").await.is_err());
    assert!(call(&invoker, "claimed:17", "a").await.is_ok(), "whoever is counted has the own");

    // What has run out makes room.
    tokio::time::advance(Duration::from_secs(61)).await;
    for _ in 0..2 {
        assert!(call(&invoker, "claimed:a", "a").await.is_ok());
        assert!(call(&invoker, "claimed:b", "a").await.is_ok());
    }
    assert!(call(&invoker, "claimed:a", "a").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_reload_frees_nobody_whose_limit_stays() {
    let (invoker, policy) = invoker(TWO_A_MINUTE);
    let full = async || call(&invoker, "claimed:x", "a").await.is_err();
    assert!(!full().await && !full().await && full().await);

    let more = format!("{TWO_A_MINUTE}[[rules]]\nname = \"r\"\neffect = \"allow\"\n");
    assert_eq!(policy.replace(&settings(&more)), Ok(true));
    assert_eq!(policy.replace(&settings(&more)), Ok(false));
    assert!(full().await);

    let three = settings(&more.replace("calls = 2", "calls = 3"));
    assert_eq!(policy.replace(&three), Ok(true));
    assert!(!full().await, "another limit counts from nothing");
}

#[test]
fn parallel_calls_are_counted_exactly() {
    let calls = NonZeroU32::new(50).unwrap();
    let rate = Rate::new(calls, length(Period::Day).unwrap());
    let charge_some = || (0..100).filter(|_| rate.charge(&BucketKey::default()).is_ok()).count();
    let passed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(charge_some)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(passed, 50);
}
