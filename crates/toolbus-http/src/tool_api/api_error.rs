//! Why a request has no data: one code of a closed table, with its status.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolbus_store::Error as StoreError;
use toolbus_tools::CallError;
use toolbus_tools::visitors::VisitorError;
use toolbus_wire::ErrorCode;
use utoipa::ToSchema;

use super::answer::Payload;
use super::keys::SecretError;

/// How long a client waits before it asks again, where nothing better is known.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);

/// The codes of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ApiErrorCode {
    /// A field of the request cannot be used.
    InvalidRequest,
    /// The arguments are not what the tool's schema asks for.
    InvalidArguments,
    /// A field of the request is missing.
    MissingRequiredField,
    /// The body is not JSON.
    InvalidJson,
    /// The server of the tool is not installed or not enabled.
    ToolNotInstalled,
    /// There is no key.
    Unauthorized,
    /// The key is not valid.
    InvalidToken,
    /// The key does not have the right.
    Forbidden,
    /// No tool has this name.
    ToolNotFound,
    /// The caller has no job of this id.
    JobNotFound,
    /// No server has this name.
    ServerNotFound,
    /// No pack has this name.
    PackNotFound,
    /// Too many requests in a short time.
    RateLimited,
    /// The requests of the month are used up.
    QuotaExceeded,
    /// The tool was started and failed.
    ExecutionError,
    /// A mistake of the server.
    InternalError,
    /// What is needed cannot be reached now.
    ServiceUnavailable,
    /// The tool did not end in time.
    ExecutionTimeout,
}

impl ApiErrorCode {
    /// All of them.
    pub const ALL: [Self; 18] = [
        Self::InvalidRequest,
        Self::InvalidArguments,
        Self::MissingRequiredField,
        Self::InvalidJson,
        Self::ToolNotInstalled,
        Self::Unauthorized,
        Self::InvalidToken,
        Self::Forbidden,
        Self::ToolNotFound,
        Self::JobNotFound,
        Self::ServerNotFound,
        Self::PackNotFound,
        Self::RateLimited,
        Self::QuotaExceeded,
        Self::ExecutionError,
        Self::InternalError,
        Self::ServiceUnavailable,
        Self::ExecutionTimeout,
    ];

    /// The status of an answer with this code.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::InvalidRequest
            | Self::InvalidArguments
            | Self::MissingRequiredField
            | Self::InvalidJson
            | Self::ToolNotInstalled => StatusCode::BAD_REQUEST,
            Self::Unauthorized | Self::InvalidToken => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::ToolNotFound | Self::JobNotFound | Self::ServerNotFound | Self::PackNotFound => {
                StatusCode::NOT_FOUND
            }
            Self::RateLimited | Self::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
            Self::ExecutionError | Self::InternalError => StatusCode::INTERNAL_SERVER_ERROR,
            Self::ServiceUnavailable => StatusCode::SERVICE_UNAVAILABLE,
            Self::ExecutionTimeout => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Whether a client may send the same request again after it has waited.
    #[must_use]
    pub const fn says_when_to_retry(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::QuotaExceeded
                | Self::ServiceUnavailable
                | Self::ExecutionTimeout
        )
    }
}

/// What a client is told of an error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// Which one it is.
    pub code: ApiErrorCode,
    /// The same in words.
    pub message: String,
    /// What a program can use of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schema(value_type = Option<Object>)]
    pub details: Option<Value>,
    /// After how many seconds the request may be sent again.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<u64>,
}

/// An error of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ApiError {
    pub(crate) body: Box<ErrorBody>,
    /// Where HTTP has a status of its own for it.
    status: Option<StatusCode>,
}

