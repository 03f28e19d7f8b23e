//! What is kept, for the process that has a call: its row from the question to the end.
//!
//! A process is a *host* here, and each row names the host that has its call. Rows of hosts that
//! have died may be taken over ([`crate::upkeep`]), where the request is kept that brings the call
//! back; a call is let begin only by the host that has it.

use std::time::Duration;

use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_store::{Store, Transaction};
use toolbus_wire::envelope::new_id;

use crate::Error;
use crate::answers::{ApprovalStore, approval_in, later};
use crate::approval::{Approval, ApprovalState, COLUMNS};
use crate::binding::{BINDING_BYTES_MAX, Binding, Remember};
use crate::tables::CHANGES;

/// Longest request that is kept, in bytes. A call with a larger one ends with its process.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// Longest text that a rule or a tool puts into a row, in bytes.
const TEXT_BYTES_MAX: usize = 1_024;

/// A call that an approval is asked for.
#[derive(Debug, Clone)]
pub(crate) struct NewApproval {
    pub(crate) binding: Binding,
    /// What the call is known by when it comes again. `None`: it does not.
    pub(crate) call_key: Option<String>,
    pub(crate) call_id: String,
    pub(crate) tool: String,
    pub(crate) risk: String,
    pub(crate) door: String,
    pub(crate) agent: String,
    pub(crate) reason: String,
    /// What brings the call back, where it outlives this process.
    pub(crate) request: Option<String>,
    pub(crate) timeout: Duration,
}

/// What has become of a question.
#[derive(Debug)]
pub(crate) enum Asked {
    /// It is written down, or was before, and this host has its call.
    Ours(Box<Approval>),
    /// Another host has the call, and answers it.
    Elsewhere,
    /// The call was let begin before.
    Begun,
}

/// Whether a call may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It may, now and here.
    Now,
    /// It was let begin before.
    Begun,
    /// It has no approval that is good for it.
    No,
    /// Another host has it.
    Elsewhere,
}

/// Writes for one host.
#[derive(Clone)]
pub(crate) struct HostRows {
    pub(crate) approvals: ApprovalStore,
    pub(crate) host: String,
}

type StoreError = toolbus_store::Error;

impl HostRows {
    pub(crate) async fn store(&self) -> Result<&Store, Error> {
        self.approvals.open().await
    }

    /// Writes a question down, or finds that it is.
    pub(crate) async fn ask(&self, new: NewApproval) -> Result<Asked, Error> {
        let bytes = new.binding.text().len();
        if bytes > BINDING_BYTES_MAX {
            return Err(Error::TooLarge { bytes, limit: BINDING_BYTES_MAX });
        }

        let host = self.host.clone();
        let asked = self
            .store()
            .await?
            .write(move |transaction| Box::pin(async move { ask_in(transaction, host, new).await }))
            .await??;
        Ok(asked)
    }

