//! What is kept, for those who answer: approvals and remembered answers, of any process at the same
//! store.
//!
//! An answer is one conditional update of a row that is pending and whose time is not over. Of two
//! who answer at once the first holds, and the second is told what is.

use std::time::Duration;

use serde_json::Value;
use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_store::{LazyStore, Store, Transaction};
use toolbus_tools::scope::Principal;
use toolbus_wire::envelope::new_id;

use crate::Error;
use crate::approval::{Approval, ApprovalState, COLUMNS, Remembered};
use crate::binding::{BINDING_BYTES_MAX, Binding, BoundPrincipal, Remember};
use crate::chain_answer::{self, ForChain};
use crate::tables::CHANGES;

/// Most rows that a list has.
pub const LIST_MAX: u32 = 1_000;
/// How long an approval may wait, once it is given, for its call to begin: the process that has the
/// call may have to be started first.
const APPROVED_TTL: Duration = Duration::from_secs(60 * 60);
/// Longest note of an approver, in bytes.
const NOTE_BYTES_MAX: usize = 1_024;
/// Fewest characters of an id that stand for the whole.
const ID_PREFIX_MIN: usize = 4;
/// Most remembered answers.
const REMEMBERED_MAX: i64 = 10_000;
/// Default time for which a yes to a rule that asks once per tool is remembered.
const ONCE_PER_TOOL_TTL: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// Maximum number of other approvals that one yes for a tool answers.
const ANSWERED_ALONG_MAX: i64 = 1_000;

/// The approvals of a store, for those who answer them. Clones are the same.
#[derive(Clone)]
pub struct ApprovalStore {
    store: LazyStore,
    /// Whether those who make a call may approve it, though they are not the local person.
    allow_self_approval: bool,
}

/// What an approver says.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Yes or no.
    pub verdict: Approve,
    /// Who says so.
    pub by: BoundPrincipal,
    /// Why, in the approver's words.
    pub note: Option<String>,
}

/// Yes or no.
#[derive(Debug, Clone, PartialEq)]
pub enum Approve {
    /// The call may run.
    Yes {
        /// How far that holds.
        remember: Remember,
        /// How long it holds for calls to come.
        remember_for: Duration,
    },
    /// It may run, and so may calls like it that the same chain has yet to make.
    ForChain(ForChain),
    /// It may run with these arguments, and nothing but this call may.
    With(Value),
    /// It may not run.
    No,
}

impl Answer {
    /// An answer by this principal, for this call alone.
    #[must_use]
    pub fn new(verdict: Approve, by: &Principal) -> Self {
        Self { verdict, by: BoundPrincipal::of(by), note: None }
    }

    /// The same with these words of the approver.
    #[must_use]
    pub fn with_note(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }
}

impl Approve {
    /// A yes for one call.
    pub const ONCE: Self = Self::Yes { remember: Remember::Once, remember_for: Duration::ZERO };

    /// Creates a yes for this binding, with the defaults of its rule: a rule that asks once per
    /// tool takes a yes for the tool for a year, any other rule a yes for the one call.
    /// `remember_for` is the time for which all other answers are remembered.
    #[must_use]
    pub fn yes(
        asked: &Binding,
        remember: Option<Remember>,
        time: Option<Duration>,
        remember_for: Duration,
    ) -> Self {
        let remember = remember.unwrap_or_else(|| asked.default_remember());
        let is_once_per_tool = asked.agent.is_some() && remember == Remember::Tool;
        let standard = if is_once_per_tool { ONCE_PER_TOOL_TTL } else { remember_for };
        Self::Yes { remember, remember_for: time.unwrap_or(standard) }
    }

    const fn state(&self) -> ApprovalState {
        match self {
            Self::Yes { .. } | Self::ForChain(_) => ApprovalState::Approved,
            Self::With(_) => ApprovalState::Modified,
            Self::No => ApprovalState::Denied,
        }
    }
}

impl ApprovalStore {
    /// The approvals of this store, whose migrations have [`crate::MIGRATIONS`] among them.
    #[must_use]
    pub fn new(store: LazyStore, allow_self_approval: bool) -> Self {
        Self { store, allow_self_approval }
    }

