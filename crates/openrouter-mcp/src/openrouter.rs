//! One question to OpenRouter, from the key to the text that the client gets: bounded in number,
//! time and size, and verbatim when it is JSON.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::Semaphore;
use toolbus_config::on_one_line;
use toolbus_runtime::health::{Component, State};

use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::getter::{Getter, Reply};
use crate::key::{ApiKey, KeySource};
use crate::page;
use crate::settings::OpenRouterSettings;

#[cfg(test)]
mod tests;

/// Most bytes that are read of an answer that tells of an error.
const ERROR_BYTES_MAX: usize = 64 * 1024;
/// Most characters of such an answer that are told.
const MESSAGE_CHARS_MAX: usize = 500;

/// OpenRouter, as this program sees it.
#[derive(Debug)]
pub struct OpenRouter {
    getter: Getter,
    key: KeySource,
    timeout: Duration,
    bytes_max: usize,
    concurrency: NonZeroU16,
    calls: Arc<Semaphore>,
    health: Component,
}

/// OpenRouter cannot be asked at all.
#[derive(Debug, thiserror::Error)]
#[error("cannot set up the HTTP client")]
pub struct SetupError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl OpenRouter {
    /// As the settings say; nothing is asked yet. `health` hears whether the key is there and taken.
    ///
    /// # Errors
    /// When the machine's certificates cannot be read.
    pub fn new(settings: &OpenRouterSettings, health: Component) -> Result<Self, SetupError> {
        let base = settings.base_url.expose().parse().expect("an HttpUrl holds a URL");
        let timeout = settings.timeout.duration();
        Ok(Self {
            getter: Getter::new(base, timeout).map_err(|error| SetupError(error.into()))?,
            key: KeySource::of(settings),
            timeout,
            bytes_max: usize::try_from(settings.answer_max.bytes()).unwrap_or(usize::MAX),
            concurrency: settings.concurrency,
            calls: Arc::new(Semaphore::new(settings.concurrency.get().into())),
            health,
        })
    }

    /// Asks, and returns the JSON of the answer as it came.
    ///
    /// # Errors
    /// When there is no key, no room, or no answer that can be used.
    pub async fn ask(&self, endpoint: Endpoint) -> Result<String, Error> {
        let _permit = self.calls.try_acquire().map_err(|_| Error::Busy)?;
        let key = self.look_for_key().await?;
        let answer = tokio::time::timeout(self.timeout, self.ask_with(&endpoint, &key)).await;
        let timeout = || Error::Timeout { path: endpoint.path(), timeout: self.timeout };
        let answer = answer.unwrap_or_else(|_| Err(timeout()));
        match &answer {
            Ok(_) => self.health.set(State::Up),
            Err(Error::Refused { status: 401, .. }) => {
                self.health.set(State::degraded("OpenRouter does not take the API key"));
            }
            Err(_) => {}
        }
        answer
    }

    /// Looks whether there is a key now, and reports it.
    ///
    /// # Errors
    /// When there is none.
    pub async fn look_for_key(&self) -> Result<ApiKey, Error> {
        let key = self.key.load().await;
        if let Err(error) = &key {
            self.health.set(State::degraded(on_one_line(error)));
        }
        Ok(key?)
    }

    /// Takes no more calls, and waits up to `grace` for those that run; tells how many still do.
    pub async fn drain(&self, grace: Duration) -> usize {
        // Whoever has all permits knows that no call runs, and none can begin any more.
        let all = u32::from(self.concurrency.get());
        let drained = tokio::time::timeout(grace, self.calls.acquire_many(all)).await;
        self.calls.close();
        match drained {
            Ok(_) => 0,
            Err(_) => usize::from(self.concurrency.get()) - self.calls.available_permits(),
        }
    }

    async fn ask_with(&self, endpoint: &Endpoint, key: &ApiKey) -> Result<String, Error> {
        let reply = self.get(endpoint, key).await?;
        let answer = match endpoint.other_name() {
            Some(other) if reply.status == 404 => {
                let reply = self.get(&other, key).await?;
                self.read(&other, key, reply).await?
            }
            _ => self.read(endpoint, key, reply).await?,
        };
        match endpoint {
            Endpoint::Models(query) => Ok(page::of(answer, query)),
            _ => Ok(answer),
        }
    }

    async fn get(&self, endpoint: &Endpoint, key: &ApiKey) -> Result<Reply, Error> {
        let reply = self.getter.get(endpoint, key).await;
        reply.map_err(|error| Error::of_getter(error, endpoint, (self.timeout, self.bytes_max)))
    }

    async fn read(&self, endpoint: &Endpoint, key: &ApiKey, reply: Reply) -> Result<String, Error> {
        let unusable = |what: String| Error::Unusable { path: endpoint.path(), what };
        let Reply { status, retry_after, .. } = reply;
        let content_type = reply.content_type.clone();
        match status {
            200..300 => {}
            300..400 => return Err(unusable(format!("it is a redirect ({status})"))),
            400.. => {
                // What it says is worth a line, and nothing when it cannot be read.
                let body = reply.body(ERROR_BYTES_MAX).await.unwrap_or_default();
                let message = key.redacted(&message(&body)).into_owned();
                let endpoint = Box::new(endpoint.clone());
                return Err(Error::Refused { status, endpoint, message, retry_after });
            }
            _ => return Err(unusable(format!("its status is {status}"))),
        }
        let body = reply
            .body(self.bytes_max)
            .await
            .map_err(|error| Error::of_getter(error, endpoint, (self.timeout, self.bytes_max)))?;
        // Looked through, not taken apart, so that every digit stays as it is.
        if let Err(error) = serde_json::from_slice::<&RawValue>(&body) {
            return Err(unusable(format!(
                "it is no JSON but {}: {error}",
                kind(&content_type, &body)
            )));
        }
        let body = String::from_utf8(body).map_err(|_| unusable("it is no text".to_owned()))?;
        Ok(match key.redacted(&body) {
            std::borrow::Cow::Borrowed(_) => body,
            std::borrow::Cow::Owned(redacted) => redacted,
        })
    }
}

fn kind(content_type: &str, body: &[u8]) -> String {
    match (content_type, body) {
        (_, []) => "empty".to_owned(),
        ("" | "application/json", _) => "something else".to_owned(),
        (other, _) => other.to_owned(),
    }
}

/// What an answer of OpenRouter's says that tells of an error: `{"error": {"code", "message"}}`.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Body {
        error: Inner,
    }
    #[derive(Deserialize)]
    struct Inner {
        message: String,
    }
    let text = match serde_json::from_slice::<Body>(body) {
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
