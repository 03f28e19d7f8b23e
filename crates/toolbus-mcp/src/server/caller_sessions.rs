//! Sessions of single callers with one server.
//!
//! Each is a connection of its own: a process of its own where the server is a program, and over
//! HTTP a session of its own. Whatever the server keeps for a session, it keeps for one caller. The
//! server's first connection lists what there is, and takes no calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::Server;
use crate::call::{CallError, Caller};

/// Most sessions of one server at a time. The one that was used longest ago ends for another
/// caller's, unless a call runs in each.
pub(crate) const SESSIONS_MAX: usize = 32;
/// How long a session may be unused before it ends.
pub(crate) const SESSION_IDLE_TTL: Duration = Duration::from_secs(600);

/// The sessions of one server, by their callers.
#[derive(Default)]
pub(super) struct CallerSessions(Mutex<HashMap<Caller, CallerSession>>);

struct CallerSession {
    server: Arc<Server>,
    used: Instant,
}

impl CallerSessions {
    /// The session of this caller, if there is one, which is used now.
    fn find(&self, caller: &Caller) -> Option<Arc<Server>> {
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(caller)?;
        session.used = Instant::now();
        Some(Arc::clone(&session.server))
    }

    /// Adds the session that `begin` makes, unless there is one. Returns another whose place it
    /// has taken. `None` when all are at work.
    fn add(
        &self,
        caller: &Caller,
        begin: impl FnOnce() -> Arc<Server>,
    ) -> Option<(Arc<Server>, Option<Arc<Server>>)> {
        let mut sessions = self.0.lock();
        if let Some(session) = sessions.get_mut(caller) {
            session.used = Instant::now();
            return Some((Arc::clone(&session.server), None));
        }

        let mut ended = None;
        if sessions.len() >= SESSIONS_MAX {
            let idle = sessions.iter().filter(|(_, session)| !session.server.is_busy());
            let oldest = idle.min_by_key(|(_, session)| session.used)?.0.clone();
            ended = sessions.remove(&oldest).map(|session| session.server);
        }

        let server = begin();
        let session = CallerSession { server: Arc::clone(&server), used: Instant::now() };
        sessions.insert(caller.clone(), session);
        Some((server, ended))
    }

    /// Takes out a session that has not been used for long, or answers when to look again.
    fn take_idle(&self, caller: &Caller, server: &Arc<Server>) -> Result<Arc<Server>, Instant> {
        let mut sessions = self.0.lock();
        let now = Instant::now();
        let Some(session) = sessions.get(caller).filter(|it| Arc::ptr_eq(&it.server, server))
        else {
            return Ok(Arc::clone(server));
        };

        let until = session.used + SESSION_IDLE_TTL;
        if session.server.is_busy() || until > now {
            return Err(until.max(now + SESSION_IDLE_TTL / 10));
        }
        sessions.remove(caller);
        Ok(Arc::clone(server))
    }

    pub(super) fn are_busy(&self) -> bool {
        self.0.lock().values().any(|session| session.server.is_busy())
    }

    /// Ends all of them, with so long for the calls that run.
    pub(super) async fn close(&self, grace: Duration) {
        let sessions: Vec<_> = self.0.lock().drain().collect();
        join_all(sessions.iter().map(|(_, session)| Box::pin(session.server.close(grace)))).await;
    }
}

impl Server {
    /// Where this caller's calls go: to the server, or to the caller's own session with it.
    ///
    /// # Errors
    /// When there are [`SESSIONS_MAX`] sessions, and a call runs in each.
    pub(crate) fn session_of(self: &Arc<Self>, caller: &Caller) -> Result<Arc<Self>, CallError> {
        let Some(sessions) = &self.sessions else { return Ok(Arc::clone(self)) };
        if let Some(session) = sessions.find(caller) {
            return Ok(session);
        }

        let busy = || CallError::Busy { server: self.name(), running: SESSIONS_MAX };
        let (session, ended) =
            sessions.add(caller, || self.begin_session(caller)).ok_or_else(busy)?;
        if let Some(ended) = ended {
            self.context.spawn_close(ended, Duration::ZERO);
        }
        Ok(session)
    }

    /// Begins a session, and has it end when it is unused for long.
    fn begin_session(self: &Arc<Self>, caller: &Caller) -> Arc<Self> {
        let stop = self.stop.child_token();
        let entry = Arc::clone(&self.entry);
        let context = Arc::clone(&self.context);
        let session = Self::with_sessions(entry, self.origin, None, stop, context);
        self.context.spawn_connector(&session);

        let (owner, caller) = (Arc::downgrade(self), caller.clone());
        let watched = Arc::clone(&session);
        self.context.deps.tracker.spawn(async move {
            let mut look_at = Instant::now() + SESSION_IDLE_TTL;
            while watched.stop.run_until_cancelled(sleep_until(look_at)).await.is_some() {
                let Some(owner) = owner.upgrade() else { return };
                let Some(sessions) = &owner.sessions else { return };
                match sessions.take_idle(&caller, &watched) {
                    Ok(idle) => return idle.close(Duration::ZERO).await,
                    Err(later) => look_at = later,
                }
            }
        });
        session
    }
}
