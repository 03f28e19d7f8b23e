//! One request to OpenRouter, from the key to the text that the client gets: limited in number,
//! time and size, and passed on verbatim when it is JSON.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use toolbus_config::on_one_line;
use toolbus_json::Limits;
use toolbus_runtime::health::{Component, State};

use crate::client::{ReadOnlyClient, ReplyHead};
use crate::endpoint::Endpoint;
use crate::error::{AnswerLimits, Error};
use crate::key::{ApiKey, KeySource};
use crate::model_page;
use crate::settings::OpenRouterSettings;

#[cfg(test)]
mod tests;

/// Most values of an answer: ten times those of the list of all models.
const ANSWER_VALUES_MAX: usize = 512 << 10;
/// Most bytes that are read of an error response.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// What an error response may have.
const ERROR_LIMITS: Limits = Limits::of_bytes(ERROR_BYTES_MAX);
/// Most characters of its message that are passed on.
const MESSAGE_CHARS_MAX: usize = 500;

/// The OpenRouter account: sends requests with its key, a limited number at a time.
#[derive(Debug)]
pub struct OpenRouter {
    client: ReadOnlyClient,
    key: KeySource,
    limits: AnswerLimits,
    concurrency: NonZeroU16,
    calls: Arc<Semaphore>,
    health: Component,
}

/// The HTTP client cannot be created.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client")]
pub struct SetupError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl OpenRouter {
    /// Creates the client by the settings; nothing is sent yet. `health` shows whether there is a
    /// key that OpenRouter accepts.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(settings: &OpenRouterSettings, health: Component) -> Result<Self, SetupError> {
        let base = settings.base_url.expose().parse().expect("an HttpUrl holds a URL");
        let limits = AnswerLimits {
            timeout: settings.timeout.duration(),
            bytes_max: usize::try_from(settings.answer_max.bytes()).unwrap_or(usize::MAX),
        };

