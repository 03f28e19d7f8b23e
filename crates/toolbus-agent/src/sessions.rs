//! Sessions that are kept: their events, in the order in which they happened.
//!
//! An event is written before anything is done that follows from it. A session that was interrupted
//! is read back by applying its events again, and goes on from there.

use std::collections::VecDeque;
use std::time::Duration;

use serde::Serialize;
use toolbus_models::outside::OutsideText;
use toolbus_policy::owner_text;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{LazyStore, Lease, Migration, Migrations, Transaction};
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::{CallId, SessionId};
use toolbus_tools::{Lineage, Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::conversation::{Conversation, Effect, Event, OutOfTurn, TurnEnd, TurnLimits};
use crate::notices::Notice;

/// What a store needs that keeps sessions.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "agent",
    steps: &[
        Migration {
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
        },
        Migration {
            version: 2,
            sql: "ALTER TABLE agent_events ADD COLUMN at_ms BIGINT NOT NULL DEFAULT 0;
                  CREATE INDEX agent_sessions_session ON agent_sessions (session)",
        },
    ],
    additions: &[
        // What runs have spent: see `runs`.
        Migration {
            version: 3,
            sql: "CREATE TABLE agent_runs (
                      run TEXT PRIMARY KEY,
                      notice_turns BIGINT NOT NULL,
                      calls BIGINT NOT NULL,
                      turns BIGINT NOT NULL,
                      tokens BIGINT NOT NULL,
                      micro_usd BIGINT NOT NULL,
                      changed_ms BIGINT NOT NULL
                  );
                  CREATE INDEX agent_runs_changed ON agent_runs (changed_ms)",
        },
    ],
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
/// What sessions begin with that nobody talks in: those of scheduled tasks, subagents and other
/// agents.
const INNER_SESSIONS: [&str; 3] = ["schedule/", "subagent/", "a2a/"];
/// Ids of what was said, and of notices, that are remembered of a session: more than may come
/// again.
const SAID_MAX: usize = 64;
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
    /// The work was begun in a scope that cannot be restored here.
    #[error("the scope that the work was begun in cannot be restored: {0}")]
    Lineage(#[from] toolbus_tools::id::Error),
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

/// An event as it is written down.
struct WrittenEvent {
    number: i64,
    event: Event,
    /// When it happened, in milliseconds of Unix time.
    at_ms: i64,
}

/// Which session it is: sessions of different principals may have the same name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionRef {
    /// The agent and the principal.
    owner: String,
    session: SessionId,
}

/// Something that was said in a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exchange {
    /// Who said it.
    pub side: Side,
    /// The text.
    pub text: String,
    /// When, in milliseconds of Unix time.
    pub at_ms: i64,
}

/// Who speaks in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Side {
    /// The user.
    User,
    /// The agent.
    Agent,
}

/// A session that this process has to itself.
pub struct OpenSession {
    store: LazyStore,
    at: SessionRef,
    lease: Lease,
    /// Whether it is let go with the event that ends a turn.
    leaves_with_turn: bool,
    /// Whether it was let go.
    has_left: bool,
    conversation: Conversation,
    written: Written,
}

/// What is written down of a session.
#[derive(Debug, Default)]
struct Written {
    /// The number of the last event.
    last: i64,
    /// The number of the last answer, whose calls are those that are under way.
    answer: i64,
    /// The ids of what was said, and how those turns ended that have.
    said: VecDeque<(String, Option<TurnEnd>)>,
    /// Whether the turn that is under way is that of the last id.
    of_last_said: bool,
    /// The lineage of the last turn.
    lineage: Option<Lineage>,
    /// The ids of notices.
    noticed: VecDeque<String>,
}

/// What of an event is remembered.
enum Mark {
    Answer,
    Said(Option<String>, Option<Lineage>),
    Noticed(String),
    Nothing,
}

impl Mark {
    fn of(event: &Event) -> Self {
        match event {
            Event::Answered { .. } => Self::Answer,
            Event::Said { id, lineage, .. } => Self::Said(id.clone(), lineage.clone()),
            Event::Noticed { id, .. } => Self::Noticed(id.clone()),
            _ => Self::Nothing,
        }
    }
}