    /// Finds a remembered answer that holds for such a call.
    pub(crate) async fn find_remembered(&self, binding: &Binding) -> Result<Option<String>, Error> {
        let store = self.store().await?;
        let kinds = [Remember::Session, Remember::Tool, Remember::Arguments];
        // A digest that there is not is no row's.
        let digests = kinds.map(|kind| binding.remembered_digest(kind).unwrap_or_default());
        let [session, tool, arguments] = digests;

        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT id FROM approvals_remembered
             WHERE digest IN ($1, $2, $3) AND expires_ms > {now} LIMIT 1"
        );
        let found = sqlx::query_scalar(AssertSqlSafe(text)).bind(session).bind(tool);
        Ok(found.bind(arguments).fetch_optional(store.readers()).await?)
    }

    /// The approval as it is.
    pub(crate) async fn read(&self, id: &str) -> Result<Approval, Error> {
        let store = self.store().await?;
        let text = format!("SELECT {COLUMNS} FROM approvals WHERE id = $1");
        let row = sqlx::query(AssertSqlSafe(text)).bind(id).fetch_optional(store.readers()).await?;
        row.map_or_else(|| Err(Error::NotFound(id.to_owned())), |row| Approval::of_row(&row))
    }

    /// Lets a call begin, once: where its approval is good for a call with this digest, and this
    /// host has it. What runs is recorded.
    pub(crate) async fn consume(
        &self,
        approval: &Approval,
        digest: String,
        runs: &Binding,
    ) -> Result<Begin, Error> {
        let (host, id) = (self.host.clone(), approval.id.clone());
        let (run_digest, run_text) = (runs.digest(), runs.text());
        let consumed = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let consumed = sqlx::query(
                    "UPDATE approvals
                     SET state = 'consumed', ended_ms = $4, digest = $5, binding = $6
                     WHERE id = $1 AND state IN ('approved', 'modified') AND digest = $2
                         AND held_by = $3 AND expires_ms > $4",
                )
                .bind(&*id)
                .bind(digest)
                .bind(&*host)
                .bind(now)
                .bind(run_digest)
                .bind(run_text)
                .execute(transaction.connection())
                .await?;
                if consumed.rows_affected() > 0 {
                    transaction.notify(CHANGES);
                    return Ok(Begin::Now);
                }

                Ok(match approval_in(transaction, &id).await? {
                    Some(Ok(approval)) => why_not(&approval, &host),
                    Some(Err(_)) | None => Begin::No,
                })
            })
        });
        Ok(consumed.await?)
    }

    /// Lets a call begin that was brought back and needs no approval any more.
    pub(crate) async fn begin_without(&self, call_key: &str) -> Result<Begin, Error> {
        let (host, key) = (self.host.clone(), call_key.to_owned());

        let begun = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                if has_begun(transaction, &key).await? {
                    return Ok(Begin::Begun);
                }
                let now = transaction.now_ms().await?;
                let begun = sqlx::query(
                    "UPDATE approvals
                     SET state = 'consumed', ended_ms = $3, note = 'no approval was needed any more'
                     WHERE call_key = $1 AND asked_digest >= '' AND held_by = $2
                         AND state IN ('pending', 'approved', 'modified')",
                )
                .bind(key)
                .bind(host)
                .bind(now)
                .execute(transaction.connection())
                .await?;
                transaction.notify(CHANGES);
                Ok(if begun.rows_affected() > 0 { Begin::Now } else { Begin::Elsewhere })
            })
        });
        Ok(begun.await?)
    }

    /// Ends an approval that nobody has given: no answer came, or nobody wants one any more.
    pub(crate) async fn expire(&self, id: &str, note: &'static str) -> Result<(), Error> {
        let (host, id) = (self.host.clone(), id.to_owned());
        let expired = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                sqlx::query(
                    "UPDATE approvals SET state = 'expired', ended_ms = $3, note = $4
                     WHERE id = $1 AND held_by = $2 AND state = 'pending'",
                )
                .bind(id)
                .bind(host)
                .bind(now)
                .bind(note)
                .execute(transaction.connection())
                .await?;
                transaction.notify(CHANGES);
                Ok(())
            })
        });
        Ok(expired.await?)
    }

    /// Ends an approval whose call is over before it began.
    pub(crate) async fn withdraw(&self, id: &str) -> Result<(), Error> {
        let (host, id) = (self.host.clone(), id.to_owned());

        let withdrawn = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                sqlx::query(
                    "UPDATE approvals
                     SET state = 'expired', ended_ms = $3, note = 'nobody waits for it any more',
                         request = NULL, held_by = NULL
                     WHERE id = $1 AND held_by = $2
                         AND state IN ('pending', 'approved', 'modified')",
                )
                .bind(id)
                .bind(host)
                .bind(now)
                .execute(transaction.connection())
                .await?;
                transaction.notify(CHANGES);
                Ok(())
            })
        });
        Ok(withdrawn.await?)
    }

    /// Leaves a call to its row: whoever lives when it is answered brings it back.
    pub(crate) async fn release(&self, call_key: &str) -> Result<(), Error> {
        let release = "UPDATE approvals SET held_by = NULL WHERE call_key = $1 AND asked_digest >= '' \
                       AND held_by = $2";
        self.let_go(call_key, release).await
    }

    /// Forgets the request of a call that has ended.
    pub(crate) async fn forget_request(&self, call_key: &str) -> Result<(), Error> {
        let forget = "UPDATE approvals SET held_by = NULL, request = NULL
                      WHERE call_key = $1 AND asked_digest >= '' AND held_by = $2";
        self.let_go(call_key, forget).await
    }

    async fn let_go(&self, call_key: &str, update: &'static str) -> Result<(), Error> {
        let (host, call_key) = (self.host.clone(), call_key.to_owned());
        let done = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let update = sqlx::query(update).bind(call_key).bind(host);
                update.execute(transaction.connection()).await?;
                transaction.notify(CHANGES);
                Ok(())
            })
        });
        Ok(done.await?)
    }
}

fn why_not(approval: &Approval, host: &str) -> Begin {
    match approval.state {
        ApprovalState::Consumed => Begin::Begun,
        _ if approval.held_by.as_deref() != Some(host) => Begin::Elsewhere,
        _ => Begin::No,
    }
}

