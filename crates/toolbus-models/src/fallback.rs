//! Models in turn: each is asked again after a while where that may help, and the next one where it
//! does not. Once a part of an answer was passed on, nobody else is asked.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use crate::completion::Completion;
use crate::error::{ErrorKind, ModelError};
use crate::model::{Model, ModelEvent, OnEvent};
use crate::request::ModelRequest;

/// The first wait; each is twice as long as the one before.
const FIRST_BACKOFF: Duration = Duration::from_millis(500);
/// Longest wait that an API has not asked for.
const BACKOFF_MAX: Duration = Duration::from_secs(30);

/// How often a model is asked again.
#[derive(Debug, Clone, Copy)]
pub struct RetryLimits {
    /// How often at most, where there is no other model to ask; else once.
    pub retries_max: u32,
    /// The longest wait before that. Where an API wants a longer one, it is not asked again.
    pub wait_max: Duration,
}

/// Models of which the first that can answers. It has the name of the first.
pub struct FallbackModel {
    first: Arc<dyn Model>,
    others: Vec<Arc<dyn Model>>,
    limits: RetryLimits,
}

impl FallbackModel {
    /// This model, and in the order of the list the others that are asked in its place.
    #[must_use]
    pub fn new(first: Arc<dyn Model>, others: Vec<Arc<dyn Model>>, limits: RetryLimits) -> Self {
        Self { first, others, limits }
    }

    async fn ask(
        &self,
        request: &ModelRequest,
        on_event: OnEvent<'_>,
    ) -> Result<Completion, ModelError> {
        let mut model = &self.first;
        let mut others = self.others.iter();
        let mut has_begun = false;
        loop {
            let next = others.next();
            let retries_max = match next {
                Some(_) => self.limits.retries_max.min(1),
                None => self.limits.retries_max,
            };
            let mut watched = |event: ModelEvent| {
                has_begun |= event.is_answer();
                on_event(event);
            };
            let result = self.ask_one(model.as_ref(), retries_max, request, &mut watched).await;
            let Err(error) = result else { return result };

            let Some(next) = next.filter(|_| !has_begun && error.kind.is_of_model()) else {
                return Err(error);
            };
            let reason = error.kind.to_string();
            tracing::warn!(
                model = model.name(),
                fallback = next.name(),
                error = reason,
                "falling back to another model"
            );
            on_event(ModelEvent::FellBack { model: next.name().to_owned(), reason });
            model = next;
        }
    }

    /// Asks one model, as often as may help.
    async fn ask_one(
        &self,
        model: &dyn Model,
        retries_max: u32,
        request: &ModelRequest,
        on_event: OnEvent<'_>,
    ) -> Result<Completion, ModelError> {
        let mut retries = 0;
        let mut has_begun = false;
        loop {
            let mut watched = |event: ModelEvent| {
                has_begun |= event.is_answer();
                on_event(event);
            };
            let result = model.complete(request, &mut watched).await;
            let Err(error) = result else { return result };
            if has_begun || !error.is_retryable() || retries == retries_max {
                return Err(error);
            }
            let Some(wait) = self.limits.wait_before(&error.kind, retries) else {
                return Err(error);
            };

            retries += 1;
            let name = model.name().to_owned();
            let reason = error.kind.to_string();
            let wait_ms = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(model = name, error = reason, wait_ms, "retrying model request");
            on_event(ModelEvent::Retrying { model: name, wait, reason });
            tokio::time::sleep(wait).await;
        }
    }
}

impl Model for FallbackModel {
    fn name(&self) -> &str {
        self.first.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(self.ask(request, on_event))
    }
}

impl RetryLimits {
    /// How long to wait after this many retries; `None` where that is too long.
    fn wait_before(&self, kind: &ErrorKind, retries: u32) -> Option<Duration> {
        let asked = kind.retry_after().unwrap_or_default();
        if asked > self.wait_max {
            return None;
        }
        let backoff = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(retries)).min(BACKOFF_MAX);
        // Never sooner than asked for, and not in step with others.
        let wait = asked.max(backoff.mul_f64(0.75));
        Some((wait + backoff.mul_f64(0.5 * random_fraction())).min(self.wait_max.max(asked)))
    }
}

/// A number from 0 to 1. The standard library gives each of its hashers a new seed, which is random
/// enough to spread requests and saves a dependency.
fn random_fraction() -> f64 {
    let bits = RandomState::new().hash_one(());
    f64::from(u32::try_from(bits >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests;