    pub(crate) async fn open(&self) -> Result<&Store, Error> {
        Ok(self.store.open().await?)
    }

    /// The approvals in this state, or in any, as many as `limit` and at most [`LIST_MAX`]: those
    /// that were asked for last, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(
        &self,
        state: Option<ApprovalState>,
        limit: u32,
    ) -> Result<Vec<Approval>, Error> {
        let store = self.open().await?;
        let condition = if state.is_some() { "WHERE state = $2" } else { "" };
        let text = format!(
            "SELECT {COLUMNS} FROM approvals {condition} ORDER BY asked_ms DESC, id LIMIT $1"
        );

        let mut rows = sqlx::query(AssertSqlSafe(text)).bind(i64::from(limit.min(LIST_MAX)));
        if let Some(state) = state {
            rows = rows.bind(state.as_str());
        }
        let rows = rows.fetch_all(store.readers()).await?;
        rows.iter().rev().map(Approval::of_row).collect()
    }

    /// How many approvals are pending.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn count_pending(&self) -> Result<u64, Error> {
        let store = self.open().await?;
        let count = sqlx::query_scalar("SELECT COUNT(*) FROM approvals WHERE state = 'pending'");
        let count: i64 = count.fetch_one(store.readers()).await?;
        Ok(count.unsigned_abs())
    }

    /// The approval of this id, or the one whose id begins so.
    ///
    /// # Errors
    /// When there is none or are several, and when the store cannot be read.
    pub async fn find(&self, id: &str) -> Result<Approval, Error> {
        let store = self.open().await?;
        let not_found = || Error::NotFound(id.to_owned());
        if id.len() < ID_PREFIX_MIN {
            return Err(not_found());
        }

        // Ids are hexadecimal digits and hyphens: none sorts behind a tilde.
        let text = format!("SELECT {COLUMNS} FROM approvals WHERE id >= $1 AND id < $2 LIMIT 2");
        let rows = sqlx::query(AssertSqlSafe(text)).bind(id).bind(format!("{id}~"));
        let rows = rows.fetch_all(store.readers()).await?;
        match rows.as_slice() {
            [] => Err(not_found()),
            [row] => Approval::of_row(row),
            _ => Err(Error::Ambiguous(id.to_owned())),
        }
    }

    /// Answers an approval, by its whole id, and gives it as it is then.
    ///
    /// # Errors
    /// [`Error::AlreadyAnswered`] where it was answered before or its time is over, with what is;
    /// [`Error::OwnCall`] where whoever answers has made the call and may not approve it; and when
    /// the store cannot be written.
    pub async fn answer(&self, id: &str, answer: Answer) -> Result<Approval, Error> {
        let store = self.open().await?;
        let id = id.to_owned();
        let may_be_own = self.allow_self_approval;

        store
            .write(move |transaction| {
                Box::pin(async move { answer_in(transaction, &id, answer, may_be_own).await })
            })
            .await?
    }

    /// The remembered answers that hold.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn remembered(&self) -> Result<Vec<Remembered>, Error> {
        let store = self.open().await?;
        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT id, remember, approval, binding, made_by, made_ms, expires_ms
             FROM approvals_remembered WHERE expires_ms > {now} ORDER BY made_ms, id LIMIT $1"
        );
        let rows = sqlx::query(AssertSqlSafe(text)).bind(REMEMBERED_MAX);
        let rows = rows.fetch_all(store.readers()).await?;
        rows.iter().map(Remembered::of_row).collect()
    }

    /// Takes a remembered answer back, or all whose ids begin so. Says how many there were.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn revoke(&self, id: &str) -> Result<u64, Error> {
        let store = self.open().await?;
        if id.len() < ID_PREFIX_MIN {
            return Ok(0);
        }
        let (first, last) = (id.to_owned(), format!("{id}~"));

        let revoked = store.write(move |transaction| {
            Box::pin(async move {
                let delete =
                    sqlx::query("DELETE FROM approvals_remembered WHERE id >= $1 AND id < $2");
                let deleted = delete.bind(first).bind(last);
                Ok(deleted.execute(transaction.connection()).await?.rows_affected())
            })
        });
        Ok(revoked.await?)
    }
}

