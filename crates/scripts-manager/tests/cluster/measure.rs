//! How long a pod takes.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use toolbus_scripts::runner::Ending;

use crate::support::{run, runner};

/// Far above what it takes, so that a busy machine does not fail it, and below what waiting for the
/// pod's phase takes at best.
const LIMIT: Duration = Duration::from_millis(1200);

#[tokio::test]
async fn an_answer_does_not_wait_for_the_pods_phase() {
    let Some(runner) = runner().await else { return };
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        assert_eq!(run(&runner, "print(1)").await.output.text, "1\n");
        times.push(start.elapsed());
    }
    runner.idle().await;
    times.sort();
    println!("one at a time: {times:?}");
    assert!(times[3] < LIMIT, "{times:?}");
}

#[tokio::test]
async fn eight_at_once_all_answer() {
    let Some(runner) = runner().await else { return };
    let start = Instant::now();
    let runs = (0..8).map(async |number| {
        let outcome = run(&runner, &format!("print({number})")).await;
        assert_eq!(
            (outcome.output.text, outcome.ending),
            (format!("{number}\n"), Ending::Exited(0))
        );
        start.elapsed()
    });
    println!("eight at once: {:?}", join_all(runs).await);
    runner.idle().await;
}
