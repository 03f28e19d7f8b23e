//! Errors of tool calls: a code for programs, and a text that says what happened and what to do.
//! Neither has the key in it.

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::{client, key};

#[cfg(test)]
mod tests;

/// Why a tool call failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments do not fit the tool.
    #[error("the arguments are wrong: {0}")]
    Arguments(String),
    /// There is no API key.
    #[error(transparent)]
    Key(#[from] key::Error),
    /// As many calls are running as are allowed at once.
    #[error("too many calls are running")]
    Busy,
    /// The caller cancelled the call.
    #[error("the call was cancelled")]
    Cancelled,
    /// OpenRouter answered with an error status.
    #[error("OpenRouter API error {status} for '{}': {message}", endpoint.path())]
    Refused {
        /// The HTTP status, 400 or higher.
        status: u16,
        /// What was asked for.
        endpoint: Box<Endpoint>,
        /// What OpenRouter says about it, shortened.
        message: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// The answer is not what OpenRouter's API returns.
    #[error("OpenRouter's answer for '{path}' cannot be used: {what}")]
    Unusable {
        /// What was asked for.
        path: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// The answer is larger than the setting allows.
    #[error("OpenRouter's answer for '{path}' has more than {bytes_max} bytes")]
    TooLarge {
        /// What was asked for.
        path: String,
        /// The limit.
        bytes_max: usize,
    },
    /// OpenRouter did not answer in time.
    #[error("OpenRouter did not answer '{path}' within {timeout:?}")]
    Timeout {
        /// What was asked for.
        path: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// No connection to OpenRouter could be made.
    #[error("OpenRouter cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The connection ended in the middle of the answer.
    #[error("OpenRouter's answer for '{path}' ended too early")]
    Broken {
        /// What was asked for.
        path: String,
        /// How it ended.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// What an answer of OpenRouter is limited to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AnswerLimits {
    /// For one request, from its start to the end of its answer.
    pub(crate) timeout: Duration,
    pub(crate) bytes_max: usize,
}

impl Error {
    /// The error of a request to this endpoint, which had these limits.
    pub(crate) fn from_client(
        error: client::Error,
        endpoint: &Endpoint,
        limits: AnswerLimits,
    ) -> Self {
        let path = endpoint.path();
        match error {
            client::Error::Timeout => Self::Timeout { path, timeout: limits.timeout },
            client::Error::Connect(error) => Self::Unreachable(error.into()),
            client::Error::Broken(error) => Self::Broken { path, source: error.into() },
            client::Error::TooLarge => Self::TooLarge { path, bytes_max: limits.bytes_max },
        }
    }

    /// The stable code of the error, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Arguments(_) => "invalid_arguments",
            Self::Key(_) => "no_api_key",
            Self::Busy => "busy",
            Self::Cancelled => "cancelled",
            Self::Refused { status, .. } => match status {
                401 => "unauthorized",
                402 => "payment_required",
                403 => "forbidden",
                404 => "not_found",
                408 | 504 | 524 => "timeout",
                429 => "rate_limited",
                500.. => "upstream_failed",
                _ => "refused",
            },
            Self::Unusable { .. } => "unusable_answer",
            Self::TooLarge { .. } => "too_large",
            Self::Timeout { .. } => "timeout",
            Self::Unreachable(_) => "unreachable",
            Self::Broken { .. } => "broken_answer",
        }
    }

    /// Whether the same call may succeed later without anybody changing anything.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.code(),
            "busy"
                | "timeout"
                | "rate_limited"
                | "upstream_failed"
                | "unreachable"
                | "broken_answer"
        )
    }

    /// What the caller can do about it.
    fn advice_text(&self) -> String {
        let advice = match self {
            Self::Arguments(_) => "Correct them and call again.",
            Self::Key(_) => {
                "The operator of openrouter-mcp has to set OPENROUTER_API_KEY, or the file that \
                 OPENROUTER_API_KEY_FILE names; calling again does not help before."
            }
            Self::Busy => "Try again in a moment.",
            Self::Cancelled => "",
            Self::Refused { status: 429, retry_after: Some(wait), .. } => {
                return format!("Try again in {} s, not earlier.", wait.as_secs());
            }
            Self::Refused { status, endpoint, .. } => advice_for_status(*status, endpoint),
            Self::Unusable { .. } => {
                "Something else than OpenRouter may have answered: the operator should look at \
                 openrouter.base_url and at what is in between."
            }
            Self::TooLarge { .. } => "Ask for less (list_models takes limit and filters).",
            Self::Timeout { .. } | Self::Unreachable(_) | Self::Broken { .. } => {
                "Nothing was changed; try again in a moment."
            }
        };

        advice.to_owned()
    }

    /// What happened and what to do, in a sentence or two.
    fn full_text(&self) -> String {
        let what = self.to_string();
        let advice = self.advice_text();
        format!("{}. {advice}", what.trim_end_matches('.')).trim_end().to_owned()
    }

    /// The failed tool result: a text for the model, a structured value for programs.
    #[must_use]
    pub fn to_tool_result(&self) -> CallToolResult {
        let text = self.full_text();
        let mut error =
            json!({"code": self.code(), "message": text, "isRetryable": self.is_retryable()});
        if let Self::Refused { status, retry_after, .. } = self {
            error["httpStatus"] = json!(status);
            error["retryAfterMs"] =
                retry_after.map_or(Value::Null, |wait| json!(wait.as_millis() as u64));
        }

        let mut result = CallToolResult::error(vec![ContentBlock::text(text)]);
        result.structured_content = Some(json!({ "error": error }));
        result
    }
}

/// What the caller can do about an error status of this endpoint.
fn advice_for_status(status: u16, endpoint: &Endpoint) -> &'static str {
    let manages = matches!(endpoint, Endpoint::Keys | Endpoint::Key(_) | Endpoint::Credits);
    match (status, endpoint) {
        (401 | 403, _) if manages => {
            "This needs a management key, and the one that is set is none or is no longer valid: \
             the operator has to set another one."
        }
        (401, _) => "The API key is not valid: the operator has to set another one.",
        (402, _) => "The account has no credits left, or the key has reached its limit.",
        (403, _) => "The API key may not do this.",
        (404, Endpoint::Key(_)) => "No key has this hash; list_api_keys tells the hashes.",
        (404, Endpoint::Generation(_)) => {
            "No generation has this id, or it ended just now: then try again in a few seconds."
        }
        (404, _) => "The operator should look at openrouter.base_url.",
        (429, _) => "Wait a minute before trying again.",
        (408, _) | (500.., _) => "The trouble is OpenRouter's; try again in a moment.",
        _ => "Correct the arguments.",
    }
}
