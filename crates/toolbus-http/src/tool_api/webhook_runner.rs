//! Delivers the webhooks of jobs that have ended: claims what is due while there is room, tries
//! each, and keeps what became of it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::OwnedSemaphorePermit;
use toolbus_policy::{owner_text, parse_owner};
use url::Url;

use super::Shared;
use super::answer::now_ms;
use super::job_runner::LOOK_INTERVAL;
use super::jobs::Job;
use super::keys::KeyOwner;
use super::routes::jobs::JobData;
use super::webhooks::{Attempt, Delivery, Webhooks};

const DELIVERED: &str = "delivered";
const FAILED: &str = "failed";

/// Claims the webhooks that are due, as far as there is room for them.
pub(super) async fn claim_due(shared: &Arc<Shared>) {
    let Some(webhooks) = &shared.jobs.webhooks else { return };
    while let Some(place) = webhooks.place() {
        match shared.jobs.rows.claim_webhook(webhooks.lease()).await {
            Ok(Some(job)) => deliver(shared, job, place),
            Ok(None) => return,
            Err(error) => {
                tracing::warn!(%error, "webhooks cannot be claimed");
                return;
            }
        }
    }
}

/// Tries a webhook in a task of its own.
fn deliver(shared: &Arc<Shared>, job: Job, place: OwnedSemaphorePermit) {
    let this = Arc::clone(shared);
    shared.jobs.tasks.spawn(async move {
        let Some(webhooks) = &this.jobs.webhooks else { return };
        let trying = try_once(&this, webhooks, &job);
        // What is given up is due again when its lease is over.
        let Some(attempt) = this.jobs.stop.run_until_cancelled(trying).await else { return };
        drop(place);

        let attempts = u32::try_from(job.webhook_attempts).unwrap_or(u32::MAX);
        let rows = &this.jobs.rows;
        let (kept, pause) = match (attempt, webhooks.backoff(attempts)) {
            (Attempt::Delivered, _) => (rows.end_webhook(&job, DELIVERED).await, Duration::ZERO),
            (Attempt::Later, Some(backoff)) => {
                (rows.retry_webhook(&job, backoff).await, backoff.min(LOOK_INTERVAL))
            }
            _ => {
                tracing::info!(job = job.id, attempts, "a webhook was not delivered");
                (rows.end_webhook(&job, FAILED).await, Duration::ZERO)
            }
        };
        if let Err(error) = kept {
            tracing::warn!(%error, job = job.id, "what became of a webhook is not kept");
        }
        let _ = this.jobs.closing.run_until_cancelled(tokio::time::sleep(pause)).await;
        this.jobs.wake();
    });
}

async fn try_once(shared: &Shared, webhooks: &Webhooks, job: &Job) -> Attempt {
    let age = now_ms().saturating_sub(job.ended_ms.unwrap_or_default());
    if webhooks.is_too_old(Duration::from_millis(u64::try_from(age).unwrap_or_default())) {
        return Attempt::Refused;
    }
    let url = job.webhook_url.as_deref().and_then(|url| Url::parse(url).ok());
    let (Some(url), Ok(owner)) = (url, parse_owner(&job.owner)) else {
        return Attempt::Refused;
    };
    debug_assert_eq!(owner_text(&owner), job.owner, "an owner is kept as it is read");

    let Some(key) = KeyOwner::of(&owner) else { return Attempt::Refused };
    let secret = match shared.keys.webhook_secret(key).await {
        Ok(Some(secret)) => secret,
        // The key was revoked or has expired.
        Ok(None) => return Attempt::Refused,
        Err(error) => {
            tracing::warn!(?error, job = job.id, "a webhook cannot be signed");
            return Attempt::Later;
        }
    };
    let event = format!("job.{}", job.status.as_str());
    let body = json!({"event": event, "job": JobData::of(job)}).to_string();
    webhooks.attempt(Delivery { job: &job.id, url, secret: &secret, body }).await
}