/// A time in milliseconds that is so much later than another.
pub(crate) fn later(ms: i64, time: Duration) -> i64 {
    ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}

/// The approval of this id.
pub(crate) async fn approval_in(
    transaction: &mut Transaction,
    id: &str,
) -> Result<Option<Result<Approval, Error>>, toolbus_store::Error> {
    let text = format!("SELECT {COLUMNS} FROM approvals WHERE id = $1");
    let row = sqlx::query(AssertSqlSafe(text)).bind(id);
    let row = row.fetch_optional(transaction.connection()).await?;
    Ok(row.map(|row| Approval::of_row(&row)))
}

/// What the answer comes to. An error of the store undoes the write; any other has written nothing.
async fn answer_in(
    transaction: &mut Transaction,
    id: &str,
    answer: Answer,
    may_be_own: bool,
) -> Result<Result<Approval, Error>, toolbus_store::Error> {
    let now = transaction.now_ms().await?;
    let Some(asked) = approval_in(transaction, id).await? else {
        return Ok(Err(Error::NotFound(id.to_owned())));
    };
    let asked = match asked {
        Ok(asked) => asked,
        Err(error) => return Ok(Err(error)),
    };
    let prepared = match prepare(&asked, &answer, may_be_own) {
        Ok(prepared) => prepared,
        Err(error) => return Ok(Err(error)),
    };

    let state = answer.verdict.state();
    let is_over = state == ApprovalState::Denied;
    let (binding, asked_binding) = match &prepared {
        Some(modified) => (modified, Some(asked.binding.text())),
        None => (&asked.binding, None),
    };
    let note = answer.note.map(|note| note[..note.floor_char_boundary(NOTE_BYTES_MAX)].to_owned());
    let answered = sqlx::query(
        "UPDATE approvals SET state = $2, digest = $3, binding = $4, asked_binding = $5,
             answered_ms = $6, answered_by = $7, note = $8, expires_ms = $9, ended_ms = $10
         WHERE id = $1 AND state = 'pending' AND expires_ms > $6",
    )
    .bind(id)
    .bind(state.as_str())
    .bind(binding.digest())
    .bind(binding.text())
    .bind(asked_binding)
    .bind(now)
    .bind(answer.by.to_string())
    .bind(note)
    .bind(later(now, APPROVED_TTL))
    .bind(is_over.then_some(now))
    .execute(transaction.connection())
    .await?;

    if answered.rows_affected() == 0 {
        return Ok(what_is_in(transaction, id, now)
            .await?
            .and_then(|approval| Err(Error::AlreadyAnswered(Box::new(approval)))));
    }
    match &answer.verdict {
        Approve::Yes { remember, remember_for } => {
            remember_in(transaction, &asked, *remember, *remember_for, &answer.by).await?;
            if asked.binding.agent.is_some() && *remember == Remember::Tool {
                approve_along_in(transaction, &asked, &answer.by).await?;
            }
        }
        Approve::ForChain(more) => {
            chain_answer::insert_in(transaction, &asked, more, &answer.by).await?;
        }
        Approve::With(_) | Approve::No => {}
    }
    transaction.notify(CHANGES);
    let approval = approval_in(transaction, id).await?;
    Ok(approval.unwrap_or_else(|| Err(Error::NotFound(id.to_owned()))))
}

