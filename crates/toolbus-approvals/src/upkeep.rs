//! What a host does from time to time: it says that it lives, takes over calls of hosts that have
//! died, and tidies up.

use std::time::Duration;

use toolbus_store::sqlx::{self, AssertSqlSafe};

use crate::Error;
use crate::answers::later;
use crate::calls::HostRows;
use crate::tables::CHANGES;

/// Rows that one statement changes or removes. More are left to the next.
const BATCH: i64 = 500;

/// States in which something is to be told to the caller.
const ANSWERED: &str = "'approved', 'modified', 'denied', 'expired', 'consumed'";
const PENDING: &str = "'pending'";

/// The statements that tidy up, by the moment `$1`, and whether that is one long ago.
const TIDYING: [(&str, bool); 7] = [
    (
        "UPDATE approvals SET state = 'expired', ended_ms = $1, note = 'nobody answered in time'
         WHERE id IN (SELECT id FROM approvals
             WHERE state = 'pending' AND ended_ms IS NULL AND expires_ms <= $1 LIMIT $2)",
        false,
    ),
    (
        "UPDATE approvals
         SET state = 'expired', ended_ms = $1, note = 'its call did not begin in time'
         WHERE id IN (SELECT id FROM approvals WHERE state IN ('approved', 'modified')
             AND ended_ms IS NULL AND expires_ms <= $1 LIMIT $2)",
        false,
    ),
    (
        "UPDATE approvals
         SET state = 'expired', ended_ms = $1, note = 'its call has ended with its process'
         WHERE id IN (SELECT id FROM approvals
             WHERE state IN ('pending', 'approved', 'modified') AND request IS NULL
                 AND ended_ms IS NULL AND (held_by IS NULL OR held_by NOT IN
                     (SELECT id FROM approvals_hosts WHERE until_ms > $1)) LIMIT $2)",
        false,
    ),
    (
        "DELETE FROM approvals
         WHERE id IN (SELECT id FROM approvals WHERE ended_ms < $1 LIMIT $2)",
        true,
    ),
    (
        "DELETE FROM approvals_remembered
         WHERE id IN (SELECT id FROM approvals_remembered WHERE expires_ms < $1 LIMIT $2)",
        false,
    ),
    (
        "DELETE FROM approvals_chains
         WHERE id IN (SELECT id FROM approvals_chains WHERE expires_ms < $1 LIMIT $2)",
        false,
    ),
    (
        "DELETE FROM approvals_hosts
         WHERE id IN (SELECT id FROM approvals_hosts WHERE until_ms < $1 LIMIT $2)",
        true,
    ),
];

/// A call that this host takes over.
#[derive(Debug, Clone)]
pub(crate) struct TakenOver {
    pub(crate) call_key: String,
    pub(crate) request: String,
}

impl HostRows {
    /// Says that this host lives, which holds for `ttl`.
    pub(crate) async fn renew_host(&self, ttl: Duration) -> Result<(), Error> {
        let host = self.host.clone();
        let renewed = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let until = later(transaction.now_ms().await?, ttl);
                sqlx::query(
                    "INSERT INTO approvals_hosts (id, until_ms) VALUES ($1, $2)
                     ON CONFLICT (id) DO UPDATE SET until_ms = $2",
                )
                .bind(host)
                .bind(until)
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        });
        Ok(renewed.await?)
    }

    /// Says that this host is no more: what it kept is free for others at once.
    pub(crate) async fn remove_host(&self) -> Result<(), Error> {
        let host = self.host.clone();
        let removed = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let delete = sqlx::query("DELETE FROM approvals_hosts WHERE id = $1").bind(host);
                delete.execute(transaction.connection()).await?;
                transaction.notify(CHANGES);
                Ok(())
            })
        });
        Ok(removed.await?)
    }

    /// The approvals of this host that are answered, or over.
    pub(crate) async fn answered(&self) -> Result<Vec<String>, Error> {
        let store = self.store().await?;
        let answered = sqlx::query_scalar(
            "SELECT id FROM approvals WHERE held_by = $1
                 AND state IN ('approved', 'modified', 'denied', 'expired')",
        );
        Ok(answered.bind(&*self.host).fetch_all(store.readers()).await?)
    }

    /// Takes over calls of this agent that no living host has: those that are answered, and up to
    /// so many others.
    pub(crate) async fn take_over(
        &self,
        agent: &str,
        answered_max: usize,
        pending_max: usize,
    ) -> Result<Vec<TakenOver>, Error> {
        let mut taken = self.take_over_in(agent, ANSWERED, answered_max).await?;
        taken.extend(self.take_over_in(agent, PENDING, pending_max).await?);
        Ok(taken)
    }

    async fn take_over_in(
        &self,
        agent: &str,
        states: &'static str,
        count: usize,
    ) -> Result<Vec<TakenOver>, Error> {
        // Most often there is nothing, which a look finds out without a write.
        let store = self.store().await?;
        let (now, free) = (store.location().now_ms_sql(), free_rows(states));
        // As wide as other numbers.
        let text = format!("SELECT CAST(1 AS BIGINT) FROM approvals WHERE {free} LIMIT 1");
        let text = text.replace("$2", now);
        let one = sqlx::query_scalar::<_, i64>(AssertSqlSafe(text)).bind(agent);
        if count == 0 || one.fetch_optional(store.readers()).await?.is_none() {
            return Ok(Vec::new());
        }

        let (host, agent) = (self.host.clone(), agent.to_owned());
        let count = i64::try_from(count).unwrap_or(i64::MAX).min(BATCH);
        let taken = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let text = format!(
                    "UPDATE approvals SET held_by = $3 WHERE id IN
                         (SELECT id FROM approvals WHERE {free} LIMIT $4)
                         AND (held_by IS NULL OR held_by NOT IN
                             (SELECT id FROM approvals_hosts WHERE until_ms > $2))
                     RETURNING call_key, request"
                );
                let rows: Vec<(String, String)> = sqlx::query_as(AssertSqlSafe(text))
                    .bind(agent)
                    .bind(now)
                    .bind(host)
                    .bind(count)
                    .fetch_all(transaction.connection())
                    .await?;
                Ok(rows)
            })
        });
        let taken = taken.await?.into_iter();
        Ok(taken.map(|(call_key, request)| TakenOver { call_key, request }).collect())
    }

    /// Tidies up: approvals whose time is over expire, those of calls that have died with their
    /// process too, and what has ended `keep_for` ago is removed, as are hosts that have died.
    pub(crate) async fn tidy(&self, keep_for: Duration) -> Result<(), Error> {
        let tidied = self.store().await?.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let old = now.saturating_sub(later(0, keep_for));

                let mut changed = 0;
                for (step, is_about_old) in TIDYING {
                    let moment = if is_about_old { old } else { now };
                    let step = sqlx::query(step).bind(moment).bind(BATCH);
                    changed += step.execute(transaction.connection()).await?.rows_affected();
                }
                if changed > 0 {
                    transaction.notify(CHANGES);
                }
                Ok(())
            })
        });
        Ok(tidied.await?)
    }
}

/// The condition of rows of agent `$1`, in one of these states, that no host has which lives at
/// `$2`.
fn free_rows(states: &str) -> String {
    format!(
        "agent = $1 AND request IS NOT NULL AND state IN ({states})
         AND (held_by IS NULL OR held_by NOT IN
             (SELECT id FROM approvals_hosts WHERE until_ms > $2))"
    )
}
