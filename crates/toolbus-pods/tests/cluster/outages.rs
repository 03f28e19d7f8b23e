//! A cluster that refuses, forgets and stays silent, by a client that is meddled with.

use std::time::{Duration, Instant};

use toolbus_scripts::runner::{Error, Outcome, Run, Runner};

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::support::{bystander, script};

/// What pods may take to start in these tests, where they do not.
const START: Duration = Duration::from_secs(4);

/// Runs a script while some requests have another fate, and sees to it that nothing is left and
/// that nobody else is disturbed.
async fn meet(
    name: &str,
    source: &str,
    judge: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
) -> Option<Result<Outcome, Error>> {
    let mut place = Place::new(name).await?;
    place.settings.start_timeout = toolbus_config::TimeSpan::seconds(START.as_secs());
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await?).await;
    fault_proxy.judge(judge);
    let start = Instant::now();
    let running =
        async { (runner.run(script(source), Run::alone("call_1")).await, Instant::now()) };
    let ((outcome, told), ()) = tokio::join!(running, bystander());
    // The script's twenty seconds, and what comes before and after them.
    assert!(told - start < Duration::from_secs(40), "{:?}", told - start);
    fault_proxy.judge(|_, _| Fate::Pass);
    runner.idle().await;
    place.is_empty(LIMIT).await;
    Some(outcome)
}

fn makes_a_pod(method: &str, path: &str) -> bool {
    method == "POST" && path.ends_with("/pods")
}

#[tokio::test]
async fn a_cluster_that_is_too_busy_for_a_pod_is_told_as_busy() {
    let judge = |method: &str, path: &str| {
        if makes_a_pod(method, path) { Fate::Refused(429) } else { Fate::Pass }
    };
    let Some(outcome) = meet("busy", "print(1)", judge).await else { return };
    assert!(matches!(outcome, Err(Error::Busy(_))), "{outcome:?}");
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_is_told_as_unavailable() {
    let judge = |method: &str, path: &str| {
        if makes_a_pod(method, path) { Fate::Silent } else { Fate::Pass }
    };
    let Some(outcome) = meet("silent", "print(1)", judge).await else { return };
    assert!(matches!(outcome, Err(Error::Unavailable(_))), "{outcome:?}");
}

#[tokio::test]
async fn an_answer_that_is_lost_costs_no_second_pod() {
    use std::sync::atomic::{AtomicBool, Ordering};

    let lost = AtomicBool::new(false);
    let judge = move |method: &str, path: &str| {
        let first = makes_a_pod(method, path) && !lost.swap(true, Ordering::Relaxed);
        if first { Fate::Lost } else { Fate::Pass }
    };
    let Some(outcome) = meet("lost", "print(1)", judge).await else { return };
    assert_eq!(outcome.expect("an outcome").output.text, "1\n");
}

#[tokio::test]
async fn a_pod_that_cannot_be_attached_to_is_told_when_its_time_to_start_is_over() {
    let judge = |_: &str, path: &str| {
        if path.ends_with("/attach") { Fate::Refused(500) } else { Fate::Pass }
    };
    let Some(outcome) = meet("refused", "print(1)", judge).await else { return };
    let told = matches!(&outcome, Err(Error::Failed(text)) if text.contains("did not start"));
    assert!(told, "{outcome:?}");
}
