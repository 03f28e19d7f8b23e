//! The one writer: every write is a transaction for itself, and those that come at once are
//! committed together.
//!
//! To commit takes a disk some milliseconds, whatever was written. So the writer takes up all that
//! waits, makes a savepoint around each, and tells everybody once all of it is on the disk. What
//! one write does wrong is taken back alone; what ends the connection ends the whole group.

use std::collections::{BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use sqlx::{AnyConnection, AssertSqlSafe};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::changes::{Changes, POSTGRES_CHANNEL};
use crate::connection;
use crate::{Error, Location};

/// Writes that may wait. Those beyond wait for room.
pub(crate) const WAITING_MAX: usize = 4_096;
/// Writes that are committed together.
const GROUP_MAX: usize = 256;
/// How long a write may work, beside what it waits before. One that takes longer keeps all others
/// from the disk, so it ends the connection.
const WORK_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) type Work =
    Box<dyn for<'t> FnOnce(&'t mut Transaction) -> BoxFuture<'t, Result<(), Error>> + Send>;

/// A write that waits for its turn.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) done: oneshot::Sender<Result<(), Error>>,
}

/// What a write works with.
pub struct Transaction {
    connection: AnyConnection,
    location: Location,
    now_ms: Option<i64>,
    notices: BTreeSet<&'static str>,
}

impl Transaction {
    /// The connection, for statements of one's own. A transaction is under way: to begin, commit
    /// or roll back is not the work's affair.
    pub fn connection(&mut self) -> &mut AnyConnection {
        &mut self.connection
    }

    /// What time it is, in milliseconds of Unix time: by PostgreSQL's clock where several hosts
    /// share the state, for theirs may differ.
    ///
    /// # Errors
    /// When the database does not tell.
    pub async fn now_ms(&mut self) -> Result<i64, Error> {
        if let Some(now) = self.now_ms {
            return Ok(now);
        }
        let now = match self.location {
            Location::Sqlite(_) => {
                let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
                i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
            }
            Location::Postgres(_) => {
                let now = format!("SELECT {}", self.location.now_ms_sql());
                sqlx::query_scalar(AssertSqlSafe(now)).fetch_one(&mut self.connection).await?
            }
        };
        Ok(*self.now_ms.insert(now))
    }

    /// Has everybody look who waits for this part of the state, once the write is committed.
    pub fn notify(&mut self, part: &'static str) {
        self.notices.insert(part);
    }

    fn is_sqlite(&self) -> bool {
        matches!(self.location, Location::Sqlite(_))
    }

    async fn run(&mut self, sql: &'static str) -> Result<(), Error> {
        sqlx::raw_sql(sql).execute(&mut self.connection).await?;
        Ok(())
    }

    async fn begin(&mut self) -> Result<(), Error> {
        self.now_ms = None;
        self.notices.clear();
        match self.location {
            Location::Sqlite(_) => self.run("BEGIN IMMEDIATE").await,
            Location::Postgres(_) => self.run("BEGIN").await,
        }
    }

    /// Does one write within the transaction. `Err` ends the group; what the write itself made of
    /// it is inside.
    async fn work(&mut self, work: Work) -> Result<Result<(), Error>, Error> {
        self.run("SAVEPOINT work").await?;
        let notices = self.notices.clone();
        let working = AssertUnwindSafe(work(self)).catch_unwind();
        let worked = match timeout(WORK_TIMEOUT, working).await {
            Ok(Ok(worked)) => worked,
            Ok(Err(_)) => return Err(Error::Unavailable("a write panicked".to_owned())),
            Err(_) => return Err(Error::Unavailable("a write took too long".to_owned())),
        };
        match worked {
            Ok(()) => {
                // Where a statement failed and the work made nothing of it, this does.
                match self.run("RELEASE SAVEPOINT work").await {
                    Err(error) if error.is_of_statement() => self.undo(error, notices).await,
                    released => released.map(Ok),
                }
            }
            Err(error) if error.is_of_statement() => self.undo(error, notices).await,
            Err(error) => Err(error),
        }
    }

