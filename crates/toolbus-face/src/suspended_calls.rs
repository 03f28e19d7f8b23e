//! Suspended calls: their clients are away to answer questions, and come back within limits.
//!
//! In the era without sessions a question is the result of a request, and the client makes the
//! request again with the answers and with the state that it was given. The call goes on meanwhile;
//! its [`PendingCall`] is the only handle to it, so what is dropped here is cancelled there. A
//! state is of no use to anybody but the client that was given it: it cannot be guessed, it is good
//! once, and only for the same request of the same client.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, Implementation};
use rmcp::service::RequestContext;
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::slot::Kept;
use toolbus_tools::Principal;
use toolbus_wire::envelope::new_id;

use crate::pending_call::PendingCall;

/// Calls whose clients are away, over all paths: a quarter of those that may run beside them.
const SUSPENDED_MAX: usize = crate::limits::CALLS_MAX as usize / 4;
/// How long a client may stay away at a time. The call's own time goes on and may end before.
const SUSPENDED_TTL: Duration = Duration::from_secs(300);
/// Bytes of questions that wait for their answers, and of outcomes that wait for their clients.
pub const BYTES_MAX: usize = 64 << 20;
/// Bytes are counted in pieces of this size.
const PIECE_BYTES: usize = 1 << 10;
/// States that are no good any more and of which it is known why; the oldest are forgotten.
const ENDED_STATES_MAX: usize = 1_024;

/// The calls of all paths whose clients are away. Clones are the same.
#[derive(Clone)]
pub(crate) struct SuspendedCalls(Arc<SuspendedCallsInner>);

struct SuspendedCallsInner {
    table: Mutex<SuspendedTable>,
    room: Arc<Semaphore>,
    hasher: RandomState,
    /// Drives the calls that may be suspended, and looks at the time of those that are.
    tasks: TaskTracker,
    stop: CancellationToken,
    ttl: Duration,
}

#[derive(Default)]
struct SuspendedTable {
    calls: HashMap<String, SuspendedCall>,
    /// Why states are of no use any more, the latest last.
    ended: VecDeque<(String, StateError)>,
}

struct SuspendedCall {
    call: PendingCall,
    request: RequestIdentity,
    /// Ends the wait for the client.
    _wait: DropGuard,
}

/// What a request has to be to go on with a call: the one that began it, of the same client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestIdentity {
    /// The server of the path; none is the agent itself.
    pub(crate) server: Option<String>,
    pub(crate) method: &'static str,
    pub(crate) name: String,
    arguments: u64,
    /// Who it is from.
    principal: Principal,
    /// What the client says of itself.
    client: Option<Implementation>,
}

/// Why a state is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    /// It was never given to anybody, or is long forgotten.
    #[error("the request state is unknown here")]
    Unknown,
    /// It belongs to another request, or to another client.
    #[error("the request state belongs to another request")]
    Foreign,
    /// The call has gone on with it.
    #[error("the request state was used before")]
    Used,
    /// The client was away for too long, and the call is cancelled.
    #[error("the request state has expired and its call was cancelled")]
    Expired,
}

impl From<StateError> for ErrorData {
    fn from(error: StateError) -> Self {
        let reason = match error {
            StateError::Unknown => "unknown_state",
            StateError::Foreign => "foreign_state",
            StateError::Used => "used_state",
            StateError::Expired => "expired_state",
        };
        Self::invalid_params(error.to_string(), Some(json!({"reason": reason})))
    }
}

/// A request as its client made it.
#[derive(Clone, Copy)]
pub(crate) struct NamedRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) name: &'a str,
    pub(crate) arguments: &'a Value,
}

impl SuspendedCalls {
    pub(crate) fn new() -> Self {
        Self::with_ttl(SUSPENDED_TTL)
    }

    fn with_ttl(ttl: Duration) -> Self {
        Self(Arc::new(SuspendedCallsInner {
            table: Mutex::default(),
            room: Arc::new(Semaphore::new(BYTES_MAX / PIECE_BYTES)),
            hasher: RandomState::new(),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            ttl,
        }))
    }

