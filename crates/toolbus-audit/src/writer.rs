//! The one task that writes rows, and takes away those that are too many or too old.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_store::{Error, LazyStore, Transaction};
use toolbus_wire::clock::unix_now;

use crate::audit::AuditConfig;
use crate::row::{AuditRow, COLUMNS};

/// Rows of one statement; what is left over is written row by row. SQLite looks a parameter up
/// among all others of its statement, so much larger ones are slower, and each size is prepared by
/// itself.
const STATEMENT_ROWS: usize = 32;
/// Rows that are written together.
const GROUP_MAX: usize = 2_048;
/// How long rows are collected, so that a busy process does not write each by itself.
const COLLECT_INTERVAL: Duration = Duration::from_millis(50);
/// How long to wait before a store is tried again that has failed.
const RETRY_BACKOFF: Duration = Duration::from_secs(1);
/// How often old rows are looked for.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
/// The same by rows that were written, so that the most that is kept is not passed by much.
const TIDY_ROWS: usize = 100_000;
/// Rows that are taken away in one transaction: others wait behind it.
const TIDY_GROUP: u64 = 10_000;

pub(crate) struct Writer {
    pub(crate) store: LazyStore,
    pub(crate) config: AuditConfig,
    pub(crate) queue: mpsc::Receiver<AuditRow>,
    pub(crate) dropped: Arc<AtomicU64>,
    pub(crate) stop: CancellationToken,
}

/// What is known of how the store takes rows.
#[derive(Default)]
struct Health {
    is_failing: bool,
    told_dropped: u64,
}

impl Writer {
    /// Writes until the log is closed, or nobody has it any more.
    pub(crate) async fn run(mut self) {
        let mut rows = Vec::with_capacity(GROUP_MAX);
        let mut health = Health::default();
        // What an earlier process has left is looked at with the first rows.
        let (mut tidied_at, mut written) = (None::<Instant>, 0);

        loop {
            let is_last = self.collect(&mut rows).await;
            if rows.is_empty() {
                break;
            }
            written += rows.len();
            if !self.write(&mut rows, &mut health, is_last).await {
                break;
            }
            let is_due = tidied_at.is_none_or(|at| at.elapsed() >= TIDY_INTERVAL);
            if is_due || written >= TIDY_ROWS {
                self.tidy().await;
                (tidied_at, written) = (Some(Instant::now()), 0);
            }
        }
    }

    /// Takes rows up, and says whether there will be no more after those that wait. Without any
    /// there are none left.
    async fn collect(&mut self, rows: &mut Vec<AuditRow>) -> bool {
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            _ = self.queue.recv_many(rows, GROUP_MAX) => {}
            () = stop.cancelled() => {
                self.queue.close();
                while let Ok(row) = self.queue.try_recv() {
                    rows.push(row);
                    if rows.len() == GROUP_MAX {
                        break;
                    }
                }
                return true;
            }
        }

