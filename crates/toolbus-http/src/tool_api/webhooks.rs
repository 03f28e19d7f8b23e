//! Webhooks: what is told to an address of a client when its job has ended.
//!
//! They are sent beside the jobs and delay none. A webhook is due by the write that ends its job,
//! and stays so in the store until it is delivered or given up: each try is bounded in time, and
//! all of them in number and age, whichever processes make them. The receiver knows them by a
//! signature over the time and the body.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toolbus_wire::clock::unix_now;
use url::Url;

/// The header with the time at which a webhook was sent, in seconds of Unix time.
pub const WEBHOOK_TIMESTAMP: &str = "x-toolbus-timestamp";
/// The header with the signature.
pub const WEBHOOK_SIGNATURE: &str = "x-toolbus-signature";
/// How every signature begins.
const SIGNATURE_PREFIX: &str = "sha256=";
/// How much longer than a try nobody else takes a webhook.
const LEASE_MARGIN_GRACE: Duration = Duration::from_secs(10);

/// How webhooks are sent.
#[derive(Debug, Clone, Copy)]
pub struct WebhookConfig {
    /// How many this process sends at once.
    pub sending_max: usize,
    /// How often one is tried.
    pub attempts_max: u32,
    /// How long is waited after the first try; four times as long after each further one.
    pub retry_backoff: Duration,
    /// How long after the end of its job one is still tried.
    pub age_max: Duration,
    /// How long one try may take.
    pub send_timeout: Duration,
}

impl Default for WebhookConfig {
    fn default() -> Self {
        Self {
            sending_max: 8,
            attempts_max: 7,
            retry_backoff: Duration::from_secs(1),
            age_max: Duration::from_secs(60 * 60),
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

/// What became of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    Delivered,
    /// It may be taken later.
    Later,
    /// It will not be taken.
    Refused,
}

/// A webhook that is to be sent.
pub(crate) struct Delivery<'a> {
    pub(crate) job: &'a str,
    pub(crate) url: Url,
    pub(crate) secret: &'a str,
    pub(crate) body: String,
}

/// Sends webhooks.
pub(crate) struct Webhooks {
    config: WebhookConfig,
    send: Arc<dyn SendWebhook>,
    sending: Arc<Semaphore>,
}

impl Webhooks {
    pub(crate) fn new(config: WebhookConfig, send: Arc<dyn SendWebhook>) -> Self {
        Self { config, send, sending: Arc::new(Semaphore::new(config.sending_max)) }
    }

    /// A place for one more to be sent, where there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sending).try_acquire_owned().ok()
    }

    /// For how long nobody else sends what this process has taken.
    pub(crate) fn lease(&self) -> Duration {
        self.config.send_timeout + LEASE_MARGIN_GRACE
    }

    /// How long is waited after so many tries. `None`: there are no more.
    pub(crate) fn backoff(&self, attempts: u32) -> Option<Duration> {
        let more = attempts < self.config.attempts_max;
        let factor = 4_u32.saturating_pow(attempts.saturating_sub(1));
        more.then(|| self.config.retry_backoff.saturating_mul(factor))
    }

    /// Whether one is too old to be sent whose job ended so long ago.
    pub(crate) fn is_too_old(&self, age: Duration) -> bool {
        age > self.config.age_max
    }

    /// Sends a webhook once.
    pub(crate) async fn attempt(&self, delivery: Delivery<'_>) -> Attempt {
        let Delivery { job, url, secret, body } = delivery;
        let timestamp = unix_now().as_secs();
        let signature = sign_webhook(secret, timestamp, &body);
        let headers =
            vec![(WEBHOOK_TIMESTAMP, timestamp.to_string()), (WEBHOOK_SIGNATURE, signature)];
        let timeout = self.config.send_timeout;
        let request = WebhookRequest { url, headers, body: body.into(), timeout };

        let sending = tokio::time::timeout(timeout, self.send.send(request));
        let no_answer = || Err(WebhookError::Unreachable("no answer".to_owned()));
        match sending.await.unwrap_or_else(|_| no_answer()) {
            Ok(200..=299) => Attempt::Delivered,
            Ok(status) if may_retry(status) => {
                tracing::debug!(job, status, "a webhook was not taken yet");
                Attempt::Later
            }
            Ok(status) => {
                tracing::info!(job, status, "a webhook was refused");
                Attempt::Refused
            }
            Err(error @ WebhookError::Refused(_)) => {
                tracing::info!(%error, job, "a webhook is not sent");
                Attempt::Refused
            }
            Err(error) => {
                tracing::debug!(%error, job, "a webhook could not be sent yet");
                Attempt::Later
            }
        }
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