impl Written {
    /// Adds an event, and what came of it.
    fn add(&mut self, number: i64, mark: Mark, effects: &[Effect]) {
        self.last = number;
        match mark {
            Mark::Answer => self.answer = number,
            Mark::Said(id, lineage) => {
                self.lineage = lineage;
                self.of_last_said = id.is_some();
                self.said.extend(id.map(|id| (id, None)));
                if self.said.len() > SAID_MAX {
                    self.said.pop_front();
                }
            }
            Mark::Noticed(id) => {
                self.noticed.push_back(id);
                if self.noticed.len() > SAID_MAX {
                    self.noticed.pop_front();
                }
            }
            Mark::Nothing => {}
        }

        for effect in effects {
            if let Effect::End(end) = effect
                && self.of_last_said
                && let Some((_, kept)) = self.said.back_mut()
            {
                *kept = Some(end.clone());
            }
        }
    }
}

/// A turn that was asked for before, under the same id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EarlierTurn {
    /// It has not ended.
    UnderWay,
    /// It ended so.
    Ended(TurnEnd),
}

impl SessionRef {
    /// The session of this name that a principal has with an agent.
    #[must_use]
    pub fn new(agent: &AgentName, principal: &Principal, session: SessionId) -> Self {
        Self { owner: session_owner_text(agent, principal), session }
    }

    /// The session of a scope.
    ///
    /// # Errors
    /// [`Error::NoSession`] when the scope names none.
    pub fn of(scope: &Scope) -> Result<Self, Error> {
        let session = scope.session.clone().ok_or(Error::NoSession)?;
        Ok(Self { owner: owner_of(scope), session })
    }
}

impl Sessions {
    /// The sessions of this store, which knows [`MIGRATIONS`].
    #[must_use]
    pub fn new(store: LazyStore, limits: TurnLimits, holder: impl Into<String>) -> Self {
        Self { store, limits, holder: holder.into() }
    }

    /// The store.
    pub(crate) fn store(&self) -> &LazyStore {
        &self.store
    }

    /// The limits of turns.
    pub(crate) fn limits(&self) -> &TurnLimits {
        &self.limits
    }

    /// Opens a session, a new one or one that there is, and has it to itself until it
    /// is [closed](OpenSession::close). One that a process had that was killed is free after some
    /// seconds, and is waited for.
    ///
    /// # Errors
    /// [`Error::Busy`] when another has it for longer than that.
    pub async fn open(&self, at: &SessionRef) -> Result<OpenSession, Error> {
        let lease = self.lease(at).await?;
        let read = self.read(at).await;
        let (conversation, written) = match read {
            Ok(read) => read,
            Err(error) => {
                lease.release(self.store.open().await?).await?;
                return Err(error);
            }
        };
        let (store, at) = (self.store.clone(), at.clone());
        let (leaves_with_turn, has_left) = (false, false);
        Ok(OpenSession { store, at, lease, leaves_with_turn, has_left, conversation, written })
    }

    async fn lease(&self, at: &SessionRef) -> Result<Lease, Error> {
        let SessionRef { owner, session } = at;
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
    async fn read(&self, at: &SessionRef) -> Result<(Conversation, Written), Error> {
        let mut conversation = Conversation::new(self.limits);
        let mut written = Written::default();
        for WrittenEvent { number, event, .. } in self.events(at).await? {
            let mark = Mark::of(&event);
            let effects = conversation.apply(event).map_err(|error| {
                let problem = format!("comes out of turn: {error}");
                Error::Damaged { session: at.session.clone(), number, problem }
            })?;
            written.add(number, mark, &effects);
        }
        Ok((conversation, written))
    }

    async fn events(&self, at: &SessionRef) -> Result<Vec<WrittenEvent>, Error> {
        let rows = sqlx::query(
            "SELECT number, event, at_ms FROM agent_events WHERE owner = $1 AND session = $2
             ORDER BY number",
        )
        .bind(&at.owner)
        .bind(at.session.as_str())
        .fetch_all(self.store.open().await?.readers())
        .await
        .map_err(toolbus_store::Error::from)?;

        let event = |row: &sqlx::any::AnyRow| {
            let number = row.try_get("number").map_err(toolbus_store::Error::from)?;
            let text: String = row.try_get("event").map_err(toolbus_store::Error::from)?;
            let event = toolbus_json::from_trusted(&text).map_err(|error| {
                let problem = format!("is no event: {error}");
                Error::Damaged { session: at.session.clone(), number, problem }
            })?;
            let at_ms = row.try_get("at_ms").map_err(toolbus_store::Error::from)?;
            Ok(WrittenEvent { number, event, at_ms })
        };
        rows.iter().map(event).collect()
    }

    /// All that happened in a session, whoever has it open, also what the model no longer reads.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn transcript(&self, at: &SessionRef) -> Result<Vec<Event>, Error> {
        let events = self.events(at).await?;
        Ok(events.into_iter().map(|written| written.event).collect())
    }

