//! Leases: which of several processes does what only one may do.

use std::time::Duration;

use sqlx::AssertSqlSafe;

use crate::Error;
use crate::store::Store;
use crate::writer::Transaction;

/// The right to do something alone, for a while. Who holds it renews it in good time, and writes
/// what it does with [`Lease::check`] in the same transaction: a holder that was held up for longer
/// than its lease then writes nothing that another has begun anew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    name: String,
    /// Grows with every holder.
    token: i64,
    time: Duration,
}

impl Store {
    /// Takes a lease, where nobody has it or its time is over. `holder` is told to whoever asks.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub async fn acquire_lease(
        &self,
        name: &str,
        holder: &str,
        time: Duration,
    ) -> Result<Option<Lease>, Error> {
        let (name, holder) = (name.to_owned(), holder.to_owned());

        self.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                let token: Option<i64> = sqlx::query_scalar(
                    "INSERT INTO leases (name, holder, until_ms, token) VALUES ($1, $2, $3, 1)
                     ON CONFLICT (name) DO UPDATE
                     SET holder = $2, until_ms = $3, token = leases.token + 1
                     WHERE leases.until_ms <= $4
                     RETURNING token",
                )
                .bind(&*name)
                .bind(&*holder)
                .bind(end_of(now, time))
                .bind(now)
                .fetch_optional(transaction.connection())
                .await?;
                Ok(token.map(|token| Lease { name, token, time }))
            })
        })
        .await
    }

    /// Who has a lease now, if anybody.
    ///
    /// # Errors
    /// When the state cannot be read.
    pub async fn lease_holder(&self, name: &str) -> Result<Option<String>, Error> {
        let now = self.location().now_ms_sql();
        let holder = format!("SELECT holder FROM leases WHERE name = $1 AND until_ms > {now}");
        let holder = sqlx::query_scalar(AssertSqlSafe(holder)).bind(name);
        Ok(holder.fetch_optional(self.readers()).await?)
    }
}

impl Lease {
    /// What it is for.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Holds it for as long again, also when its time is over and nobody has taken it.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when another has it, and when the state cannot be written.
    pub async fn renew(&self, store: &Store) -> Result<(), Error> {
        let lease = self.clone();
        store
            .write(move |transaction| {
                Box::pin(async move {
                    let until = end_of(transaction.now_ms().await?, lease.time);
                    lease.update(transaction, until).await
                })
            })
            .await
    }

    /// Gives it back: the next may have it at once.
    ///
    /// # Errors
    /// When the state cannot be written. The lease ends by itself then.
    pub async fn release(self, store: &Store) -> Result<(), Error> {
        store
            .write(move |transaction| {
                Box::pin(async move {
                    match self.update(transaction, 0).await {
                        Err(Error::LeaseLost(_)) => Ok(()),
                        released => released,
                    }
                })
            })
            .await
    }

    /// Fails the transaction where another has the lease.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when another has it, and when the state cannot be read.
    pub async fn check(&self, transaction: &mut Transaction) -> Result<(), Error> {
        // A change, so that nobody takes the lease before the transaction is over.
        let held = sqlx::query("UPDATE leases SET token = token WHERE name = $1 AND token = $2")
            .bind(&*self.name)
            .bind(self.token)
            .execute(transaction.connection())
            .await?;
        self.expect_held(held.rows_affected())
    }

    /// Gives it back with a transaction: the next may have it once that is committed.
    ///
    /// # Errors
    /// [`Error::LeaseLost`] when another has it, and when the state cannot be written.
    pub async fn release_with(&self, transaction: &mut Transaction) -> Result<(), Error> {
        self.update(transaction, 0).await
    }

    async fn update(&self, transaction: &mut Transaction, until: i64) -> Result<(), Error> {
        let held = sqlx::query("UPDATE leases SET until_ms = $3 WHERE name = $1 AND token = $2")
            .bind(&*self.name)
            .bind(self.token)
            .bind(until)
            .execute(transaction.connection())
            .await?;
        self.expect_held(held.rows_affected())
    }

    fn expect_held(&self, rows: u64) -> Result<(), Error> {
        match rows {
            0 => Err(Error::LeaseLost(self.name.clone())),
            _ => Ok(()),
        }
    }
}

fn end_of(now_ms: i64, time: Duration) -> i64 {
    now_ms.saturating_add(i64::try_from(time.as_millis()).unwrap_or(i64::MAX))
}
