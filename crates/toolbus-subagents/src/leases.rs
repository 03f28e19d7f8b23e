//! The rows of subagents as those processes see them that run them and tell of them: what was left
//! by others, what is to be told, and what is forgotten.

use std::time::Duration;

use toolbus_policy::SessionOwner;
use toolbus_store::JsonColumn;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_tools::Lineage;
use toolbus_tools::budget::{TurnUsage, Usage};
use toolbus_wire::name::InstanceId;

use crate::config::ms;
use crate::rows::{ENDED, RUNNING, SubagentRows};
use crate::tables::CHANGES;
use crate::{Error, SubagentsConfig};

/// Forgets subagents that were told of beyond so many, the oldest of the owners that have most of
/// them, so that no owner flushes those of another. Whoever only claims a name may claim others, so
/// all of those together are one owner; among them the same holds of each name.
const FORGET_OF_MOST: &str = "DELETE FROM subagents WHERE agent = $1 AND id IN (
         SELECT id FROM (
             SELECT id, ROW_NUMBER() OVER (ORDER BY place, told_ms DESC, id) AS standing
             FROM (SELECT id, told_ms, ROW_NUMBER() OVER
                              (PARTITION BY known_owner ORDER BY owner_place, told_ms DESC, id)
                              AS place
                   FROM (SELECT id, told_ms,
                                CASE WHEN substr(owner, 1, 8) = 'claimed:' THEN '' ELSE owner END
                                    AS known_owner,
                                ROW_NUMBER() OVER
                                    (PARTITION BY owner ORDER BY told_ms DESC, id) AS owner_place
                         FROM subagents WHERE agent = $1 AND told_ms IS NOT NULL) AS of_owners
                  ) AS of_known
             ) AS ranked
         WHERE standing > $2)";

/// A subagent that runs, or whose end is to be told.
#[derive(Debug, Clone)]
pub(crate) struct OpenRow {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    pub(crate) description: String,
    pub(crate) lineage: Option<Lineage>,
    pub(crate) is_running: bool,
    holder: String,
    lease_until_ms: i64,
    pub(crate) ended_ms: Option<i64>,
    telling_until_ms: i64,
}

/// A subagent that this process has taken up.
#[derive(Debug, Clone)]
pub(crate) struct Orphan {
    pub(crate) id: String,
    pub(crate) owner: SessionOwner,
    pub(crate) description: String,
    pub(crate) context: String,
    pub(crate) lineage: Option<Lineage>,
    pub(crate) spent: Usage,
    pub(crate) is_paused: bool,
    pub(crate) is_cancelled: bool,
    /// How often it was begun, this time included.
    pub(crate) begun: i64,
    pub(crate) timeout_ms: i64,
    pub(crate) left_ms: i64,
}

/// An end that this process is to tell.
pub(crate) struct Claim {
    pub(crate) row: OpenRow,
    /// As it is kept.
    pub(crate) outcome: String,
}

impl SubagentRows {
    /// Every subagent of the agent that runs or whose end is to be told, and what time it is.
    pub(crate) async fn open(&self) -> Result<(i64, Vec<OpenRow>), Error> {
        let now_ms = self.now_ms().await?;
        let rows = sqlx::query(
            "SELECT id, owner, session, description, lineage, state, holder, lease_until_ms, ended_ms,
                    telling_until_ms
             FROM subagents WHERE agent = $1 AND told_ms IS NULL ORDER BY created_ms, id",
        )
        .bind(self.agent.as_str())
        .fetch_all(self.store.open().await?.readers())
        .await?;
        let read: Result<Vec<_>, sqlx::Error> =
            rows.iter().map(|row| OpenRow::read(self, row)).collect();
        Ok((now_ms, read?.into_iter().flatten().collect()))
    }

