//! What APIs say instead of an answer, told apart.
//!
//! Every API has a form of its own, and those that imitate another's have several; what they mean
//! is in the status, in a code where there is one, and else in the words.

use std::time::Duration;

use serde_json::Value;
use toolbus_json::Limits;

use super::model_list;
use crate::error::ErrorKind;

/// An error. The longest that is read is the answer to a request for models.
const ERROR_LIMITS: Limits = Limits::of_bytes(model_list::ANSWER_BYTES_MAX);
/// Longest message of an API that is passed on, in characters.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// Codes and types of errors that mean that a request does not fit.
const TOO_LONG_CODES: [&str; 4] = [
    "context_length_exceeded",
    // llama.cpp
    "exceed_context_size_error",
    // Anthropic, of requests that are large in bytes
    "request_too_large",
    "string_above_max_length",
];

/// Words that mean the same, in lower case.
const TOO_LONG_WORDS: [&str; 17] = [
    "context_length_exceeded",
    // OpenAI, vLLM, OpenRouter
    "maximum context length",
    "reduce the length of the messages",
    // Anthropic
    "prompt is too long",
    "exceed context limit",
    // Bedrock
    "input is too long",
    // llama.cpp, its bindings for Python, LM Studio
    "exceeds the available context size",
    "exceed context window",
    "exceeds the context window",
    "exceeds context window",
    "context size has been exceeded",
    "greater than the context length",
    // Ollama
    "exceeds maximum context length",
    "exceeds the context length",
    "input length exceeds",
    // LiteLLM, before the words of whom it asked
    "contextwindowexceedederror",
    // Gemini
    "exceeds the maximum number of tokens",
];

/// Codes and words that mean that there is no money or quota left.
const SPENT_CODES: [&str; 2] = ["insufficient_quota", "billing_error"];
const SPENT_WORDS: [&str; 3] =
    ["credit balance is too low", "insufficient credits", "exceeded your current quota"];

/// What an API says of an error.
#[derive(Debug, Default)]
struct Said {
    message: String,
    kind: String,
    code: String,
    /// Whether a moderation has flagged the request.
    is_flagged: bool,
}

/// The error of a response with this status, body and `Retry-After`.
pub(crate) fn of_response(status: u16, body: &[u8], retry_after: Option<Duration>) -> ErrorKind {
    let text = String::from_utf8_lossy(body);
    let said = match toolbus_json::from_str::<Value>(&text, &ERROR_LIMITS) {
        Ok(value) => Said::read(&value),
        // A page of a proxy says nothing but its status.
        Err(_) if text.trim_start().starts_with('<') => Said::default(),
        Err(_) => Said { message: bounded(&text), ..Said::default() },
    };
    said.into_kind(status, retry_after)
}

/// The error of an event in the stream of an answer.
pub(crate) fn in_stream(event: &Value) -> ErrorKind {
    let said = Said::read(event);
    let status = said.code.parse().ok().filter(|code| (400..600).contains(code));
    let status = status.unwrap_or_else(|| said.status());
    said.into_kind(status, None)
}

/// A text of an API, cut and without control characters.
pub(crate) fn bounded(text: &str) -> String {
    let plain = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut bounded: String = plain.take(MESSAGE_CHARS_MAX + 1).collect();
    if let Some((end, _)) = bounded.char_indices().nth(MESSAGE_CHARS_MAX) {
        bounded.truncate(end);
        bounded.push('…');
    }
    bounded
}

impl Said {
    fn read(value: &Value) -> Self {
        // Gemini has a list with one error.
        let value = value.get(0).unwrap_or(value);
        let error = match &value["error"] {
            Value::Null => value,
            error => error,
        };
        let text = |value: &Value| match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => String::new(),
        };

        let metadata = &error["metadata"];
        let mut message = match error {
            Value::String(message) => message.clone(),
            _ => text(&error["message"]),
        };
        if message.is_empty() {
            message = text(&value["detail"]);
        }
        // OpenRouter's own message is that its provider has failed; this is what that said.
        if let Some(raw) = metadata["raw"].as_str() {
            message = format!("{message}: {raw}");
        }
        let code = error.get("code").filter(|code| !code.is_null());
        Self {
            message: bounded(&message),
            kind: text(&error["type"]),
            code: text(code.unwrap_or(&Value::Null)),
            is_flagged: metadata["reasons"].is_array() || metadata["flagged_input"].is_string(),
        }
    }

    /// The status that an error without one would have.
    fn status(&self) -> u16 {
        match self.kind.as_str() {
            "invalid_request_error" | "exceed_context_size_error" => 400,
            "authentication_error" => 401,
            "permission_error" => 403,
            "not_found_error" => 404,
            "request_too_large" => 413,
            "rate_limit_error" | "rate_limit_exceeded" => 429,
            "overloaded_error" => 529,
            _ => 500,
        }
    }

    fn into_kind(self, status: u16, retry_after: Option<Duration>) -> ErrorKind {
        let is_too_long = self.is_too_long(status);
        let is_spent = self.is_spent(status);
        let message = match self.message {
            message if message.is_empty() => "it does not say why".to_owned(),
            message => message,
        };
        match status {
            _ if is_too_long => ErrorKind::ContextTooLong { message },
            _ if is_spent => ErrorKind::QuotaSpent { message },
            403 if self.is_flagged => ErrorKind::Refused { status, message },
            401 | 403 => ErrorKind::Unauthenticated { status, message },
            429 => ErrorKind::RateLimited { message, retry_after },
            408 | 409 | 425 | 500.. => ErrorKind::Overloaded { status, message, retry_after },
            _ => ErrorKind::Refused { status, message },
        }
    }

    fn is_too_long(&self, status: u16) -> bool {
        // Limits of rates are about tokens as well.
        if matches!(status, 401..=403 | 429) || self.code == "rate_limit_exceeded" {
            return false;
        }
        let is_code = |text: &str| TOO_LONG_CODES.contains(&text);
        let message = self.message.to_lowercase();
        is_code(&self.code)
            || is_code(&self.kind)
            || TOO_LONG_WORDS.iter().any(|words| message.contains(words))
            || status == 413
    }

    fn is_spent(&self, status: u16) -> bool {
        let is_code = |text: &str| SPENT_CODES.contains(&text);
        let message = self.message.to_lowercase();
        status == 402
            || is_code(&self.code)
            || is_code(&self.kind)
            || (status < 500 && SPENT_WORDS.iter().any(|words| message.contains(words)))
    }
}

#[cfg(test)]
mod tests;
