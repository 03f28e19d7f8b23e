//! Why the broker cannot be had, and what the broker's own errors mean.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use lapin::ErrorKind;
use lapin::protocol::{AMQPErrorKind, AMQPHardError, AMQPSoftError};

use crate::config::Address;

/// Why there is no connection to the broker.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The address is not a URL of a broker. It is not repeated, for it may hold a password.
    #[error("the broker's address is not a url of the form amqp://user:password@host:port/vhost")]
    InvalidUrl,
    /// A setting that cannot be used.
    #[error("the settings of the broker cannot be used: {0}")]
    InvalidConfig(&'static str),
    /// The file with the password cannot be used.
    #[error("the broker's password cannot be read from {}", file.display())]
    Password {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// No broker answers there, or not in AMQP.
    #[error("the broker at {address} cannot be reached")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What happened.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The handshake did not come to its end.
    #[error("the broker at {address} did not answer within {limit:?}")]
    TimedOut {
        /// Host and port.
        address: String,
        /// How long one attempt may take.
        limit: Duration,
    },
    /// User or password are wrong.
    #[error("the broker at {address} refused the user {user} or the password")]
    WrongCredentials {
        /// Host and port.
        address: String,
        /// The user's name.
        user: String,
    },
    /// The virtual host does not exist, or not for this user.
    #[error("the broker at {address} refused the virtual host {virtual_host}: {reason}")]
    VirtualHost {
        /// Host and port.
        address: String,
        /// Name of the virtual host.
        virtual_host: String,
        /// What the broker said.
        reason: String,
    },
    /// The broker refused something else, such as the declaration of an exchange.
    #[error("the broker at {address} refused: {reason}")]
    Refused {
        /// Host and port.
        address: String,
        /// What the broker said.
        reason: String,
    },
}

impl ConnectError {
    pub(crate) fn of(error: &lapin::Error, address: &Address) -> Self {
        let to = address.to_string();
        let reason = reason(error);
        match protocol_error(error) {
            Some(AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED)) if reason.contains("ogin") => {
                Self::WrongCredentials { address: to, user: address.user().to_owned() }
            }
            Some(AMQPErrorKind::Hard(AMQPHardError::NOTALLOWED | AMQPHardError::INVALIDPATH)) => {
                let virtual_host = address.virtual_host().to_owned();
                Self::VirtualHost { address: to, virtual_host, reason }
            }
            Some(_) => Self::Refused { address: to, reason },
            None => Self::Unreachable { address: to, source: Box::new(error.clone()) },
        }
    }

    /// Whether to try again is of no use before somebody has changed something.
    pub(crate) fn is_final(&self) -> bool {
        matches!(
            self,
            Self::InvalidUrl
                | Self::InvalidConfig(_)
                | Self::Password { .. }
                | Self::WrongCredentials { .. }
                | Self::VirtualHost { .. }
        )
    }

    /// Whether it is the word of one node, so that another one may have a better word.
    pub(crate) fn is_of_one_node(&self) -> bool {
        !matches!(self, Self::InvalidUrl | Self::InvalidConfig(_) | Self::Password { .. })
    }

    /// The error with its cause, in one line, for people.
    pub(crate) fn with_cause(&self) -> String {
        match self {
            Self::Unreachable { source, .. } => format!("{self}: {source}"),
            Self::Password { source, .. } => format!("{self}: {source}"),
            other => other.to_string(),
        }
    }
}

/// What kind of error the broker sent, when it was the broker.
pub(crate) fn protocol_error(error: &lapin::Error) -> Option<AMQPErrorKind> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.kind().clone()),
        _ => None,
    }
}

/// Whether the broker closed a channel for this reason.
pub(crate) fn is_soft(error: &lapin::Error, kind: &AMQPSoftError) -> bool {
    matches!(protocol_error(error), Some(AMQPErrorKind::Soft(soft)) if soft == *kind)
}

/// Whether the broker has the queue and cannot reach it now, because the node that it lives on is
/// down for example. The other answer of the same code is that there is no such queue.
pub(crate) fn is_queue_away(error: &lapin::Error) -> bool {
    is_soft(error, &AMQPSoftError::NOTFOUND) && !reason(error).starts_with("NOT_FOUND - no ")
}

/// What happened, in the broker's own words where it was the broker.
pub(crate) fn reason(error: &lapin::Error) -> String {
    match error.kind() {
        ErrorKind::ProtocolError(error) => error.get_message().to_string(),
        _ => error.to_string(),
    }
}
