//! The phase of a server's connection, and its circuit breaker.
//!
//! The circuit is closed while the server is connected, and while an attempt to connect is worth
//! waiting for. It opens with the third failure since the server was last connected: calls are then
//! refused at once, and no attempt is made for them. It is half-open during the attempts that the
//! connector makes by itself with its growing backoff, and closes with the first that succeeds.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::super::ServerState;
use crate::connection::{Connection, StartWatch};
use crate::failure::Failure;

/// Failures since the server was last connected that open the circuit. The loss of the connection
/// is one of them, so that a server that was lost is tried twice before.
const FAILURES_BEFORE_OPEN: u32 = 3;
/// How long a call should wait that comes while the attempt is being made that may close the
/// circuit.
const HALF_OPEN_BACKOFF: Duration = Duration::from_secs(1);

/// The phase of a server's connection.
#[derive(Clone)]
pub(super) enum ConnectionPhase {
    Configured,
    /// Another bridge has the server.
    Standby,
    /// An attempt is being made, after the one that failed.
    Starting(Arc<StartWatch>, Option<Arc<FailedAttempt>>),
    Connected(Arc<Connection>, Instant),
    Failed(Arc<FailedAttempt>),
    Disabled,
    Stopped,
}

pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    /// Counts every attempt there was.
    pub(super) attempt: u64,
    pub(super) failed_in_a_row: u32,
    /// Failures since the server was last connected, the loss of that connection included.
    pub(super) failed_since_connected: u32,
    pub(super) at: Instant,
    pub(super) next_at: Instant,
}

impl ConnectionPhase {
    /// The state of the connection, for people.
    pub(super) fn state(&self, tool_count: usize) -> ServerState {
        match self {
            Self::Configured => ServerState::Configured,
            Self::Starting(watch, None) => ServerState::Starting(watch.progress()),
            Self::Standby => ServerState::Standby,
            Self::Disabled => ServerState::Disabled,
            Self::Stopped => ServerState::Stopped,
            Self::Connected(connection, since) => ServerState::Connected {
                since: since.elapsed(),
                tools: tool_count,
                protocol: connection.identity.protocol.clone(),
            },
            // A server that is retried is as failed as it was: what people see does not flap. A
            // call may have had the attempt made long before its time.
            Self::Starting(_, Some(failed)) => failed.state(Duration::ZERO),
            Self::Failed(failed) => {
                failed.state(failed.next_at.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// Since when the first attempt to connect is being made, if it is; one that is about to be
    /// made begins now.
    pub(super) fn connecting_since(&self) -> Option<Instant> {
        match self {
            Self::Configured => Some(Instant::now()),
            Self::Starting(watch, None) => Some(watch.began()),
            _ => None,
        }
    }

    /// The failure for which calls are refused at once, and how long they should wait.
    pub(super) fn open_circuit(&self) -> Option<(&Failure, Duration)> {
        match self {
            Self::Failed(failed) if failed.is_circuit_open() => {
                Some((&failed.failure, failed.next_at.saturating_duration_since(Instant::now())))
            }
            Self::Starting(_, Some(failed)) if failed.is_circuit_open() => {
                Some((&failed.failure, HALF_OPEN_BACKOFF))
            }
            _ => None,
        }
    }
}

impl FailedAttempt {
    /// Whether calls are refused at once until an attempt to connect succeeds. A login is waited
    /// for, and so is a credential: with it, the next call may succeed.
    pub(super) fn is_circuit_open(&self) -> bool {
        let Failure { needs_login, needs_credential, .. } = self.failure;
        self.failed_since_connected >= FAILURES_BEFORE_OPEN && !needs_login && !needs_credential
    }

    fn state(&self, next_try_in: Duration) -> ServerState {
        ServerState::Failed {
            failure: self.failure.clone(),
            attempts: self.failed_in_a_row,
            next_try_in,
            is_circuit_open: self.is_circuit_open(),
        }
    }
}
