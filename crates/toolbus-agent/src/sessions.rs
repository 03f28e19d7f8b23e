//! Sessions that are kept: their events, in the order in which they happened.
//!
//! An event is written before anything is done that follows from it. A session that was interrupted
//! is read back by applying its events again, and goes on from there.

use std::time::Duration;

use serde::Serialize;
use toolbus_policy::principal_text;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{LazyStore, Lease, Migration, Migrations};
use toolbus_tools::Scope;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::{CallId, SessionId};

use crate::conversation::{Conversation, Effect, Event, OutOfTurn, TurnLimits};

/// What a store needs that keeps sessions.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "agent",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE agent_sessions (
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  title TEXT NOT NULL,
                  began_ms BIGINT NOT NULL,
                  changed_ms BIGINT NOT NULL,
                  events BIGINT NOT NULL,
                  PRIMARY KEY (owner, session)
              );
              CREATE INDEX agent_sessions_changed ON agent_sessions (owner, changed_ms);
              CREATE TABLE agent_events (
                  owner TEXT NOT NULL,
                  session TEXT NOT NULL,
                  number BIGINT NOT NULL,
                  event TEXT NOT NULL,
                  PRIMARY KEY (owner, session, number)
              )",
    }],
};

/// How long a process has a session without saying so again.
const LEASE_TTL: Duration = Duration::from_secs(10);
/// How often it says so.
pub(crate) const LEASE_RENEW_INTERVAL: Duration = Duration::from_secs(3);
/// How long a session is waited for that another process has: longer than one that was killed
/// keeps it.
const OPEN_TIMEOUT: Duration = Duration::from_secs(12);
/// How often it is asked for.
const OPEN_RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Most characters of a title: the beginning of what was said first.
const TITLE_CHARACTERS_MAX: usize = 80;

/// Why a session cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is open in another process, or twice in this one.
    #[error("the session '{0}' is in use elsewhere")]
    Busy(SessionId),
    /// The scope names none.
    #[error("no session is named")]
    NoSession,
    /// What was written down makes no sense.
    #[error("the session '{session}' cannot be read: event {number} {problem}")]
    Damaged {
        /// The session.
        session: SessionId,
        /// Which event.
        number: i64,
        /// What is wrong with it.
        problem: String,
    },
    /// The event cannot happen now.
    #[error(transparent)]
    OutOfTurn(#[from] OutOfTurn),
    /// The store cannot be read or written.
    #[error("sessions cannot be kept: {0}")]
    Store(#[from] toolbus_store::Error),
}

/// The sessions of a store. Clones are the same.
#[derive(Clone)]
pub struct Sessions {
    store: LazyStore,
    limits: TurnLimits,
    /// This process, for who wants to know where a session is open.
    holder: String,
}

/// A session of which something is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    /// Its name.
    pub session: String,
    /// The beginning of what was said first.
    pub title: String,
    /// When it began, in milliseconds of Unix time.
    pub began_ms: i64,
    /// When something happened last.
    pub changed_ms: i64,
}

/// A session that this process has to itself.
pub struct OpenSession {
    store: LazyStore,
    owner: String,
    session: SessionId,
    lease: Lease,
    conversation: Conversation,
    written: Written,
}

/// What is written down of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Written {
    /// The number of the last event.
    last: i64,
    /// The number of the last answer, whose calls are those that are under way.
    answer: i64,
}

impl Written {
    fn add(&mut self, number: i64, event: &Event) {
        self.last = number;
        if matches!(event, Event::Answered { .. }) {
            self.answer = number;
        }
    }
}

impl Sessions {
    /// The sessions of this store, which knows [`MIGRATIONS`].
    #[must_use]
    pub fn new(store: LazyStore, limits: TurnLimits, holder: impl Into<String>) -> Self {
        Self { store, limits, holder: holder.into() }
    }

    /// Opens the session of a scope, a new one or one that there is, and has it to itself until it
    /// is [closed](OpenSession::close). One that a process had that was killed is free after some
    /// seconds, and is waited for.
    ///
    /// # Errors
    /// [`Error::Busy`] when another has it for longer than that.
    pub async fn open(&self, scope: &Scope) -> Result<OpenSession, Error> {
        let session = scope.session.clone().ok_or(Error::NoSession)?;
        let owner = owner_of(scope);
        let lease = self.lease(&owner, &session).await?;
        let read = self.read(&owner, &session).await;
        let (conversation, written) = match read {
            Ok(read) => read,
            Err(error) => {
                lease.release(self.store.open().await?).await?;
                return Err(error);
            }
        };
        let store = self.store.clone();
        Ok(OpenSession { store, owner, session, lease, conversation, written })
    }

    async fn lease(&self, owner: &str, session: &SessionId) -> Result<Lease, Error> {
        let name = format!("session/{}", sha256_hex(&format!("{owner}\n{session}")));
        let store = self.store.open().await?;
        let waiting = async {
            loop {
                match store.acquire_lease(&name, &self.holder, LEASE_TTL).await {
                    Ok(None) => tokio::time::sleep(OPEN_RETRY_INTERVAL).await,
                    Ok(Some(lease)) => return Ok(lease),
                    Err(error) => return Err(Error::Store(error)),
                }
            }
        };
        let waited = tokio::time::timeout(OPEN_TIMEOUT, waiting).await;
        waited.unwrap_or_else(|_| Err(Error::Busy(session.clone())))
    }

