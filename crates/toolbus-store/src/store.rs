//! The store.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use sqlx::AnyPool;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::changes::Changes;
use crate::writer::{Job, Transaction, WAITING_MAX, Work, Writer};
use crate::{Error, Location, Migrations, connection, migrations};

/// How long a write waits for its turn and its commit. It may still be made after that.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a store that is closed waits for what is being written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// State that survives a restart. Clones are the same store.
#[derive(Clone)]
pub struct Store(Arc<Inner>);

struct Inner {
    location: Location,
    readers: AnyPool,
    changes: Changes,
    jobs: parking_lot::Mutex<Option<mpsc::Sender<Job>>>,
    tasks: parking_lot::Mutex<JoinSet<()>>,
}

impl Store {
    /// Opens the state, and brings its tables up to what this program knows.
    ///
    /// # Errors
    /// When it cannot be reached, read or written, or a newer program has written it.
    pub async fn open(location: Location, migrations: &[Migrations]) -> Result<Self, Error> {
        connection::prepare(&location)?;
        let mut connection = connection::writer(&location).await?;
        let all: Vec<_> =
            std::iter::once(migrations::OWN).chain(migrations.iter().copied()).collect();
        migrations::apply(&mut connection, &location, &all).await?;

        let readers = connection::readers(&location)?;
        let changes = Changes::default();
        let (sender, jobs) = mpsc::channel(WAITING_MAX);
        let writer = Writer { location: location.clone(), changes: changes.clone(), jobs };
        let mut tasks = JoinSet::new();
        tasks.spawn(writer.run(connection));
        tasks.spawn(changes.clone().hear(location.clone(), readers.clone()));

        let jobs = parking_lot::Mutex::new(Some(sender));
        let tasks = parking_lot::Mutex::new(tasks);
        Ok(Self(Arc::new(Inner { location, readers, changes, jobs, tasks })))
    }

    /// Where it is kept.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.0.location
    }

    /// Does a write. When this returns `Ok`, it is on the disk; when it returns an error but
    /// [`Error::OutcomeUnknown`], nothing of it is. A call that is dropped before its turn is not
    /// made, and one that is dropped later may be. `work` that fails is undone as a whole; what it
    /// finds out without failing is for its result.
    ///
    /// # Errors
    /// What `work` says, or why it could not be committed.
    pub async fn write<T, F>(&self, work: F) -> Result<T, Error>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction) -> BoxFuture<'t, Result<T, Error>> + Send + 'static,
    {
        let (keep, kept) = oneshot::channel();
        let work: Work = Box::new(move |transaction| {
            Box::pin(async move {
                // The caller may have given up.
                drop(keep.send(work(transaction).await?));
                Ok(())
            })
        });

        self.submit(work).await?;
        kept.await.map_err(|_| Error::Closed)
    }

    /// Waits until a write is committed. It is compiled once, and not for each write.
    async fn submit(&self, work: Work) -> Result<(), Error> {
        let (done, outcome) = oneshot::channel();
        let jobs = self.0.jobs.lock().clone().ok_or(Error::Closed)?;
        let writing = async {
            jobs.send(Job { work, done }).await.map_err(|_| Error::Closed)?;
            outcome.await.map_err(|_| Error::Closed)?
        };
        match timeout(WRITE_TIMEOUT, writing).await {
            Ok(written) => written,
            Err(_) => Err(Error::OutcomeUnknown("it takes too long".to_owned())),
        }
    }

    /// Connections that read, for statements of one's own.
    #[must_use]
    pub fn readers(&self) -> &AnyPool {
        &self.0.readers
    }

    /// Sees a new number when this part of the state was written, by [`Transaction::notify`] here
    /// or elsewhere, and sometimes when it was not.
    #[must_use]
    pub fn changes(&self, part: &'static str) -> watch::Receiver<u64> {
        self.0.changes.watch(part)
    }

    /// Writes what waits, and closes every connection.
    pub async fn close(&self) {
        drop(self.0.jobs.lock().take());
        let mut tasks = std::mem::take(&mut *self.0.tasks.lock());
        // The writer is the only one that ends by itself.
        if timeout(CLOSE_TIMEOUT, tasks.join_next()).await.is_err() {
            tracing::error!("the state was closed with writes under way");
        }
        tasks.shutdown().await;
        self.0.readers.close().await;
    }
}
