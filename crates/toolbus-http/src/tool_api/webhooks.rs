//! Webhooks: what is told to an address of a client when its job has ended.
//!
//! They are sent beside the jobs and delay none: a bounded number of them waits, each is tried a
//! bounded number of times, and each try ends in bounded time. The receiver knows them by a
//! signature over the time and the body.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_wire::clock::unix_now;
use url::Url;

/// The header with the time at which a webhook was sent, in seconds of Unix time.
pub const WEBHOOK_TIMESTAMP: &str = "x-toolbus-timestamp";
/// The header with the signature.
pub const WEBHOOK_SIGNATURE: &str = "x-toolbus-signature";
/// How every signature begins.
const SIGNATURE_PREFIX: &str = "sha256=";

/// How webhooks are sent.
#[derive(Debug, Clone, Copy)]
pub struct WebhookConfig {
    /// How many wait or are sent at once; more are dropped.
    pub waiting_max: usize,
    /// How many are sent at once.
    pub sending_max: usize,
    /// How often one is tried.
    pub attempts_max: u32,
    /// How long is waited after the first try; four times as long after each further one.
    pub retry_backoff: Duration,
    /// How long one try may take.
    pub send_timeout: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            waiting_max: 256,
            sending_max: 8,
            attempts_max: 4,
            retry_backoff: Duration::from_secs(1),
            send_timeout: Duration::from_secs(10),
        }
    }
}

/// A request to an address of a client: `POST` with this body, which is JSON.
#[derive(Debug, Clone)]
pub struct WebhookRequest {
    /// Where to.
    pub url: Url,
    /// Headers beside the content's type.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Arc<str>,
    /// How long it may take.
    pub timeout: Duration,
}

/// Why a webhook was not delivered.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// The address is none that may be connected to.
    #[error("the address may not be connected to: {0}")]
    Refused(String),
    /// Nobody answered.
    #[error("nobody answered: {0}")]
    Unreachable(String),
}

/// Sends webhooks. It connects to public addresses alone and follows no redirect.
pub trait SendWebhook: Send + Sync + 'static {
    /// Sends one, and gives the status of the answer.
    fn send(&self, request: WebhookRequest) -> BoxFuture<'_, Result<u16, WebhookError>>;
}

/// A webhook that is to be delivered.
pub(crate) struct Delivery {
    pub(crate) job: String,
    pub(crate) url: Url,
    pub(crate) secret: String,
    pub(crate) body: String,
}

/// What became of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivered {
    Yes,
    No,
}

