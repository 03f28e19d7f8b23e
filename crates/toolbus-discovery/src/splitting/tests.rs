//! How a task is split by somebody from outside, and when by the rule.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

const TASK: &str = "Summarise the incident for the team, and a ticket would be good as well";

/// Answers as it is told, and counts how often it is asked.
struct Scripted {
    answer: Option<Vec<String>>,
    is_silent: bool,
    asked: AtomicUsize,
}

impl SplitTask for Scripted {
    fn split<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<Vec<String>>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match self.is_silent {
            true => Box::pin(pending()),
            false => Box::pin(ready(self.answer.clone())),
        }
    }
}

fn splits(answer: Option<&[&str]>) -> (TaskSplits, Arc<Scripted>) {
    let answer = answer.map(|steps| steps.iter().map(ToString::to_string).collect());
    let scripted = Arc::new(Scripted { answer, is_silent: false, asked: AtomicUsize::new(0) });
    (TaskSplits::new(Arc::clone(&scripted) as _), scripted)
}

#[tokio::test(start_paused = true)]
async fn a_task_that_looks_like_several_steps_is_split_once() {
    let steps = ["summarise the incident", "create a ticket"];
    let (splits, scripted) = splits(Some(&steps));
    for _ in 0..3 {
        assert_eq!(*splits.split(TASK).await, steps.map(str::to_owned));
    }
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 1);
    tokio::time::advance(KEPT_TTL).await;
    splits.split(TASK).await;
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_task_of_one_step_asks_nobody() {
    let (splits, scripted) = splits(Some(&["something else"]));
    for task in ["create an issue", "what is the weather in the north of Berlin tomorrow"] {
        assert_eq!(*splits.split(task).await, [task.to_owned()]);
    }
    assert_eq!(scripted.asked.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_used_is_left_to_the_rule_and_not_asked_for_at_once_again() {
    let long = "x".repeat(STEP_CHARS_MAX + 1);
    let many = ["step"; STEPS_MAX + 1];
    let unusable: [Option<&[&str]>; 5] =
        [None, Some(&[]), Some(&[&long]), Some(&["...", "a"]), Some(&many)];
    for bad in unusable {
        let (splits, scripted) = splits(bad);
        for _ in 0..3 {
            assert_eq!(*splits.split(TASK).await, *split_task(TASK), "{bad:?}");
        }
        assert_eq!(scripted.asked.load(Ordering::Relaxed), 1);
        tokio::time::advance(FAILURE_BACKOFF).await;
        splits.split(TASK).await;
        assert_eq!(scripted.asked.load(Ordering::Relaxed), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_does_not_come_is_done_without() {
    let silent = Scripted { answer: None, is_silent: true, asked: AtomicUsize::new(0) };
    let splits = TaskSplits::new(Arc::new(silent));
    let began = Instant::now();
    assert_eq!(*splits.split(TASK).await, *split_task(TASK));
    assert_eq!(began.elapsed(), SPLIT_TIMEOUT);
}

#[tokio::test]
async fn splits_that_are_kept_are_bounded() {
    let (splits, _) = splits(Some(&["a", "b"]));
    for at in 0..KEPT_MAX + 10 {
        splits.split(&format!("{TASK} {at}")).await;
    }
    let kept = splits.kept.lock();
    assert_eq!((kept.by_task.len(), kept.order.len()), (KEPT_MAX, KEPT_MAX));
}
