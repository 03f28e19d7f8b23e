//! The counts of limits by the month, kept in the store: a process goes on from what was counted
//! before, and several at one store share each count.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_policy::LivePolicy;
use toolbus_policy::months::{UnsavedCalls, month_of};
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore, Migration, Migrations, Transaction};
use toolbus_wire::clock::unix_now;

/// How often what was counted is written, and what others have counted is learned.
const SAVE_INTERVAL: Duration = Duration::from_secs(5);
/// Counts that are written in one transaction.
const GROUP_MAX: usize = 1_000;

/// What a store needs that keeps them.
pub(crate) const MIGRATIONS: Migrations = Migrations {
    owner: "policy",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE policy_months (
                  limit_name TEXT NOT NULL,
                  counted TEXT NOT NULL,
                  month BIGINT NOT NULL,
                  calls BIGINT NOT NULL,
                  PRIMARY KEY (limit_name, counted, month)
              )",
    }],
    additions: &[],
};

/// Keeps the counts of a policy. Nothing is opened where there is no limit by the month.
pub(crate) struct MonthCounts {
    keeper: Arc<Keeper>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

struct Keeper {
    policy: LivePolicy,
    store: LazyStore,
}

impl MonthCounts {
    /// Reads what was counted before, and keeps what is counted from now on.
    pub(crate) async fn start(policy: LivePolicy, store: LazyStore) -> Self {
        let keeper = Arc::new(Keeper { policy, store });
        let mut revision = keeper.policy.book().revision().clone();
        keeper.load().await;

        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (stopped, kept) = (stop.clone(), Arc::clone(&keeper));
        tasks.spawn(async move {
            // Until it is closed, which saves the last of it.
            while tokio::time::timeout(SAVE_INTERVAL, stopped.cancelled()).await.is_err() {
                kept.save().await;
                // A book that was replaced may have limits that are new here and not elsewhere.
                let now = kept.policy.book().revision().clone();
                if now != revision {
                    kept.load().await;
                    revision = now;
                }
            }
        });
        Self { keeper, stop, tasks }
    }

    /// Writes what is not written yet.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.keeper.save().await;
    }
}

impl Keeper {
    async fn load(&self) {
        if !self.policy.has_month_limits() || !self.store.may_hold_something() {
            return;
        }
        match self.try_load().await {
            Ok(counts) => tracing::debug!(counts, "read what was counted this month"),
            Err(error) => {
                tracing::error!(%error, "cannot read what was counted this month");
            }
        }
    }

    async fn try_load(&self) -> Result<usize, Error> {
        let store = self.store.open().await?;
        let month = i64::try_from(month_of(unix_now())).unwrap_or(i64::MAX);
        let rows = sqlx::query(
            "SELECT limit_name, counted, month, calls FROM policy_months WHERE month >= $1",
        );
        let rows = rows.bind(month).fetch_all(store.readers()).await?;
        for row in &rows {
            let (month, calls): (i64, i64) = (row.try_get("month")?, row.try_get("calls")?);
            let (limit, key): (&str, &str) = (row.try_get("limit_name")?, row.try_get("counted")?);
            let month = u64::try_from(month).unwrap_or_default();
            self.policy.restore(limit, key, month, to_count(calls));
        }

        store.write(move |transaction| Box::pin(forget_before(transaction, month))).await?;
        Ok(rows.len())
    }

    async fn save(&self) {
        let mut unsaved = self.policy.take_unsaved();
        while !unsaved.is_empty() {
            let rest = unsaved.split_off(unsaved.len().min(GROUP_MAX));
            let group = Arc::new(std::mem::replace(&mut unsaved, rest));

            match self.try_save(&group).await {
                Ok(totals) => {
                    group.iter().zip(totals).for_each(|(calls, total)| {
                        self.policy.saved(calls, to_count(total));
                    });
                }
                // To count them twice would be worse.
                Err(error @ Error::OutcomeUnknown(_)) => {
                    tracing::warn!(%error, "what was counted this month may not be kept");
                }
                Err(error) => {
                    tracing::warn!(%error, "what was counted this month is not kept yet");
                    group.iter().for_each(|calls| self.policy.not_saved(calls));
                }
            }
        }
    }

    async fn try_save(&self, group: &Arc<Vec<UnsavedCalls>>) -> Result<Vec<i64>, Error> {
        let group = Arc::clone(group);
        let store = self.store.open().await?;
        store.write(move |transaction| Box::pin(add(transaction, group))).await
    }
}

/// Adds what was counted, and gives what each count is then.
async fn add(
    transaction: &mut Transaction,
    group: Arc<Vec<UnsavedCalls>>,
) -> Result<Vec<i64>, Error> {
    let mut totals = Vec::with_capacity(group.len());
    for calls in &*group {
        let total = sqlx::query_scalar::<_, i64>(
            "INSERT INTO policy_months (limit_name, counted, month, calls) VALUES ($1, $2, $3, $4)
             ON CONFLICT (limit_name, counted, month)
             DO UPDATE SET calls = policy_months.calls + excluded.calls RETURNING calls",
        );
        let total = total
            .bind(calls.limit().to_owned())
            .bind(calls.key())
            .bind(i64::try_from(calls.month()).unwrap_or(i64::MAX))
            .bind(i64::from(calls.calls()));
        totals.push(total.fetch_one(transaction.connection()).await?);
    }
    Ok(totals)
}

async fn forget_before(transaction: &mut Transaction, month: i64) -> Result<(), Error> {
    let forget = sqlx::query("DELETE FROM policy_months WHERE month < $1").bind(month);
    forget.execute(transaction.connection()).await?;
    Ok(())
}

fn to_count(calls: i64) -> u32 {
    u32::try_from(calls.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