/// Sends webhooks in the background. Clones are the same.
#[derive(Clone)]
pub(crate) struct Webhooks {
    config: WebhookConfig,
    send: Arc<dyn SendWebhook>,
    waiting: Arc<Semaphore>,
    sending: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Webhooks {
    pub(crate) fn new(config: WebhookConfig, send: Arc<dyn SendWebhook>) -> Self {
        Self {
            config,
            send,
            waiting: Arc::new(Semaphore::new(config.waiting_max)),
            sending: Arc::new(Semaphore::new(config.sending_max)),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Has a webhook delivered, and tells what became of it. `false`: too many wait.
    pub(crate) fn deliver(
        &self,
        delivery: Delivery,
        tell: impl FnOnce(Delivered) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> bool {
        let Ok(place) = Arc::clone(&self.waiting).try_acquire_owned() else {
            tracing::warn!(job = delivery.job, "dropped a webhook: too many wait");
            return false;
        };
        let this = self.clone();
        self.tasks.spawn(async move {
            let attempts = this.attempt_all(&delivery);
            let delivered = this.stop.run_until_cancelled(attempts).await;
            drop(place);
            tell(delivered.unwrap_or(Delivered::No)).await;
        });
        true
    }

    /// Waits up to `grace` for those that are under way.
    pub(crate) async fn drain(&self, grace: Duration) {
        self.tasks.close();
        if tokio::time::timeout(grace, self.tasks.wait()).await.is_err() {
            self.stop.cancel();
            self.tasks.wait().await;
        }
    }

    async fn attempt_all(&self, delivery: &Delivery) -> Delivered {
        let body: Arc<str> = delivery.body.as_str().into();
        let mut backoff = self.config.retry_backoff;
        for attempt in 1..=self.config.attempts_max {
            // Whoever is slow has others wait no longer than its try takes.
            let Ok(_sending) = self.sending.acquire().await else { return Delivered::No };
            let sent = self.attempt(delivery, &body).await;
            drop(_sending);

            match sent {
                Ok(200..=299) => return Delivered::Yes,
                Ok(status) if !may_retry(status) => {
                    tracing::info!(job = delivery.job, status, "a webhook was refused");
                    return Delivered::No;
                }
                Err(WebhookError::Refused(reason)) => {
                    tracing::info!(job = delivery.job, reason, "a webhook may not be sent there");
                    return Delivered::No;
                }
                Ok(status) => tracing::debug!(job = delivery.job, attempt, status, "no delivery"),
                Err(error) => tracing::debug!(job = delivery.job, attempt, %error, "no delivery"),
            }
            if attempt < self.config.attempts_max {
                tokio::time::sleep(backoff).await;
                backoff *= 4;
            }
        }
        tracing::info!(job = delivery.job, "a webhook was not delivered");
        Delivered::No
    }

    async fn attempt(&self, delivery: &Delivery, body: &Arc<str>) -> Result<u16, WebhookError> {
        let timestamp = unix_now().as_secs();
        let signature = sign_webhook(&delivery.secret, timestamp, body);
        let request = WebhookRequest {
            url: delivery.url.clone(),
            headers: vec![
                (WEBHOOK_TIMESTAMP, timestamp.to_string()),
                (WEBHOOK_SIGNATURE, signature),
            ],
            body: Arc::clone(body),
            timeout: self.config.send_timeout,
        };
        let sending = tokio::time::timeout(self.config.send_timeout, self.send.send(request));
        sending.await.unwrap_or_else(|_| Err(WebhookError::Unreachable("no answer".to_owned())))
    }
}

/// Whether a receiver that answers so may take it later.
fn may_retry(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

/// The signature of a webhook: `sha256=` and the HMAC over the time, a dot and the body.
#[must_use]
pub fn sign_webhook(secret: &str, timestamp: u64, body: &str) -> String {
    let code = mac(secret, timestamp, body).finalize().into_bytes();
    format!("{SIGNATURE_PREFIX}{code:x}")
}

/// Whether a webhook has the signature of this secret, and was sent no longer ago than `age_max`
/// before `now`, both in seconds. It takes as long whatever is wrong with the signature.
#[must_use]
pub fn verify_webhook(secret: &str, signed: &SignedWebhook<'_>, now: u64, age_max: u64) -> bool {
    let Ok(timestamp) = signed.timestamp.parse::<u64>() else { return false };
    let Some(code) = signed.signature.strip_prefix(SIGNATURE_PREFIX) else { return false };
    let Some(code) = from_hex(code) else { return false };
    let is_signed = mac(secret, timestamp, signed.body).verify_slice(&code).is_ok();
    is_signed && now.abs_diff(timestamp) <= age_max
}

/// A webhook as it was received.
#[derive(Debug, Clone, Copy)]
pub struct SignedWebhook<'a> {
    /// The header [`WEBHOOK_TIMESTAMP`].
    pub timestamp: &'a str,
    /// The header [`WEBHOOK_SIGNATURE`].
    pub signature: &'a str,
    /// The body.
    pub body: &'a str,
}

fn mac(secret: &str, timestamp: u64, body: &str) -> Hmac<Sha256> {
    let mut mac =
        Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length");
    mac.update(timestamp.to_string().as_bytes());
    mac.update(b".");
    mac.update(body.as_bytes());
    mac
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests;