        Ok(Self {
            client: ReadOnlyClient::new(base, limits.timeout)
                .map_err(|error| SetupError(error.into()))?,
            key: KeySource::from_settings(settings),
            limits,
            concurrency: settings.concurrency,
            calls: Arc::new(Semaphore::new(settings.concurrency.get().into())),
            health,
        })
    }

    /// Reads the endpoint, and returns the JSON of the answer verbatim.
    ///
    /// # Errors
    /// When there is no key, too many calls are running, or no usable answer comes.
    pub async fn fetch(&self, endpoint: Endpoint) -> Result<String, Error> {
        let _permit = self.calls.try_acquire().map_err(|_| Error::Busy)?;
        let key = self.load_key().await?;

        let timeout = self.limits.timeout;
        let answer = tokio::time::timeout(timeout, self.fetch_with_key(&endpoint, &key)).await;
        let answer =
            answer.unwrap_or_else(|_| Err(Error::Timeout { path: endpoint.path(), timeout }));

        match &answer {
            Ok(_) => self.health.set(State::Up),
            Err(Error::Refused { status: 401, .. }) => {
                self.health.set(State::degraded("OpenRouter does not take the API key"));
            }
            Err(_) => {}
        }

        answer
    }

    /// Loads the key; a missing one shows in the health of this component.
    ///
    /// # Errors
    /// When there is no key.
    pub async fn load_key(&self) -> Result<ApiKey, Error> {
        let key = self.key.load_key().await;
        if let Err(error) = &key {
            self.health.set(State::degraded(on_one_line(error)));
        }
        Ok(key?)
    }

    /// Accepts no more calls, and waits up to `grace` for running ones. Returns how many are left.
    pub async fn drain(&self, grace: Duration) -> usize {
        // With all permits taken no call is running, and none can start.
        let all = u32::from(self.concurrency.get());
        let drained = tokio::time::timeout(grace, self.calls.acquire_many(all)).await;
        self.calls.close();

        match drained {
            Ok(_) => 0,
            Err(_) => usize::from(self.concurrency.get()) - self.calls.available_permits(),
        }
    }

    async fn fetch_with_key(&self, endpoint: &Endpoint, key: &ApiKey) -> Result<String, Error> {
        let reply = self.send_request(endpoint, key).await?;
        let answer = match endpoint.fallback() {
            Some(fallback) if reply.status == 404 => {
                let reply = self.send_request(&fallback, key).await?;
                self.read_reply(&fallback, key, reply).await?
            }
            _ => self.read_reply(endpoint, key, reply).await?,
        };

        match endpoint {
            Endpoint::Models(query) => Ok(model_page::cut_page(answer, query)),
            _ => Ok(answer),
        }
    }

    async fn send_request(&self, endpoint: &Endpoint, key: &ApiKey) -> Result<ReplyHead, Error> {
        let reply = self.client.get(endpoint, key).await;
        reply.map_err(|error| Error::from_client(error, endpoint, self.limits))
    }

    /// Reads the body of a reply, and returns it with the key redacted.
    async fn read_reply(
        &self,
        endpoint: &Endpoint,
        key: &ApiKey,
        reply: ReplyHead,
    ) -> Result<String, Error> {
        let unusable = |what: String| Error::Unusable { path: endpoint.path(), what };
        let ReplyHead { status, retry_after, .. } = reply;
        let content_type = reply.content_type.clone();

        match status {
            200..300 => {}
            300..400 => return Err(unusable(format!("it is a redirect ({status})"))),
            400.. => {
                // The message is passed on where it can be read; the status alone is an error, too.
                let body = reply.read_body(ERROR_BYTES_MAX).await.unwrap_or_default();
                let message = key.redact_key(&error_message(&body)).into_owned();
                let endpoint = Box::new(endpoint.clone());
                return Err(Error::Refused { status, endpoint, message, retry_after });
            }
            _ => return Err(unusable(format!("its status is {status}"))),
        }

        let body = reply.read_body(self.limits.bytes_max).await;
        let body = body.map_err(|error| Error::from_client(error, endpoint, self.limits))?;
        // Checked without being rebuilt, so that every digit of a number stays as it is.
        let limits = Limits::of_bytes(self.limits.bytes_max).with_values(ANSWER_VALUES_MAX);
        match toolbus_json::from_slice::<&RawValue>(&body, &limits) {
            Ok(_) => {}
            Err(toolbus_json::Error::OverLimit(over)) => return Err(unusable(over.to_string())),
            Err(toolbus_json::Error::Invalid(error)) => {
                let what = describe_body(&content_type, &body);
                return Err(unusable(format!("it is no JSON but {what}: {error}")));
            }
        }

        let body = String::from_utf8(body).map_err(|_| unusable("it is no text".to_owned()))?;
        Ok(match key.redact_key(&body) {
            std::borrow::Cow::Borrowed(_) => body,
            std::borrow::Cow::Owned(redacted) => redacted,
        })
    }
}

/// What the body is instead of JSON, for an error message.
fn describe_body(content_type: &str, body: &[u8]) -> String {
    match (content_type, body) {
        (_, []) => "empty".to_owned(),
        ("" | "application/json", _) => "something else".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// The message of an error response of OpenRouter: `{"error": {"code", "message"}}`.
fn error_message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorBody {
        error: ErrorDetail,
    }

    #[derive(Deserialize)]
    struct ErrorDetail {
        message: String,
    }

    let text = match toolbus_json::from_slice::<ErrorBody>(body, &ERROR_LIMITS) {
        Ok(body) => body.error.message,
        Err(_) => String::from_utf8_lossy(body).into_owned(),
    };

    let text = text.trim();
    if text.is_empty() {
        return "(it says nothing)".to_owned();
    }

    if text.starts_with('<') {
        return "(it says so in HTML)".to_owned();
    }

    let mut words: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.retain(|c| !c.is_control());
    match words.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => words[..end].to_owned() + "…",
        None => words,
    }
}