    /// Takes up a subagent that a process has left which was lost. `None`: another has done so, or
    /// it is none of those.
    pub(crate) async fn take_up(&self, id: &str) -> Result<Option<Orphan>, Error> {
        let (id, this) = (id.to_owned(), self.clone());
        let store = self.store.open().await?;
        let taken = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let row = sqlx::query(
                    "UPDATE subagents SET holder = $3, lease_until_ms = $4, begun = begun + 1
                     WHERE id = $1 AND state = $2 AND lease_until_ms <= $5
                     RETURNING id, owner, session, description, context, lineage, is_paused,
                               begun, created_ms, deadline_ms, cancel_ms, spent_calls, spent_turns,
                               spent_tokens, spent_micro_usd",
                )
                .bind(id)
                .bind(RUNNING)
                .bind(this.instance.as_str())
                .bind(now.saturating_add(this.lease_ms))
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;

                match row {
                    Some(row) => Ok(Orphan::read(&this, &row, now)?),
                    None => Ok(None),
                }
            })
        });
        Ok(taken.await?)
    }

    /// Takes an end, so that no other process tells it meanwhile.
    pub(crate) async fn claim(&self, row: &OpenRow) -> Result<Option<Claim>, Error> {
        let (id, teller) = (row.id.clone(), self.instance.to_string());
        let claim_ms = self.claim_ms;
        let store = self.store.open().await?;

        let claimed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let outcome: Option<String> = sqlx::query_scalar(
                    "UPDATE subagents SET teller = $2, telling_until_ms = $3
                     WHERE id = $1 AND state = $4 AND told_ms IS NULL AND telling_until_ms <= $5
                     RETURNING outcome",
                )
                .bind(id)
                .bind(teller)
                .bind(now.saturating_add(claim_ms))
                .bind(ENDED)
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                Ok(outcome)
            })
        });
        Ok(claimed.await?.map(|outcome| Claim { row: row.clone(), outcome }))
    }

    /// Says that this process is still telling an end. `false`: it is another's now.
    pub(crate) async fn renew_claim(&self, id: &str) -> Result<bool, Error> {
        let (id, teller) = (id.to_owned(), self.instance.to_string());
        let claim_ms = self.claim_ms;
        let store = self.store.open().await?;
        let renewed = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let rows = sqlx::query(
                    "UPDATE subagents SET telling_until_ms = $3
                     WHERE id = $1 AND teller = $2 AND told_ms IS NULL",
                )
                .bind(id)
                .bind(teller)
                .bind(now.saturating_add(claim_ms))
                .execute(transaction.connection())
                .await?;
                Ok(rows.rows_affected() > 0)
            })
        });
        Ok(renewed.await?)
    }

    /// Notes that an end was told, or lets it be told again.
    pub(crate) async fn settle(&self, id: &str, is_told: bool) -> Result<(), Error> {
        let (id, teller) = (id.to_owned(), self.instance.to_string());
        let store = self.store.open().await?;

        let settled = store.write(move |transaction| {
            Box::pin(async move {
                let told_ms = match is_told {
                    true => Some(transaction.now_ms().await?),
                    false => None,
                };
                sqlx::query(
                    "UPDATE subagents SET told_ms = $3, telling_until_ms = 0,
                            outcome = CASE WHEN $3 IS NULL THEN outcome ELSE '' END
                     WHERE id = $1 AND teller = $2 AND told_ms IS NULL",
                )
                .bind(id)
                .bind(teller)
                .bind(told_ms)
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        });
        Ok(settled.await?)
    }

    /// Lets others take up what this process has, at once. That is no loss.
    pub(crate) async fn release(&self) -> Result<(), Error> {
        let this = self.clone();
        let store = self.store.open().await?;

        let released = store.write(move |transaction| {
            Box::pin(async move {
                sqlx::query(
                    "UPDATE subagents SET lease_until_ms = 0, begun = begun - 1
                     WHERE agent = $1 AND holder = $2 AND state = $3",
                )
                .bind(this.agent.as_str())
                .bind(this.instance.as_str())
                .bind(RUNNING)
                .execute(transaction.connection())
                .await?;
                sqlx::query(
                    "UPDATE subagents SET telling_until_ms = 0
                     WHERE agent = $1 AND teller = $2 AND told_ms IS NULL",
                )
                .bind(this.agent.as_str())
                .bind(this.instance.as_str())
                .execute(transaction.connection())
                .await?;
                transaction.notify(CHANGES);
                Ok(())
            })
        });
        Ok(released.await?)
    }

    /// Forgets subagents that were told of long ago, where there are many the oldest of the owners
    /// that have most, ends that no session has taken, and what was on whiteboards for long. Says
    /// how many ends those were.
    pub(crate) async fn forget(&self, config: &SubagentsConfig) -> Result<u64, Error> {
        let (agent, store) = (self.agent.to_string(), self.store.open().await?);
        let (history_ttl_ms, entry_ttl_ms) =
            (ms(config.history_ttl), ms(config.whiteboard.entry_ttl));
        // Room for those that come until this is done again.
        let kept = i64::try_from(config.history_max / 10 * 9).unwrap_or(i64::MAX);

        let forgotten = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let oldest_ms = now.saturating_sub(history_ttl_ms);
                let statements = [
                    ("DELETE FROM subagents WHERE agent = $1 AND told_ms < $2", oldest_ms),
                    (FORGET_OF_MOST, kept),
                    (
                        "DELETE FROM subagent_whiteboard WHERE agent = $1 AND written_ms < $2",
                        now.saturating_sub(entry_ttl_ms),
                    ),
                    (
                        "DELETE FROM subagent_sessions WHERE agent = $1 AND used_ms < $2",
                        now.saturating_sub(history_ttl_ms.max(entry_ttl_ms)),
                    ),
                ];
                for (statement, number) in statements {
                    sqlx::query(statement)
                        .bind(&agent)
                        .bind(number)
                        .execute(transaction.connection())
                        .await?;
                }
                let untold = sqlx::query(
                    "DELETE FROM subagents
                     WHERE agent = $1 AND told_ms IS NULL AND ended_ms < $2",
                )
                .bind(agent)
                .bind(oldest_ms)
                .execute(transaction.connection())
                .await?;
                Ok(untold.rows_affected())
            })
        });
        Ok(forgotten.await?)
    }
}