    /// What the user said in a session and what the agent answered, the oldest first.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn exchanges(&self, at: &SessionRef) -> Result<Vec<Exchange>, Error> {
        let mut conversation = Conversation::new(self.limits);
        let mut exchanges = Vec::new();
        for WrittenEvent { event, at_ms, .. } in self.events(at).await? {
            // Only words that a person typed are shown as the user's.
            if let Event::Said { text, outside: None, .. } = &event {
                exchanges.push(Exchange { side: Side::User, text: text.clone(), at_ms });
            }
            for effect in conversation.apply(event)? {
                if let Effect::End(TurnEnd::Answered { text, .. }) = effect {
                    exchanges.push(Exchange { side: Side::Agent, text, at_ms });
                }
            }
        }
        Ok(exchanges)
    }

    /// The session of this name that somebody has with an agent whose claimed name begins so: the
    /// last used, where there are several.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) async fn find_claimed(
        &self,
        agent: &AgentName,
        beginning: &str,
        session: &SessionId,
    ) -> Result<Option<SessionRef>, Error> {
        let begins = session_owner_text(agent, &Principal::claimed(beginning));
        // PostgreSQL's `substr` takes no longer integers.
        let length = i32::try_from(begins.chars().count()).unwrap_or(i32::MAX);

        let row = sqlx::query(
            "SELECT owner FROM agent_sessions WHERE session = $1 AND substr(owner, 1, $2) = $3
             ORDER BY changed_ms DESC LIMIT 1",
        )
        .bind(session.as_str())
        .bind(length)
        .bind(begins)
        .fetch_optional(self.store.open().await?.readers())
        .await
        .map_err(toolbus_store::Error::from)?;
        let Some(row) = row else { return Ok(None) };
        let owner = row.try_get("owner").map_err(toolbus_store::Error::from)?;
        Ok(Some(SessionRef { owner, session: session.clone() }))
    }

    /// The session that a principal has talked in with an agent last, if there is any.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn last_used(
        &self,
        agent: &AgentName,
        principal: &Principal,
    ) -> Result<Option<SessionId>, Error> {
        let [schedules, subagents, agents] =
            INNER_SESSIONS.map(|beginning| format!("{beginning}%"));

        let found: Option<String> = sqlx::query_scalar(
            "SELECT session FROM agent_sessions
             WHERE owner = $1 AND session NOT LIKE $2 AND session NOT LIKE $3
                   AND session NOT LIKE $4
             ORDER BY changed_ms DESC LIMIT 1",
        )
        .bind(session_owner_text(agent, principal))
        .bind(schedules)
        .bind(subagents)
        .bind(agents)
        .fetch_optional(self.store.open().await?.readers())
        .await
        .map_err(toolbus_store::Error::from)?;
        // It was one when it was written.
        Ok(found.and_then(|session| SessionId::parse(session).ok()))
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
        let mark = Mark::of(&event);
        let effects = self.conversation.apply(event)?;
        let number = self.written.last + 1;
        self.written.add(number, mark, &effects);

        let is_end = effects.iter().any(|effect| matches!(effect, Effect::End(_)));
        let write = EventWrite {
            at: self.at.clone(),
            number,
            event: text,
            changes_list: is_end || title.is_some(),
            title: title.unwrap_or_default(),
        };
        let (lease, leaves) = (self.lease.clone(), is_end && self.leaves_with_turn);
        let store = self.store.open().await?;
        let written = store.write(move |transaction| {
            Box::pin(async move {
                match leaves {
                    true => lease.release_with(transaction).await?,
                    false => lease.check(transaction).await?,
                }
                write.apply(transaction).await
            })
        });
        written.await?;
        self.has_left |= leaves;
        Ok(effects)
    }

    /// The lineage of the last turn, if it was kept.
    pub(crate) fn lineage(&self) -> Option<&Lineage> {
        self.written.lineage.as_ref()
    }

    /// Has the event that ends the turn let the session go, too.
    pub(crate) fn leave_with_turn(&mut self) {
        self.leaves_with_turn = true;
    }

    /// The id of a call of the last answer: the same whenever the session is read back, so that a
    /// worker that has made it knows it again.
    pub(crate) fn call_id(&self, call: &str) -> CallId {
        let SessionRef { owner, session } = &self.at;
        let name = format!("{owner}\n{session}\n{}\n{call}", self.written.answer);
        let digest = sha256_hex(&name);
        CallId::parse(&digest[..32]).unwrap_or_else(|_| CallId::random())
    }

    /// The turn of what was said under this id before, as far as it is remembered.
    pub(crate) fn earlier_turn(&self, id: &str) -> Option<EarlierTurn> {
        let (_, end) = self.written.said.iter().rev().find(|(said, _)| said == id)?;
        Some(end.clone().map_or(EarlierTurn::UnderWay, EarlierTurn::Ended))
    }

    /// Takes a notice and writes it down, unless that was done before.
    ///
    /// # Errors
    /// As of [`record`](Self::record).
    pub(crate) async fn record_notice(&mut self, notice: Notice) -> Result<Vec<Effect>, Error> {
        let Notice { id, text: OutsideText { from, text } } = notice;
        match self.was_noticed(&id) {
            true => Ok(Vec::new()),
            false => self.record(Event::Noticed { id, from: Some(from), text }).await,
        }
    }

    /// Whether a notice of this id was written down before, as far as it is remembered.
    pub(crate) fn was_noticed(&self, id: &str) -> bool {
        self.written.noticed.iter().any(|noticed| noticed == id)
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
        if self.has_left {
            return;
        }
        let released = match self.store.open().await {
            Ok(store) => self.lease.release(store).await,
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            tracing::debug!(error = &error as &dyn std::error::Error, "a session is not released");
        }
    }
}

