//! Summaries of skills, which a model writes once a skill is saved.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::task::TaskTracker;

use crate::owner::MemoryOwner;
use crate::skills::Skills;

/// How long a summary is waited for.
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(60);
/// What is read of a skill, in characters.
const READ_CHARS_MAX: usize = 20_000;
/// Summaries that are written at a time; of more skills the summaries stay as they are.
const WRITING_MAX: usize = 8;

/// Sums something up in one line.
pub trait Summarize: Send + Sync {
    /// The line; `None` where there is none.
    fn summarize<'a>(&'a self, text: &'a str) -> BoxFuture<'a, Option<String>>;
}

/// Writes summaries beside the calls that save skills. Until somebody sets who does, a skill is
/// summed up by its first line. Clones are the same.
#[derive(Clone, Default)]
pub struct Summaries(Arc<SummariesInner>);

#[derive(Default)]
struct SummariesInner {
    by: OnceLock<Arc<dyn Summarize>>,
    tasks: TaskTracker,
}

impl Summaries {
    /// Has them written so from now on. The first one that is set stays.
    pub fn set(&self, by: Arc<dyn Summarize>) {
        let _ = self.0.by.set(by);
    }

    /// Sums a skill up that was saved.
    pub(crate) fn begin(&self, skills: &Skills, owner: &MemoryOwner, name: &str, content: &str) {
        let Some(by) = self.0.by.get().cloned() else { return };
        if self.0.tasks.is_closed() || self.0.tasks.len() >= WRITING_MAX {
            return;
        }

        let (skills, owner, name) = (skills.clone(), owner.clone(), name.to_owned());
        let content: String = content.chars().take(READ_CHARS_MAX).collect();
        self.0.tasks.spawn(async move {
            let written = tokio::time::timeout(SUMMARY_TIMEOUT, by.summarize(&content)).await;
            let Ok(Some(summary)) = written else { return };
            // What was written meanwhile is another skill.
            let is_same = |now: &String| now.starts_with(&content);
            if !skills.find(&owner, &name).await.is_ok_and(|now| now.as_ref().is_some_and(is_same))
            {
                return;
            }
            let line = summary.split_whitespace().collect::<Vec<_>>().join(" ");
            if let Err(error) = skills.set_summary(&owner, &name, &line).await {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, "a skill keeps its first line for a summary");
            }
        });
    }

    /// Begins no more, and waits up to `grace` for those that are being written.
    pub async fn close(&self, grace: Duration) {
        self.0.tasks.close();
        let _ = tokio::time::timeout(grace, self.0.tasks.wait()).await;
    }
}