impl OpenRow {
    fn read(rows: &SubagentRows, row: &AnyRow) -> Result<Option<Self>, sqlx::Error> {
        let id: String = row.try_get("id")?;
        let Some(owner) = read_owner(rows, row)? else { return Ok(None) };
        let state: String = row.try_get("state")?;
        let lineage = JsonColumn::read(row, "lineage", &id)?;
        Ok(Some(Self {
            id,
            owner,
            description: row.try_get("description")?,
            lineage,
            is_running: state == RUNNING,
            holder: row.try_get("holder")?,
            lease_until_ms: row.try_get("lease_until_ms")?,
            ended_ms: row.try_get("ended_ms")?,
            telling_until_ms: row.try_get("telling_until_ms")?,
        }))
    }

    /// Whether its process is lost.
    pub(crate) fn is_orphan(&self, now_ms: i64) -> bool {
        self.is_running && self.lease_until_ms <= now_ms
    }

    /// Whether this process may tell its end.
    pub(crate) fn may_be_told_by(
        &self,
        instance: &InstanceId,
        now_ms: i64,
        handover_grace: Duration,
    ) -> bool {
        let Some(ended_ms) = self.ended_ms else { return false };
        let is_ours = self.holder == instance.as_str()
            || now_ms >= ended_ms.saturating_add(ms(handover_grace));
        is_ours && self.telling_until_ms <= now_ms
    }
}

impl Orphan {
    fn read(rows: &SubagentRows, row: &AnyRow, now_ms: i64) -> Result<Option<Self>, sqlx::Error> {
        let Some(owner) = read_owner(rows, row)? else { return Ok(None) };
        let id: String = row.try_get("id")?;
        let (created_ms, deadline_ms): (i64, i64) =
            (row.try_get("created_ms")?, row.try_get("deadline_ms")?);
        let cancel_ms: Option<i64> = row.try_get("cancel_ms")?;
        let spent = |name| row.try_get::<i64, _>(name).map(|number| number.max(0).unsigned_abs());
        let turns = TurnUsage {
            turns: spent("spent_turns")?,
            tokens: spent("spent_tokens")?,
            cost_micro_usd: spent("spent_micro_usd")?,
        };
        let is_paused: i64 = row.try_get("is_paused")?;

        Ok(Some(Self {
            lineage: JsonColumn::read(row, "lineage", &id)?,
            id,
            owner,
            description: row.try_get("description")?,
            context: row.try_get("context")?,
            spent: Usage { calls: spent("spent_calls")?, turns },
            is_paused: is_paused != 0,
            is_cancelled: cancel_ms.is_some(),
            begun: row.try_get("begun")?,
            timeout_ms: deadline_ms.saturating_sub(created_ms),
            left_ms: deadline_ms.saturating_sub(now_ms),
        }))
    }
}

fn read_owner(rows: &SubagentRows, row: &AnyRow) -> Result<Option<SessionOwner>, sqlx::Error> {
    let (owner, session): (String, String) = (row.try_get("owner")?, row.try_get("session")?);
    let read = SessionOwner::read(&rows.agent, &owner, &session);
    if read.is_none() {
        let id: String = row.try_get("id")?;
        tracing::warn!(id, "a subagent cannot be read");
    }
    Ok(read)
}