    /// Which request this is.
    pub(crate) fn identity(
        &self,
        principal: &Principal,
        server: Option<&str>,
        request: NamedRequest<'_>,
        context: &RequestContext<RoleServer>,
    ) -> RequestIdentity {
        RequestIdentity {
            server: server.map(str::to_lowercase),
            method: request.method,
            name: request.name.to_owned(),
            arguments: self.0.hasher.hash_one(request.arguments),
            principal: principal.clone(),
            client: context.client_info(),
        }
    }

    /// Reserves room for a value of so many bytes; `None` when there is none.
    pub(crate) fn reserve_bytes(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).ok()?;
        Arc::clone(&self.0.room).try_acquire_many_owned(pieces).ok()
    }

    /// Runs the work of a call to its end, whoever waits for it.
    pub(crate) fn spawn_call(&self, call: impl Future<Output = ()> + Send + 'static) {
        self.0.tasks.spawn(call);
    }

    /// Does something for as long as the face is open.
    pub(crate) fn spawn_while_open(&self, what: impl Future<Output = ()> + Send + 'static) {
        let stop = self.0.stop.clone();
        self.0.tasks.spawn(async move {
            stop.run_until_cancelled(what).await;
        });
    }

    /// Suspends a call while its client is away, which frees its slot, and makes the state to come
    /// back with. Gives the call back when there is no room for it.
    pub(crate) fn suspend(
        &self,
        call: PendingCall,
        request: RequestIdentity,
    ) -> Result<String, Box<PendingCall>> {
        let mut table = self.0.table.lock();
        if table.calls.len() >= SUSPENDED_MAX || self.0.stop.is_cancelled() {
            return Err(Box::new(call));
        }

        call.slot.park(Kept::InMemory);
        // Two ids of 122 random bits each.
        let state = format!("{}.{}", new_id(), new_id());
        let back = CancellationToken::new();
        let entry = SuspendedCall { call, request, _wait: back.clone().drop_guard() };
        table.calls.insert(state.clone(), entry);
        drop(table);

        let (suspended, expiring) = (self.clone(), state.clone());
        self.0.tasks.spawn(async move {
            tokio::select! {
                () = back.cancelled() => {}
                () = tokio::time::sleep(suspended.0.ttl) => suspended.expire(&expiring),
            }
        });
        Ok(state)
    }

    /// The call that goes on with this state, which is used up by that.
    ///
    /// # Errors
    /// When there is none for this request. A request that is not the right one changes nothing.
    pub(crate) fn resume(
        &self,
        state: &str,
        request: &RequestIdentity,
    ) -> Result<PendingCall, StateError> {
        let mut table = self.0.table.lock();
        match table.calls.get(state) {
            Some(entry) if entry.request != *request => Err(StateError::Foreign),
            Some(_) => {
                let used = table.end_state(state, StateError::Used);
                used.map(|entry| entry.call).ok_or(StateError::Unknown)
            }
            None => {
                let ended = table.ended.iter().find(|(ended, _)| ended == state);
                Err(ended.map_or(StateError::Unknown, |(_, why)| *why))
            }
        }
    }

    fn expire(&self, state: &str) {
        let expired = self.0.table.lock().end_state(state, StateError::Expired);
        if let Some(SuspendedCall { request, .. }) = &expired {
            let RequestIdentity { server, method, name, .. } = request;
            let server = server.as_deref().unwrap_or_default();
            tracing::info!(
                server,
                method,
                name,
                "client did not come back to answer: call is cancelled"
            );
        }
    }

    /// Cancels the calls of clients that are away, and keeps no more.
    pub(crate) fn cancel(&self) {
        self.0.stop.cancel();
        let suspended = std::mem::take(&mut self.0.table.lock().calls);
        // Each cancels its call, which takes no lock of ours.
        drop(suspended);
    }

    /// Cancels the calls of clients that are away, and waits for the end of every call that any
    /// client has let go.
    pub(crate) async fn close(&self) {
        self.cancel();
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}

impl SuspendedTable {
    /// The call that has been suspended under a state, which is no good from now on.
    fn end_state(&mut self, state: &str, why: StateError) -> Option<SuspendedCall> {
        let entry = self.calls.remove(state)?;
        if self.ended.len() >= ENDED_STATES_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((state.to_owned(), why));
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
