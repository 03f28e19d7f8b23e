//! What becomes of a call that has no answer: a code for programs, and a text that says what
//! happened and what to do. Neither has the key in it.

use std::time::Duration;

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::endpoint::Endpoint;
use crate::{getter, key};

#[cfg(test)]
mod tests;

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The arguments are not those of the tool.
    #[error("the arguments are wrong: {0}")]
    Arguments(String),
    /// There is no key to ask with.
    #[error(transparent)]
    Key(#[from] key::Error),
    /// As many calls run as may.
    #[error("too many calls are running")]
    Busy,
    /// The caller gave the call up.
    #[error("the call was cancelled")]
    Cancelled,
    /// OpenRouter says no.
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
    /// It answers, but not as its API does.
    #[error("OpenRouter's answer for '{path}' cannot be used: {what}")]
    Unusable {
        /// What was asked for.
        path: String,
        /// What is wrong with the answer.
        what: String,
    },
    /// The answer is larger than is passed on.
    #[error("OpenRouter's answer for '{path}' has more than {bytes_max} bytes")]
    TooLarge {
        /// What was asked for.
        path: String,
        /// The limit.
        bytes_max: usize,
    },
    /// It does not answer in time.
    #[error("OpenRouter did not answer '{path}' within {timeout:?}")]
    Timeout {
        /// What was asked for.
        path: String,
        /// How long was waited.
        timeout: Duration,
    },
    /// It cannot be reached.
    #[error("OpenRouter cannot be reached")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// It went away in the middle of its answer.
    #[error("OpenRouter's answer for '{path}' ended too early")]
    Broken {
        /// What was asked for.
        path: String,
        /// How it ended.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Error {
    pub(crate) fn of_getter(
        error: getter::Error,
        endpoint: &Endpoint,
        limits: (Duration, usize),
    ) -> Self {
        let path = endpoint.path();
        match error {
            getter::Error::Timeout => Self::Timeout { path, timeout: limits.0 },
            getter::Error::Connect(error) => Self::Unreachable(error.into()),
            getter::Error::Broken(error) => Self::Broken { path, source: error.into() },
            getter::Error::TooLarge => Self::TooLarge { path, bytes_max: limits.1 },
        }
    }

    /// The kind of error: a short word that stays.
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

    /// Whether the same call may succeed later without anybody doing anything.
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

    /// What whoever called can do about it.
    fn advice(&self) -> String {
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
            Self::Refused { status, endpoint, .. } => of_status(*status, endpoint),
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

    /// All that is to be told of it, in a sentence or two.
    fn text(&self) -> String {
        let (what, advice) = (self.to_string(), self.advice());
        let what = what.trim_end_matches('.');
        format!("{what}. {advice}").trim_end().to_owned()
    }

    /// It as a result that says it failed: for the model as text, for programs as a value.
    #[must_use]
    pub fn result(&self) -> CallToolResult {
        let text = self.text();
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

fn of_status(status: u16, endpoint: &Endpoint) -> &'static str {
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
