//! The requests of a server to its client: how many there may be at a time, and which of them the
//! server has taken back.
//!
//! A request has its place from its arrival until the sending of its reply has ended. It keeps it
//! when the server takes it back, for its reply may be on its way already. So what a server costs
//! here is bounded, whatever it sends and however slowly it takes replies.

use std::collections::HashMap;

use parking_lot::Mutex;
use rmcp::model::RequestId;
use tokio_util::sync::CancellationToken;

/// Most requests of the server that are not answered yet; more are dropped.
const SERVER_REQUESTS_MAX: usize = 64;
/// Longest id of a request that is text, in bytes; a request with a longer one is dropped.
const ID_BYTES_MAX: usize = 256;

/// The requests of one server that are not answered yet, by their ids.
#[derive(Default)]
pub(super) struct ServerRequests(Mutex<HashMap<RequestId, CancellationToken>>);

/// Fires when the server takes a request back. It is in the request's extensions, which are never
/// sent.
#[derive(Clone)]
pub(crate) struct Withdrawn(CancellationToken);

impl Withdrawn {
    /// Waits until the server takes the request back.
    pub(crate) async fn wait(&self) {
        self.0.cancelled().await;
    }
}

/// Why a request has no place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdmitted {
    TooMany,
    /// A request with this id is not answered yet: a reply could be to either.
    IdInUse,
    IdTooLong,
}

impl NotAdmitted {
    /// The reason, for the log.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Self::TooMany => "too many at a time",
            Self::IdInUse => "its id is in use",
            Self::IdTooLong => "its id is too long",
        }
    }
}

impl ServerRequests {
    /// Gives a request its place.
    pub(super) fn try_admit(&self, id: &RequestId) -> Result<Withdrawn, NotAdmitted> {
        if matches!(id, RequestId::String(text) if text.len() > ID_BYTES_MAX) {
            return Err(NotAdmitted::IdTooLong);
        }

        let mut requests = self.0.lock();
        if requests.contains_key(id) {
            return Err(NotAdmitted::IdInUse);
        }
        if requests.len() >= SERVER_REQUESTS_MAX {
            return Err(NotAdmitted::TooMany);
        }

        let withdrawn = CancellationToken::new();
        requests.insert(id.clone(), withdrawn.clone());
        Ok(Withdrawn(withdrawn))
    }

    /// Notes that the server has taken a request back. Its place is free when its handler has ended
    /// and its reply is not waiting to be sent.
    pub(super) fn withdraw(&self, id: &RequestId) {
        if let Some(withdrawn) = self.0.lock().get(id) {
            withdrawn.cancel();
        }
    }

    /// Whether the server has taken this request back, and waits for no reply.
    pub(super) fn is_withdrawn(&self, id: &RequestId) -> bool {
        self.0.lock().get(id).is_some_and(CancellationToken::is_cancelled)
    }

    /// Frees the place of a request whose reply was sent, or will not be.
    pub(super) fn finish(&self, id: &RequestId) {
        self.0.lock().remove(id);
    }
}

#[cfg(test)]
mod tests;
