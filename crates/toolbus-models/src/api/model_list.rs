//! Which models an API has: a request that costs nothing, and that wants the key as any other.

use std::time::{Duration, SystemTime};

use reqwest::header::{ACCEPT, DATE, HeaderMap, HeaderValue};
use serde_json::Value;
use tokio::time::{Instant, timeout};
use toolbus_json::Limits;
use url::Url;

use super::client::{HttpClients, Protocol, unreachable_kind};
use super::key::{ApiKey, KeyEraser};
use super::refusal;
use crate::error::{ErrorKind, TimedPhase};

/// Most of an answer that is read, in bytes.
pub(super) const ANSWER_BYTES_MAX: usize = 8 << 20;
/// A list of models.
const LIST_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX);

/// What an API answered.
#[derive(Debug)]
pub(crate) struct ModelList {
    /// The names of its models; `None` where it has no such list.
    pub(crate) models: Option<Vec<String>>,
    /// What time it is there, to the second, and how long it took to say so.
    pub(crate) date: Option<(SystemTime, Duration)>,
}

/// Asks for the models at `url`, within `limit`. A single one that is asked for is a list of one.
pub(crate) async fn request_models(
    http: &HttpClients,
    protocol: Protocol,
    url: Url,
    key: Option<&ApiKey>,
    limit: Duration,
) -> Result<ModelList, ErrorKind> {
    let eraser = KeyEraser::of(key);
    let asked = timeout(limit, ask(http, protocol, url, key)).await;
    let answer = asked.unwrap_or(Err(ErrorKind::TimedOut { phase: TimedPhase::WholeAnswer }));
    let Answer { status, date, body } = answer.map_err(|kind| eraser.erase(kind))?;

    if matches!(status, 404 | 405 | 501) {
        return Ok(ModelList { models: None, date });
    }
    if !(200..300).contains(&status) {
        let text = String::from_utf8_lossy(&body);
        let said = eraser.erase_text(&text);
        return Err(eraser.erase(refusal::of_response(status, said.as_bytes(), None)));
    }
    let body: Value = toolbus_json::from_slice(&body, &LIST_LIMITS).unwrap_or_default();
    Ok(ModelList { models: read_names(&body), date })
}

struct Answer {
    status: u16,
    date: Option<(SystemTime, Duration)>,
    body: Vec<u8>,
}

async fn ask(
    http: &HttpClients,
    protocol: Protocol,
    url: Url,
    key: Option<&ApiKey>,
) -> Result<Answer, ErrorKind> {
    let mut headers = protocol.headers(key);
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    let request = http.client_for(&url).get(url).headers(headers);
    let began_at = Instant::now();
    let mut response = request.send().await.map_err(|error| unreachable_kind(&error))?;
    let date = read_date(response.headers()).map(|date| (date, began_at.elapsed()));

    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| unreachable_kind(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer { status, date, body })
}

fn read_date(headers: &HeaderMap) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()
}

/// The names in a list, or of the one model that the answer is; `None` where it is neither.
fn read_names(body: &Value) -> Option<Vec<String>> {
    let name = |model: &Value| model["id"].as_str().map(str::to_owned);
    match body["data"].as_array() {
        Some(models) => Some(models.iter().filter_map(name).collect()),
        None => name(body).map(|name| vec![name]),
    }
}