impl ApiError {
    pub(crate) fn new(code: ApiErrorCode, message: impl Into<String>) -> Self {
        let retry_after = code.says_when_to_retry().then(|| whole_seconds(RETRY_BACKOFF));
        let body = ErrorBody { code, message: message.into(), details: None, retry_after };
        Self { body: Box::new(body), status: None }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ApiErrorCode::InvalidRequest, message)
    }

    pub(crate) fn with_details(mut self, details: Value) -> Self {
        self.body.details = Some(details);
        self
    }

    pub(crate) fn with_status(self, status: StatusCode) -> Self {
        Self { status: Some(status), ..self }
    }

    pub(crate) fn with_retry_after(mut self, wait: Duration) -> Self {
        self.body.retry_after = Some(whole_seconds(wait));
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status.unwrap_or_else(|| self.body.code.status())
    }

    /// The error of a call of a tool.
    pub(crate) fn of_call(tool: &str, error: &CallError) -> Self {
        let code = code_of(error);
        let api_error = Self::new(code, error.message.clone());
        let api_error = match error.retry_after {
            Some(wait) if code.says_when_to_retry() => api_error.with_retry_after(wait),
            _ => api_error,
        };

        let mut details = json!({"tool_name": tool, "execution": error.execution.as_str()});
        if let Some(more) = &error.details {
            details["cause"] = Value::clone(more);
        }
        if code == ApiErrorCode::ExecutionError {
            details["tool_error"] = json!(error.message);
        }
        api_error.with_details(details)
    }
}

fn code_of(error: &CallError) -> ApiErrorCode {
    match &error.code {
        ErrorCode::ToolNotFound => ApiErrorCode::ToolNotFound,
        ErrorCode::InvalidArguments => ApiErrorCode::InvalidArguments,
        ErrorCode::Timeout => ApiErrorCode::ExecutionTimeout,
        ErrorCode::Denied | ErrorCode::AuthRequired => ApiErrorCode::Forbidden,
        ErrorCode::RateLimited => match is_of_month(error) {
            true => ApiErrorCode::QuotaExceeded,
            false => ApiErrorCode::RateLimited,
        },
        ErrorCode::Busy | ErrorCode::Unroutable | ErrorCode::Cancelled => {
            ApiErrorCode::ServiceUnavailable
        }
        // Failed, lost, or by a code of a later version.
        _ => ApiErrorCode::ExecutionError,
    }
}

/// Whether the limit that refused a call is one by the month.
fn is_of_month(error: &CallError) -> bool {
    error.details.as_ref().is_some_and(|details| details["per"] == "month")
}

/// Seconds, rounded up: who waits that long has waited long enough.
pub(crate) fn whole_seconds(wait: Duration) -> u64 {
    u64::try_from(wait.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX).max(1)
}

impl From<VisitorError> for ApiError {
    fn from(error: VisitorError) -> Self {
        match error {
            VisitorError::Unauthorized => Self::new(ApiErrorCode::Unauthorized, error.to_string()),
            _ => {
                let refused = Self::new(ApiErrorCode::Forbidden, error.to_string());
                refused.with_details(json!({"reason": error.code()}))
            }
        }
    }
}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> Self {
        // What is read of it later is no better: somebody has to see to it.
        let needs_repair = matches!(
            error,
            StoreError::Damaged(_)
                | StoreError::Newer { .. }
                | StoreError::ChangedMigration { .. }
                | StoreError::Conflict(_)
                | StoreError::Refused(_)
        );
        let error = &error as &dyn std::error::Error;
        if needs_repair {
            tracing::error!(error, "the store cannot be used for a request");
            return Self::new(ApiErrorCode::InternalError, "the state cannot be used");
        }
        tracing::warn!(error, "the store cannot be used for a request now");
        Self::new(ApiErrorCode::ServiceUnavailable, "the state cannot be reached for now")
    }
}

impl From<SecretError> for ApiError {
    fn from(error: SecretError) -> Self {
        match error {
            SecretError::Store(error) => error.into(),
            SecretError::Vault(error) => {
                tracing::error!(%error, "the vault cannot be used for a request");
                Self::new(ApiErrorCode::InternalError, "the vault cannot be used")
            }
        }
    }
}

impl From<toolbus_store::sqlx::Error> for ApiError {
    fn from(error: toolbus_store::sqlx::Error) -> Self {
        StoreError::from(error).into()
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = self.status().into_response();
        response.extensions_mut().insert(Payload::Error(*self.body));
        response
    }
}

#[cfg(test)]
mod tests;
