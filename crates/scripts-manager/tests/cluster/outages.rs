//! A cluster that refuses, forgets and stays silent, by a client that is meddled with.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Runner, Script};
use toolbus_testkit::eventually;

use crate::meddler::{Fate, Meddler};
use crate::once::{LIMIT, Place};
use crate::support::{client, script};

/// What pods may take to start in these tests, where they do not.
const START: Duration = Duration::from_secs(4);

/// Runs a script while some requests have another fate, and sees to it that nothing is left.
async fn meet(
    name: &str,
    source: &str,
    judge: impl Fn(&str, &str) -> Fate + Send + Sync + 'static,
) -> Option<Result<Outcome, Error>> {
    let mut place = Place::new(name).await?;
    place.settings.start_timeout = toolbus_runtime::config::TimeSpan::seconds(START.as_secs());
    let meddler = Meddler::new();
    let runner = place.runner(meddler.client(None).await?).await;
    meddler.judge(judge);
    let start = Instant::now();
    let outcome = runner.run(script(source), Run::alone("call_1")).await;
    // The script's twenty seconds, and what comes before and after them.
    assert!(start.elapsed() < Duration::from_secs(40), "{:?}", start.elapsed());
    meddler.judge(|_, _| Fate::Pass);
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

#[tokio::test]
async fn scripts_run_without_a_watch() {
    let judge = |method: &str, path: &str| {
        let watched = path.ends_with("/events") || path.ends_with("/pods");
        if method == "GET" && watched { Fate::Refused(500) } else { Fate::Pass }
    };
    let Some(outcome) = meet("blind", "print(1)", judge).await else { return };
    assert_eq!(outcome.expect("an outcome").ending, Ending::Exited(0));
}

/// That the object is gone is not enough: its processes must be. They are looked for on the node,
/// by the user id that no other pod has; where the node is another machine, nothing can be seen.
#[tokio::test]
async fn a_script_that_is_to_end_is_dead_at_once() {
    let Some(place) = Place::new("dead-at-once").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    let source = "import signal, subprocess, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                  subprocess.Popen(['sleep', '60'], start_new_session=True)\ntime.sleep(60)";
    let mut fastest = Duration::MAX;
    for attempt in 0..8 {
        let times_out = attempt == 0;
        let cancelled = CancellationToken::new();
        let timeout = Duration::from_secs(if times_out { 4 } else { 20 });
        let run = Run { cancelled: cancelled.clone(), ..Run::alone("call_1") };
        let script = Script { timeout, ..script(source) };
        let watching = async {
            let pod = place.started().await;
            let spec = pod.spec.expect("a spec").security_context.expect("a security context");
            let user = spec.run_as_user.expect("a user");
            let seen = eventually(Duration::from_secs(3), async || {
                if processes_of(user) >= 3 { Ok(()) } else { Err(processes_of(user)) }
            });
            let visible = std::path::Path::new("/run/toolbus-kube").exists();
            if !visible {
                return None;
            }
            seen.await;
            if times_out {
                // The second it has left is waited for by its death.
                eventually(LIMIT, async || match processes_of(user) {
                    0..=1 => Ok(()),
                    more => Err(more),
                })
                .await;
                return None;
            }
            cancelled.cancel();
            let start = Instant::now();
            while processes_of(user) > 1 {
                assert!(start.elapsed() < Duration::from_secs(5), "it lives");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Some(start.elapsed())
        };
        let (outcome, took) = tokio::join!(runner.run(script, run), watching);
        let outcome = outcome.expect("an outcome");
        let expected = if times_out { Ending::TimedOut } else { Ending::Cancelled };
        let visible = took.is_some() || times_out;
        assert!(outcome.ending == expected || !visible, "{outcome:?}");
        assert!(!times_out || outcome.elapsed < timeout + Duration::from_millis(300));
        fastest = fastest.min(took.unwrap_or(Duration::MAX));
        runner.idle().await;
        place.is_empty(LIMIT).await;
        if fastest < Duration::from_millis(300) {
            break;
        }
    }
    // The best of a few, since a busy machine may be late with anything.
    assert!(fastest < Duration::from_millis(300) || fastest == Duration::MAX, "{fastest:?}");
}

/// How many processes a user has on this machine, the first process of a pod among them.
fn processes_of(user: i64) -> usize {
    let lines = [format!("Uid:\t{user}\t"), "State:\tZ".to_owned()];
    let entries = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    entries
        .filter_map(|entry| std::fs::read_to_string(entry.path().join("status")).ok())
        .filter(|status| status.contains(&lines[0]) && !status.contains(&lines[1]))
        .count()
}
