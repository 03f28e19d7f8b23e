//! Splitting of tasks into steps: by somebody from outside, such as a model, where a query looks
//! like several, and else by the rule of the index.
//!
//! What comes from outside is bounded and checked, and none of it is waited for longer than
//! [`SPLIT_TIMEOUT`]. Where it does not come, the rule holds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use toolbus_search::{STEPS_MAX, split_task};

/// How long a split from outside is waited for.
pub const SPLIT_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest step, in characters.
pub const STEP_CHARS_MAX: usize = 500;
/// Splits that are asked for at once; whoever comes then gets the rule's.
const ASKED_MAX: usize = 4;
/// How long nobody is asked after there was no usable answer.
const FAILURE_BACKOFF: Duration = Duration::from_secs(30);
/// Splits that are kept.
const KEPT_MAX: usize = 512;
/// How long one is kept.
const KEPT_TTL: Duration = Duration::from_secs(60 * 60);
/// A query with so many words may be several steps though the rule sees one.
const WORDS_MIN: usize = 8;

/// Splits tasks into steps.
pub trait SplitTask: Send + Sync + 'static {
    /// The steps of a task, in words that a tool is searched for by. `None`: it cannot say. At most
    /// [`STEPS_MAX`] are taken, each of [`STEP_CHARS_MAX`] characters at most; the answer is
    /// dropped when it takes longer than [`SPLIT_TIMEOUT`].
    fn split<'a>(&'a self, task: &'a str) -> BoxFuture<'a, Option<Vec<String>>>;
}

/// Asks for splits, and keeps them.
pub(crate) struct TaskSplits {
    splitter: Arc<dyn SplitTask>,
    permits: Semaphore,
    kept: Mutex<KeptSplits>,
}

#[derive(Default)]
struct KeptSplits {
    by_task: HashMap<String, (Instant, Arc<[String]>)>,
    /// The tasks in the order in which they were kept.
    order: VecDeque<String>,
    failed_at: Option<Instant>,
}

impl TaskSplits {
    pub(crate) fn new(splitter: Arc<dyn SplitTask>) -> Self {
        Self { splitter, permits: Semaphore::new(ASKED_MAX), kept: Mutex::default() }
    }

    /// The steps of a task, at least one.
    pub(crate) async fn split(&self, task: &str) -> Arc<[String]> {
        let by_rule = || Arc::from(split_task(task));
        if !looks_like_steps(task) {
            return by_rule();
        }
        if let Some(kept) = self.kept.lock().find(task) {
            return kept;
        }
        if self.kept.lock().is_backing_off() {
            return by_rule();
        }
        let Ok(_permit) = self.permits.try_acquire() else { return by_rule() };

        let asked = timeout(SPLIT_TIMEOUT, self.splitter.split(task)).await;
        let steps = asked.ok().flatten().and_then(check_steps);
        match steps {
            Some(steps) => {
                self.kept.lock().keep(task, Arc::clone(&steps));
                steps
            }
            None => {
                tracing::debug!("no usable split of a task, so the rule splits it");
                self.kept.lock().failed_at = Some(Instant::now());
                by_rule()
            }
        }
    }
}

impl KeptSplits {
    fn find(&self, task: &str) -> Option<Arc<[String]>> {
        let (kept_at, steps) = self.by_task.get(task)?;
        (kept_at.elapsed() < KEPT_TTL).then(|| Arc::clone(steps))
    }

    fn is_backing_off(&self) -> bool {
        self.failed_at.is_some_and(|at| at.elapsed() < FAILURE_BACKOFF)
    }

    /// Keeps a split; the oldest falls out where there are too many.
    fn keep(&mut self, task: &str, steps: Arc<[String]>) {
        self.failed_at = None;
        let is_new = self.by_task.insert(task.to_owned(), (Instant::now(), steps)).is_none();
        if !is_new {
            return;
        }
        self.order.push_back(task.to_owned());
        while self.order.len() > KEPT_MAX {
            if let Some(oldest) = self.order.pop_front() {
                self.by_task.remove(&oldest);
            }
        }
    }
}

/// Whether a task may be several steps: the rule sees some, or it is long and has a joint.
fn looks_like_steps(task: &str) -> bool {
    let has_joint = || {
        task.contains([',', ';', '\n', ':', '、', '，'])
            || task.contains(". ")
            || task.split_whitespace().any(|word| JOINTS.contains(&word.to_lowercase().as_str()))
    };
    split_task(task).len() > 1 || (task.split_whitespace().count() >= WORDS_MIN && has_joint())
}

/// Words that join steps.
const JOINTS: &[&str] =
    &["and", "then", "after", "afterwards", "und", "dann", "et", "puis", "y", "luego", "e", "poi"];

/// What came from outside, where it can be searched for.
fn check_steps(steps: Vec<String>) -> Option<Arc<[String]>> {
    let are_good = (1..=STEPS_MAX).contains(&steps.len())
        && steps.iter().all(|step| {
            step.chars().count() <= STEP_CHARS_MAX && step.chars().any(char::is_alphanumeric)
        });
    are_good.then(|| steps.into())
}

#[cfg(test)]
mod tests;