/// Approves other calls that wait for the yes that was just given for a tool. A turn that makes
/// several calls of a tool at the same time asks once.
async fn approve_along_in(
    transaction: &mut Transaction,
    answered: &Approval,
    by: &BoundPrincipal,
) -> Result<(), toolbus_store::Error> {
    let now = transaction.now_ms().await?;
    let text = format!(
        "SELECT {COLUMNS} FROM approvals
         WHERE state = 'pending' AND expires_ms > $1 AND subject = $2 LIMIT $3"
    );
    let waiting = sqlx::query(AssertSqlSafe(text))
        .bind(now)
        .bind(&*answered.binding.subject)
        .bind(ANSWERED_ALONG_MAX);
    let waiting = waiting.fetch_all(transaction.connection()).await?;

    // An approval that cannot be read is asked about separately.
    let waiting = waiting.iter().filter_map(|row| Approval::of_row(row).ok());
    let holds_for = answered.binding.remembered_digest(Remember::Tool);
    let is_same = |other: &Approval| other.binding.remembered_digest(Remember::Tool) == holds_for;
    let same: Vec<String> = waiting.filter(is_same).map(|other| other.id).collect();
    for id in same {
        sqlx::query(
            "UPDATE approvals SET state = 'approved', answered_ms = $2, answered_by = $3,
                 expires_ms = $4
             WHERE id = $1 AND state = 'pending'",
        )
        .bind(id)
        .bind(now)
        .bind(by.to_string())
        .bind(later(now, APPROVED_TTL))
        .execute(transaction.connection())
        .await?;
    }
    Ok(())
}

/// Whether the answer is one that can be given; and what runs, where that is something else than
/// was asked for.
fn prepare(asked: &Approval, answer: &Answer, may_be_own: bool) -> Result<Option<Binding>, Error> {
    let is_own = answer.by == *asked.requester() && !answer.by.is_local();
    if is_own && !may_be_own && answer.verdict != Approve::No {
        return Err(Error::OwnCall(answer.by.clone()));
    }

    match &answer.verdict {
        Approve::Yes { remember: Remember::Session, .. } if asked.binding.session.is_none() => {
            Err(Error::NoSession)
        }
        Approve::ForChain(more) => more.check(&asked.binding).map(|()| None),
        Approve::With(arguments)
            if arguments.is_object() && asked.binding.arguments.is_object() =>
        {
            let modified = asked.binding.with_arguments(arguments.clone());
            match modified.text().len() {
                ..=BINDING_BYTES_MAX => Ok(Some(modified)),
                bytes => Err(Error::TooLarge { bytes, limit: BINDING_BYTES_MAX }),
            }
        }
        Approve::With(_) => Err(Error::WrongArguments),
        Approve::Yes { .. } | Approve::No => Ok(None),
    }
}

/// The approval as it is, for who could not answer it. One whose time is over is expired, also
/// where nobody has said so yet.
async fn what_is_in(
    transaction: &mut Transaction,
    id: &str,
    now: i64,
) -> Result<Result<Approval, Error>, toolbus_store::Error> {
    sqlx::query(
        "UPDATE approvals SET state = 'expired', ended_ms = $2, note = 'nobody answered in time'
         WHERE id = $1 AND state = 'pending' AND expires_ms <= $2",
    )
    .bind(id)
    .bind(now)
    .execute(transaction.connection())
    .await?;
    transaction.notify(CHANGES);
    let approval = approval_in(transaction, id).await?;
    Ok(approval.unwrap_or_else(|| Err(Error::NotFound(id.to_owned()))))
}

/// Keeps an answer for calls to come, for so long. What holds for the same is replaced.
async fn remember_in(
    transaction: &mut Transaction,
    asked: &Approval,
    remember: Remember,
    time: Duration,
    by: &BoundPrincipal,
) -> Result<(), toolbus_store::Error> {
    let Some(digest) = asked.binding.remembered_digest(remember) else { return Ok(()) };
    let now = transaction.now_ms().await?;

    sqlx::query(
        "INSERT INTO approvals_remembered
             (id, digest, remember, approval, subject, binding, made_by, made_ms, expires_ms)
         SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9
         WHERE (SELECT COUNT(*) FROM approvals_remembered) < $10
         ON CONFLICT (digest) DO UPDATE
         SET id = $1, approval = $4, binding = $6, made_by = $7, made_ms = $8, expires_ms = $9",
    )
    .bind(new_id())
    .bind(digest)
    .bind(remember.as_str())
    .bind(&*asked.id)
    .bind(&*asked.binding.subject)
    .bind(asked.binding.text())
    .bind(by.to_string())
    .bind(now)
    .bind(later(now, time))
    .bind(REMEMBERED_MAX)
    .execute(transaction.connection())
    .await?;
    Ok(())
}