/// An event on its way into the store.
struct EventWrite {
    at: SessionRef,
    number: i64,
    event: String,
    /// Whether the list of sessions tells of it: it begins or ends a turn.
    changes_list: bool,
    title: String,
}

impl EventWrite {
    async fn apply(self, transaction: &mut Transaction) -> Result<(), toolbus_store::Error> {
        let Self { at: SessionRef { owner, session }, number, event, changes_list, title } = self;
        let now = transaction.now_ms().await?;
        let connection = transaction.connection();
        sqlx::query(
            "INSERT INTO agent_events (owner, session, number, event, at_ms)
             VALUES ($1, $2, $3, $4, $5)",
        )
        .bind(&owner)
        .bind(session.as_str())
        .bind(number)
        .bind(&event)
        .bind(now)
        .execute(&mut *connection)
        .await?;
        if !changes_list {
            return Ok(());
        }

        sqlx::query(
            "INSERT INTO agent_sessions (owner, session, title, began_ms, changed_ms, events)
             VALUES ($1, $2, $3, $4, $4, $5)
             ON CONFLICT (owner, session) DO UPDATE SET changed_ms = $4, events = $5",
        )
        .bind(&owner)
        .bind(session.as_str())
        .bind(title)
        .bind(now)
        .bind(number)
        .execute(connection)
        .await?;
        Ok(())
    }
}

/// Whether nobody talks in a session.
pub(crate) fn is_inner(session: &SessionId) -> bool {
    INNER_SESSIONS.iter().any(|beginning| session.as_str().starts_with(beginning))
}

/// The beginning of what was said, on one line.
fn title_of(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    line.chars().filter(|c| !c.is_control()).take(TITLE_CHARACTERS_MAX).collect()
}

/// Whose sessions they are: those of a principal with an agent.
fn owner_of(scope: &Scope) -> String {
    session_owner_text(&scope.agent, &scope.principal)
}

fn session_owner_text(agent: &AgentName, principal: &Principal) -> String {
    format!("{agent}\n{}", owner_text(principal))
}
