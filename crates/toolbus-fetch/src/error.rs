//! Why nothing was fetched. The texts are for models: no credential is in them.

use std::time::Duration;

use crate::address::NotPublic;

/// Why nothing was fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The scheme of the URL is another.
    #[error("the scheme '{0}' is not supported: only http and https are")]
    Scheme(String),
    /// The URL has a user or a password in it, which would be sent.
    #[error("the URL has a user name or a password in it")]
    UserInfo,
    /// Nothing public is there.
    #[error("{0} is not on the public Internet, and not among the hosts that are allowed")]
    NotPublic(String),
    /// It goes on and on.
    #[error("there were more than {0} redirects")]
    Redirects(usize),
    /// It leads nowhere.
    #[error("the redirect cannot be followed: {0}")]
    Redirect(&'static str),
    /// The time is over.
    #[error("it took longer than {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// There is no connection.
    #[error("there is no connection to {host}: {reason}")]
    Unreachable {
        /// To whom.
        host: String,
        /// The root cause.
        reason: String,
    },
    /// There is no answer, though the request may have arrived.
    #[error("{host} did not answer: {reason}")]
    NoAnswer {
        /// Who.
        host: String,
        /// The root cause.
        reason: String,
    },
    /// There is too much of a body.
    #[error("it has more than {max} bytes")]
    TooLarge {
        /// How much there is, where that is said.
        bytes: Option<u64>,
        /// The limit.
        max: usize,
    },
    /// There is too much of headers.
    #[error("its headers have more than {0} bytes")]
    Headers(usize),
    /// It is packed in a way that is not read.
    #[error("its encoding cannot be read: {0}")]
    Encoding(String),
    /// It ends in the middle.
    #[error("it breaks off: {0}")]
    Broken(String),
    /// It cannot be sent.
    #[error("the request is wrong: {0}")]
    Request(String),
}

impl Error {
    /// Whether no byte of the request can have arrived.
    #[must_use]
    pub fn is_before_request(&self) -> bool {
        matches!(
            self,
            Self::Scheme(_)
                | Self::UserInfo
                | Self::NotPublic(_)
                | Self::Unreachable { .. }
                | Self::Request(_)
        )
    }

    /// What reqwest says, without the URL.
    pub(crate) fn of_request(error: &reqwest::Error, host: &str) -> Self {
        let mut cause = Some(error as &dyn std::error::Error);
        while let Some(this) = cause {
            if this.is::<NotPublic>() {
                return Self::NotPublic(host.to_owned());
            }
            cause = this.source();
        }

        let (host, reason) = (host.to_owned(), root_cause(error));
        if error.is_builder() {
            Self::Request(reason)
        } else if error.is_connect() {
            Self::Unreachable { host, reason }
        } else {
            Self::NoAnswer { host, reason }
        }
    }
}

/// The text of the root cause of an error: reqwest's own errors say less, and name the URL.
#[must_use]
pub fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