/// `asked_digest` is there in this and other conditions so that SQLite takes the index of both: it
/// knows nothing of how many rows there are of a state or of a host.
async fn has_begun(transaction: &mut Transaction, call_key: &str) -> Result<bool, StoreError> {
    let begun = sqlx::query_scalar::<_, String>(
        "SELECT id FROM approvals
         WHERE call_key = $1 AND asked_digest >= '' AND state = 'consumed' LIMIT 1",
    );
    let begun = begun.bind(call_key).fetch_optional(transaction.connection()).await?;
    Ok(begun.is_some())
}

/// What a question comes to. An error of the store undoes the write.
async fn ask_in(
    transaction: &mut Transaction,
    host: String,
    new: NewApproval,
) -> Result<Result<Asked, Error>, StoreError> {
    let id = new_id();
    let digest = new.binding.digest();
    let call_key = new.call_key.clone().unwrap_or_else(|| id.clone());
    if new.call_key.is_some() && has_begun(transaction, &call_key).await? {
        return Ok(Ok(Asked::Begun));
    }

    insert(
        transaction,
        &Insert { id: &id, call_key: &call_key, digest: &digest, host: &host },
        &new,
    )
    .await?;
    let text = format!("SELECT {COLUMNS} FROM approvals WHERE call_key = $1 AND asked_digest = $2");
    let row = sqlx::query(AssertSqlSafe(text)).bind(&*call_key).bind(&*digest);
    let row = row.fetch_one(transaction.connection()).await?;
    let mut approval = match Approval::of_row(&row) {
        Ok(approval) => approval,
        Err(error) => return Ok(Err(error)),
    };

    if approval.held_by.as_deref() != Some(&*host) {
        if !take_from_dead(transaction, &approval.id, &host).await? {
            return Ok(Ok(Asked::Elsewhere));
        }
        approval.held_by = Some(host);
    }
    if new.call_key.is_some() {
        close_others(transaction, &call_key, &digest).await?;
    }
    transaction.notify(CHANGES);
    Ok(Ok(Asked::Ours(Box::new(approval))))
}

/// What names a new row.
struct Insert<'a> {
    id: &'a str,
    call_key: &'a str,
    digest: &'a str,
    host: &'a str,
}

/// Writes the row, where the same call has none.
async fn insert(
    transaction: &mut Transaction,
    row: &Insert<'_>,
    new: &NewApproval,
) -> Result<(), StoreError> {
    let now = transaction.now_ms().await?;
    let short = |text: &str| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();

    sqlx::query(
        "INSERT INTO approvals
             (id, state, call_key, asked_digest, digest, binding, call_id, tool, subject, risk,
              door, agent, reason, asked_ms, expires_ms, held_by, request)
         VALUES ($1, 'pending', $2, $3, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
         ON CONFLICT (call_key, asked_digest) DO NOTHING",
    )
    .bind(row.id)
    .bind(row.call_key)
    .bind(row.digest)
    .bind(new.binding.text())
    .bind(&*new.call_id)
    .bind(short(&new.tool))
    .bind(&*new.binding.subject)
    .bind(&*new.risk)
    .bind(&*new.door)
    .bind(&*new.agent)
    .bind(short(&new.reason))
    .bind(now)
    .bind(later(now, new.timeout))
    .bind(row.host)
    .bind(new.request.as_deref().filter(|request| request.len() <= REQUEST_BYTES_MAX))
    .execute(transaction.connection())
    .await?;
    Ok(())
}

/// Takes over the call of a row, where no living host has it.
async fn take_from_dead(
    transaction: &mut Transaction,
    id: &str,
    host: &str,
) -> Result<bool, StoreError> {
    let now = transaction.now_ms().await?;
    let taken = sqlx::query(
        "UPDATE approvals SET held_by = $2 WHERE id = $1
             AND (held_by IS NULL OR held_by NOT IN
                 (SELECT id FROM approvals_hosts WHERE until_ms > $3))",
    );
    let taken = taken.bind(id).bind(host).bind(now).execute(transaction.connection()).await?;
    Ok(taken.rows_affected() > 0)
}

/// Ends other questions of the same call: what it is about has changed since.
async fn close_others(
    transaction: &mut Transaction,
    call_key: &str,
    digest: &str,
) -> Result<(), StoreError> {
    let now = transaction.now_ms().await?;
    sqlx::query(
        "UPDATE approvals
         SET state = 'expired', ended_ms = $3, request = NULL, held_by = NULL,
             note = 'what the call is about has changed since'
         WHERE call_key = $1 AND asked_digest <> $2
             AND state IN ('pending', 'approved', 'modified')",
    )
    .bind(call_key)
    .bind(digest)
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(())
}