    /// The session as its events make it.
    async fn read(
        &self,
        owner: &str,
        session: &SessionId,
    ) -> Result<(Conversation, Written), Error> {
        let mut conversation = Conversation::new(self.limits);
        let mut written = Written::default();
        for (number, event) in self.events(owner, session).await? {
            written.add(number, &event);
            conversation.apply(event).map_err(|error| {
                let problem = format!("comes out of turn: {error}");
                Error::Damaged { session: session.clone(), number, problem }
            })?;
        }
        Ok((conversation, written))
    }

    async fn events(&self, owner: &str, session: &SessionId) -> Result<Vec<(i64, Event)>, Error> {
        let rows = sqlx::query(
            "SELECT number, event FROM agent_events WHERE owner = $1 AND session = $2
             ORDER BY number",
        )
        .bind(owner)
        .bind(session.as_str())
        .fetch_all(self.store.open().await?.readers())
        .await
        .map_err(toolbus_store::Error::from)?;

        let event = |row: &sqlx::any::AnyRow| {
            let number = row.try_get("number").map_err(toolbus_store::Error::from)?;
            let text: String = row.try_get("event").map_err(toolbus_store::Error::from)?;
            let event = serde_json::from_str(&text).map_err(|error| {
                let problem = format!("is no event: {error}");
                Error::Damaged { session: session.clone(), number, problem }
            })?;
            Ok((number, event))
        };
        rows.iter().map(event).collect()
    }

    /// All that happened in the session of a scope, whoever has it open, also what the model no
    /// longer reads.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn transcript(&self, scope: &Scope) -> Result<Vec<Event>, Error> {
        let session = scope.session.clone().ok_or(Error::NoSession)?;
        let events = self.events(&owner_of(scope), &session).await?;
        Ok(events.into_iter().map(|(_, event)| event).collect())
    }

    /// The sessions of a principal with an agent, the last used first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, scope: &Scope, max: i64) -> Result<Vec<SessionInfo>, Error> {
        let rows = sqlx::query(
            "SELECT session, title, began_ms, changed_ms FROM agent_sessions WHERE owner = $1
             ORDER BY changed_ms DESC, session LIMIT $2",
        )
        .bind(owner_of(scope))
        .bind(max)
        .fetch_all(self.store.open().await?.readers())
        .await
        .map_err(toolbus_store::Error::from)?;
        let info = |row: &sqlx::any::AnyRow| {
            Ok(SessionInfo {
                session: row.try_get("session")?,
                title: row.try_get("title")?,
                began_ms: row.try_get("began_ms")?,
                changed_ms: row.try_get("changed_ms")?,
            })
        };
        let infos: Result<Vec<_>, sqlx::Error> = rows.iter().map(info).collect();
        Ok(infos.map_err(toolbus_store::Error::from)?)
    }
}

impl OpenSession {
    /// What was said so far, and what is under way.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Takes an event, writes it down, and says what is to be done.
    ///
    /// # Errors
    /// [`Error::OutOfTurn`] when the event cannot happen now. When it cannot be written down, the
    /// session has to be opened again.
    pub async fn record(&mut self, event: Event) -> Result<Vec<Effect>, Error> {
        let title = match &event {
            Event::Said { text, .. } => Some(title_of(text)),
            _ => None,
        };
        let text = serde_json::to_string(&event).unwrap_or_default();
        let mut written = self.written;
        written.add(written.last + 1, &event);
        let effects = self.conversation.apply(event)?;
        self.written = written;

        let (owner, session) = (self.owner.clone(), self.session.to_string());
        let (number, lease) = (written.last, self.lease.clone());
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    lease.check(transaction).await?;
                    let now = transaction.now_ms().await?;
                    let connection = transaction.connection();
                    sqlx::query(
                        "INSERT INTO agent_events (owner, session, number, event)
                         VALUES ($1, $2, $3, $4)",
                    )
                    .bind(&owner)
                    .bind(&session)
                    .bind(number)
                    .bind(&text)
                    .execute(&mut *connection)
                    .await?;
                    sqlx::query(
                        "INSERT INTO agent_sessions (owner, session, title, began_ms, changed_ms, events)
                         VALUES ($1, $2, $3, $4, $4, $5)
                         ON CONFLICT (owner, session) DO UPDATE SET changed_ms = $4, events = $5",
                    )
                    .bind(&owner)
                    .bind(&session)
                    .bind(title.unwrap_or_default())
                    .bind(now)
                    .bind(number)
                    .execute(connection)
                    .await?;
                    Ok(())
                })
            })
            .await?;
        Ok(effects)
    }

    /// The id of a call of the last answer: the same whenever the session is read back, so that a
    /// worker that has made it knows it again.
    pub(crate) fn call_id(&self, call: &str) -> CallId {
        let name = format!("{}\n{}\n{}\n{call}", self.owner, self.session, self.written.answer);
        let digest = sha256_hex(&name);
        CallId::parse(&digest[..32]).unwrap_or_else(|_| CallId::random())
    }

    /// Says that this process still has the session.
    ///
    /// # Errors
    /// When another process has taken it.
    pub(crate) async fn renew(&self) -> Result<(), Error> {
        Ok(self.lease.renew(self.store.open().await?).await?)
    }

    /// Lets another process have it.
    pub async fn close(self) {
        let released = match self.store.open().await {
            Ok(store) => self.lease.release(store).await,
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            tracing::debug!(error = &error as &dyn std::error::Error, "a session is not released");
        }
    }
}

/// The beginning of what was said, on one line.
fn title_of(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    line.chars().filter(|c| !c.is_control()).take(TITLE_CHARACTERS_MAX).collect()
}

/// Whose sessions they are: those of a principal with an agent.
fn owner_of(scope: &Scope) -> String {
    format!("{}\n{}", scope.agent, principal_text(&scope.principal))
}
