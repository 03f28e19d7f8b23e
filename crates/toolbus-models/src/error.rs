//! Why a model gave no complete answer.
//!
//! Errors are plain data: they are compared, stored with a session and read again. What an API says
//! is quoted, bounded and without the key; no error holds an address or a header.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::completion::Completion;

/// Why there is no complete answer, and what there is of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{kind}")]
pub struct ModelError {
    /// What went wrong.
    pub kind: ErrorKind,
    /// What had come before that, where something had. Calls that were not finished are not in it.
    pub partial: Option<Box<Completion>>,
}

/// What went wrong with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Too many requests or tokens within some time.
    #[error("the model's rate limit is reached: {message}")]
    RateLimited {
        /// What the API says.
        message: String,
        /// How long it says to wait.
        retry_after: Option<Duration>,
    },
    /// The API is overloaded, or broken in itself.
    #[error("the model's API is not able to answer ({status}): {message}")]
    Overloaded {
        /// The status of HTTP; 200 where the answer had begun.
        status: u16,
        /// What the API says.
        message: String,
        /// How long it says to wait.
        retry_after: Option<Duration>,
    },
    /// The request, with the answer that it asks for, is longer than the model's context.
    #[error("the request does not fit the model's context: {message}")]
    ContextTooLong {
        /// What the API says.
        message: String,
    },
    /// The API does not know who asks, or does not let them.
    #[error("the model's API refused the key ({status}): {message}")]
    Unauthenticated {
        /// The status of HTTP.
        status: u16,
        /// What the API says.
        message: String,
    },
    /// The account has no money or quota left.
    #[error("the account has nothing left to spend: {message}")]
    QuotaSpent {
        /// What the API says.
        message: String,
    },
    /// The API does not take this request.
    #[error("the model's API refused the request ({status}): {message}")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// What the API says.
        message: String,
    },
    /// The answer ended too early, or is none that can be read.
    #[error("the answer of the model broke off: {problem}")]
    BrokenStream {
        /// What is wrong with it.
        problem: String,
    },
    /// The answer is larger than it may be.
    #[error("the answer of the model is too large: {limit}")]
    TooLarge {
        /// Which limit it is over.
        limit: String,
    },
    /// Something took too long.
    #[error("the model's time is up: {phase}")]
    TimedOut {
        /// What it was.
        phase: TimedPhase,
    },
    /// There is no connection to the API.
    #[error("the model's API cannot be reached: {reason}")]
    Unreachable {
        /// Why not, without the address.
        reason: String,
    },
    /// The key cannot be had.
    #[error("there is no key for the model: {reason}")]
    NoKey {
        /// Why not, in words without a path.
        reason: String,
    },
}

/// What has a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum TimedPhase {
    /// The TCP and TLS connection.
    #[error("no connection")]
    Connecting,
    /// From the request to the first event, and from each event to the next.
    #[error("nothing came")]
    NextEvent,
    /// The whole answer.
    #[error("the answer did not end")]
    WholeAnswer,
}

impl ModelError {
    /// Whether the same request may succeed when it is made again. Never where a part of an answer
    /// has come.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.partial.is_none() && self.kind.is_transient()
    }
}

impl ErrorKind {
    /// Whether it may be otherwise the next time.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::BrokenStream { .. }
            | Self::TimedOut { phase: TimedPhase::Connecting | TimedPhase::NextEvent }
            | Self::Unreachable { .. } => true,
            Self::ContextTooLong { .. }
            | Self::Unauthenticated { .. }
            | Self::QuotaSpent { .. }
            | Self::Refused { .. }
            | Self::TooLarge { .. }
            | Self::NoKey { .. }
            // It would take as long again.
            | Self::TimedOut { phase: TimedPhase::WholeAnswer } => false,
        }
    }

    /// Whether it is the fault of this model's API or account rather than of the request, so that
    /// another model may answer it. A model that does not exist is such a fault.
    #[must_use]
    pub fn is_of_model(&self) -> bool {
        match self {
            Self::Unauthenticated { .. }
            | Self::QuotaSpent { .. }
            | Self::NoKey { .. }
            | Self::TimedOut { .. } => true,
            Self::Refused { status, .. } => *status == 404,
            _ => self.is_transient(),
        }
    }

    /// Which of them it is, for metrics.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self {
            Self::RateLimited { .. } => "rate_limited",
            Self::Overloaded { .. } => "overloaded",
            Self::ContextTooLong { .. } => "context_too_long",
            Self::Unauthenticated { .. } => "unauthenticated",
            Self::QuotaSpent { .. } => "quota_spent",
            Self::Refused { .. } => "refused",
            Self::BrokenStream { .. } => "broken_stream",
            Self::TooLarge { .. } => "too_large",
            Self::TimedOut { .. } => "timeout",
            Self::Unreachable { .. } => "unreachable",
            Self::NoKey { .. } => "no_key",
        }
    }

    /// How long the API says to wait before the next request.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::RateLimited { retry_after, .. } | Self::Overloaded { retry_after, .. } => {
                *retry_after
            }
            _ => None,
        }
    }
}

impl From<ErrorKind> for ModelError {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, partial: None }
    }
}
