//! The tools of Gmail.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Map, Value, json};
use tokio::task::spawn_blocking;
use toolbus_tools::arguments::{number, text};

use super::Inner;
use super::api::{ApiError, ApiRequest};
use super::text::{LINE_CHARS_MAX, field, one_line};
use super::{compose, mime};
use crate::google::product::Product::Gmail;
use crate::html::inline_text;

/// How many mails are listed where nobody says, and at most.
const MAILS_DEFAULT: u64 = 10;
pub(super) const MAILS_MAX: u64 = 100;
/// Mails whose headers are asked for at a time.
const CONCURRENT_MAX: usize = 5;
const NO_MAILS: &str = "No emails found matching your query.";
const MESSAGES: [&str; 5] = ["gmail", "v1", "users", "me", "messages"];

pub(super) async fn search(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let count = number(arguments, "maxResults").unwrap_or(MAILS_DEFAULT).clamp(1, MAILS_MAX);
    let query = vec![
        ("q", text(arguments, "query").unwrap_or_default().to_owned()),
        ("maxResults", count.to_string()),
    ];
    let listed = google.call(ApiRequest::get(Gmail, &MESSAGES, query)).await?;

    let messages = listed.get("messages").and_then(Value::as_array);
    let ids = messages.into_iter().flatten().filter_map(|message| message.get("id"));
    let ids = ids.filter_map(Value::as_str).map(str::to_owned);
    let ids: Vec<String> = ids.take(count as usize).collect();
    if ids.is_empty() {
        return Ok(NO_MAILS.to_owned());
    }
    let blocks = stream::iter(ids.into_iter().map(|id| describe(google, id)));
    let blocks: Vec<String> = blocks.buffered(CONCURRENT_MAX).try_collect().await?;
    Ok(blocks.join("\n\n"))
}

async fn describe(google: &Inner, id: String) -> Result<String, ApiError> {
    let headers = ["From", "Subject", "Date"].map(|name| ("metadataHeaders", name.to_owned()));
    let query = [("format", "metadata".to_owned())].into_iter().chain(headers).collect();
    let message = google.call(ApiRequest::get(Gmail, &path_of(&id), query)).await?;

    let payload = message.get("payload").unwrap_or(&Value::Null);
    let snippet = message.get("snippet").and_then(Value::as_str).unwrap_or_default();
    // It comes as HTML.
    let snippet = one_line(&inline_text(snippet), LINE_CHARS_MAX);
    Ok(format!(
        "ID: {}\nDate: {}\nFrom: {}\nSubject: {}\nSnippet: {snippet}",
        one_line(&id, LINE_CHARS_MAX),
        mime::header(payload, "Date"),
        mime::header(payload, "From"),
        mime::header(payload, "Subject")
    ))
}

pub(super) async fn read(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let id = text(arguments, "messageId").unwrap_or_default().trim();
    let query = vec![("format", "full".to_owned())];
    let mut message = google.call(ApiRequest::get(Gmail, &path_of(id), query)).await?;

    let payload = message.get_mut("payload").map(Value::take).unwrap_or_default();
    // A large mail takes a while.
    let read = spawn_blocking(move || {
        format!(
            "From: {}\nTo: {}\nDate: {}\nSubject: {}\n\n{}",
            mime::header(&payload, "From"),
            mime::header(&payload, "To"),
            mime::header(&payload, "Date"),
            mime::header(&payload, "Subject"),
            mime::text_of_mail(&payload)
        )
    });
    read.await.map_err(|_| ApiError::Unreadable)
}

pub(super) async fn send(
    google: &Inner,
    arguments: &Map<String, Value>,
) -> Result<String, ApiError> {
    let [to, subject, body] =
        ["to", "subject", "body"].map(|name| text(arguments, name).unwrap_or_default());
    let raw = compose::raw_message(to, subject, body).map_err(ApiError::Arguments)?;

    let path = [&MESSAGES[..], &["send"]].concat();
    let sent = google.call(ApiRequest::post(Gmail, &path, json!({"raw": raw}))).await?;
    Ok(format!("Email sent. Message ID: {}", field(&sent, "id")))
}

fn path_of(id: &str) -> [&str; 6] {
    let [a, b, c, d, e] = MESSAGES;
    [a, b, c, d, e, id]
}