    async fn undo(
        &mut self,
        error: Error,
        notices: BTreeSet<&'static str>,
    ) -> Result<Result<(), Error>, Error> {
        self.notices = notices;
        self.run("ROLLBACK TO SAVEPOINT work").await?;
        self.run("RELEASE SAVEPOINT work").await?;
        Ok(Err(error))
    }

    async fn commit(&mut self) -> Result<(), Error> {
        if let Location::Postgres(_) = self.location {
            for part in self.notices.clone() {
                sqlx::query("SELECT pg_notify($1, $2)")
                    .bind(POSTGRES_CHANNEL)
                    .bind(part)
                    .execute(&mut self.connection)
                    .await?;
            }
        }
        self.run("COMMIT").await.map_err(|error| match error {
            // The database has answered.
            Error::Full | Error::ReadOnly | Error::Locked => error,
            error if error.is_of_statement() => error,
            error => Error::OutcomeUnknown(error.to_string()),
        })
    }
}

/// Writes what comes in.
pub(crate) struct Writer {
    pub(crate) location: Location,
    pub(crate) changes: Changes,
    pub(crate) jobs: mpsc::Receiver<Job>,
}

impl Writer {
    /// Writes until the store is closed.
    pub(crate) async fn run(mut self, connection: AnyConnection) {
        let mut transaction = Some(self.transaction(connection));
        let mut waiting = VecDeque::new();
        let mut taken = Vec::new();
        loop {
            if waiting.is_empty() {
                if self.jobs.recv_many(&mut taken, GROUP_MAX).await == 0 {
                    break;
                }
                waiting.extend(taken.drain(..));
            }

            let current = match transaction.take() {
                Some(transaction) => transaction,
                None => match connection::writer(&self.location).await {
                    Ok(connection) => self.transaction(connection),
                    Err(error) => {
                        tell_all(waiting.drain(..).map(|job| job.done), &Err(error));
                        continue;
                    }
                },
            };
            transaction = self.write_group(current, &mut waiting).await;
        }

        if let Some(transaction) = transaction {
            // What is committed is on the disk already.
            let _ = sqlx::Connection::close(transaction.connection).await;
        }
    }

    fn transaction(&self, connection: AnyConnection) -> Transaction {
        let location = self.location.clone();
        Transaction { connection, location, now_ms: None, notices: BTreeSet::new() }
    }

    /// Does what waits, and tells everybody. The connection is given back unless it is lost; what
    /// was not begun when it was lost waits on.
    async fn write_group(
        &self,
        mut transaction: Transaction,
        waiting: &mut VecDeque<Job>,
    ) -> Option<Transaction> {
        let mut worked = Vec::with_capacity(waiting.len());
        let mut written = transaction.begin().await;
        if written.is_err() {
            // Nothing of it was begun, and no other connection would do better at once.
            worked.extend(waiting.drain(..).map(|job| job.done));
        }

        while written.is_ok() {
            let Some(job) = waiting.pop_front() else { break };
            // A caller that gave up before its turn does not want it written.
            if job.done.is_closed() {
                continue;
            }
            match transaction.work(job.work).await {
                Ok(Ok(())) => worked.push(job.done),
                Ok(Err(error)) => drop(job.done.send(Err(error))),
                Err(error) => {
                    worked.push(job.done);
                    written = Err(error);
                }
            }
        }

        if written.is_ok() {
            written = transaction.commit().await;
        }
        match &written {
            Ok(()) => transaction.notices.iter().for_each(|part| self.changes.tell(part)),
            Err(error) => tracing::warn!(%error, writes = worked.len(), "state was not written"),
        }
        tell_all(worked.into_iter(), &written);

        let is_usable = match written {
            Ok(()) => true,
            // SQLite may have ended the transaction by itself, which is as good.
            Err(Error::Full | Error::ReadOnly | Error::Locked) => {
                transaction.run("ROLLBACK").await.is_ok() || transaction.is_sqlite()
            }
            Err(_) => false,
        };
        is_usable.then_some(transaction)
    }
}

fn tell_all(
    callers: impl Iterator<Item = oneshot::Sender<Result<(), Error>>>,
    written: &Result<(), Error>,
) {
    for caller in callers {
        // The caller may have given up.
        drop(caller.send(written.clone()));
    }
}