        if rows.len() < GROUP_MAX && !stop.is_cancelled() {
            // A moment in which more may come; the end of the log is not waited for.
            let _ = timeout(COLLECT_INTERVAL, stop.cancelled()).await;
            while rows.len() < GROUP_MAX
                && let Ok(row) = self.queue.try_recv()
            {
                rows.push(row);
            }
        }
        false
    }

    /// Writes these rows, and tries again for as long as there is room for those that come
    /// meanwhile. Says whether to go on.
    async fn write(&self, rows: &mut Vec<AuditRow>, health: &mut Health, is_last: bool) -> bool {
        loop {
            match self.insert(rows.clone()).await {
                Ok(()) => {
                    rows.clear();
                    health.well(&self.dropped);
                    return true;
                }
                // They may be there already, and twice is worse than once or not at all.
                Err(error @ Error::OutcomeUnknown(_)) => {
                    tracing::warn!(%error, rows = rows.len(), "rows of the audit log may be lost");
                    rows.clear();
                    return true;
                }
                Err(error) => health.failing(&error),
            }

            if is_last || self.stop.is_cancelled() {
                self.dropped.fetch_add(rows.len() as u64, Ordering::Relaxed);
                let rows = rows.len() + self.queue.len();
                tracing::error!(rows, "rows of the audit log are lost");
                return false;
            }
            tokio::select! {
                () = sleep(RETRY_BACKOFF) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    async fn insert(&self, rows: Vec<AuditRow>) -> Result<(), Error> {
        let store = self.store.open().await?;
        store.write(move |transaction| Box::pin(insert_rows(transaction, rows))).await
    }

    /// Takes rows away that are too old or too many.
    async fn tidy(&self) {
        match self.try_tidy().await {
            Ok(0) => {}
            Ok(rows) => tracing::debug!(rows, "took rows of the audit log away"),
            Err(error) => tracing::warn!(%error, "cannot take rows of the audit log away"),
        }
    }

    async fn try_tidy(&self) -> Result<u64, Error> {
        let store = self.store.open().await?;
        let keep_ms = i64::try_from(self.config.keep_for.as_millis()).unwrap_or(i64::MAX);
        let now_ms = i64::try_from(unix_now().as_millis()).unwrap_or(i64::MAX);
        let rows_max = i64::try_from(self.config.rows_max).unwrap_or(i64::MAX);
        // The oldest that may stay, by number.
        let oldest = sqlx::query_scalar::<_, i64>(
            "SELECT began_ms FROM audit_calls ORDER BY began_ms DESC LIMIT 1 OFFSET $1",
        );
        let oldest = oldest.bind(rows_max).fetch_optional(store.readers()).await?;
        let cutoff = oldest.map_or(i64::MIN, |ms| ms.saturating_add(1)).max(now_ms - keep_ms);

        let mut taken = 0;
        loop {
            let count = store.write(move |transaction| Box::pin(take_away(transaction, cutoff)));
            let count = count.await?;
            taken += count;
            if count < TIDY_GROUP || self.stop.is_cancelled() {
                return Ok(taken);
            }
        }
    }
}

async fn insert_rows(transaction: &mut Transaction, rows: Vec<AuditRow>) -> Result<(), Error> {
    let (of_many, of_one) = (insert_text(STATEMENT_ROWS), insert_text(1));
    let mut rows = rows.into_iter();
    while rows.len() > 0 {
        let (text, count) = match rows.len() {
            ..STATEMENT_ROWS => (&of_one, 1),
            _ => (&of_many, STATEMENT_ROWS),
        };
        let query = sqlx::query(AssertSqlSafe(text.clone()));
        let query = rows.by_ref().take(count).fold(query, |query, row| row.bind(query));
        query.execute(transaction.connection()).await?;
    }
    Ok(())
}

/// Takes some of the rows away that began before this.
async fn take_away(transaction: &mut Transaction, cutoff_ms: i64) -> Result<u64, Error> {
    let last = sqlx::query_scalar::<_, i64>(
        "SELECT began_ms FROM audit_calls WHERE began_ms < $1
         ORDER BY began_ms LIMIT 1 OFFSET $2",
    );
    let offset = i64::try_from(TIDY_GROUP).unwrap_or(i64::MAX) - 1;
    let last = last.bind(cutoff_ms).bind(offset);
    let last = last.fetch_optional(transaction.connection()).await?;

    let taken = sqlx::query("DELETE FROM audit_calls WHERE began_ms < $1 AND began_ms <= $2")
        .bind(cutoff_ms)
        .bind(last.unwrap_or(i64::MAX))
        .execute(transaction.connection())
        .await?;
    Ok(taken.rows_affected())
}

fn insert_text(rows: usize) -> String {
    let mut text = format!("INSERT INTO audit_calls ({}) VALUES ", COLUMNS.join(", "));
    for row in 0..rows {
        text.push_str(if row == 0 { "(" } else { ", (" });
        for column in 0..COLUMNS.len() {
            let comma = if column == 0 { "" } else { ", " };
            text.push_str(&format!("{comma}${}", row * COLUMNS.len() + column + 1));
        }
        text.push(')');
    }
    text
}

impl Health {
    fn failing(&mut self, error: &Error) {
        if !self.is_failing {
            tracing::error!(%error, "the audit log cannot be written: calls go on without it");
        }
        self.is_failing = true;
    }

    fn well(&mut self, dropped: &AtomicU64) {
        let dropped = dropped.load(Ordering::Relaxed);
        if std::mem::take(&mut self.is_failing) {
            tracing::info!("the audit log is written again");
        }
        if dropped > self.told_dropped {
            let rows = dropped - self.told_dropped;
            tracing::error!(rows, "rows of the audit log were dropped, for there were too many");
            self.told_dropped = dropped;
        }
    }
}
