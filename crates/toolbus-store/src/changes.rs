//! Change notice: who waits for a part of the state is woken when somebody has written it.
//!
//! PostgreSQL tells of it by itself. Of SQLite, what another process has written is found by
//! looking at the number of the file's version from time to time, and might be anything. Nobody is
//! told what has changed: whoever is woken looks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sqlx::AnyPool;
#[cfg(feature = "postgres")]
use sqlx::postgres::PgListener;
use tokio::sync::watch;
use tokio::time::sleep;
#[cfg(not(feature = "postgres"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};

use crate::{Error, Location};

/// The channel of PostgreSQL that notices go through.
pub(crate) const POSTGRES_CHANNEL: &str = "toolbus_changes";
/// How often the file of SQLite is looked at, while somebody waits.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);
/// Until a connection that was lost is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Who waits for what. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Changes(Arc<Mutex<HashMap<&'static str, watch::Sender<u64>>>>);

impl Changes {
    /// Sees a new number after each change of this part.
    pub(crate) fn watch(&self, part: &'static str) -> watch::Receiver<u64> {
        self.0.lock().entry(part).or_default().subscribe()
    }

    pub(crate) fn tell(&self, part: &str) {
        if let Some(sender) = self.0.lock().get(part) {
            sender.send_modify(|number| *number += 1);
        }
    }

    fn tell_all(&self) {
        for sender in self.0.lock().values() {
            sender.send_modify(|number| *number += 1);
        }
    }

    fn is_waited_for(&self) -> bool {
        self.0.lock().values().any(|sender| sender.receiver_count() > 0)
    }

    /// Hears of what others write, for ever.
    pub(crate) async fn hear(self, location: Location, readers: AnyPool) {
        loop {
            let heard = match &location {
                Location::Sqlite(_) => self.look_at_file(&readers).await,
                Location::Postgres(url) => self.listen(url).await,
            };
            if let Err(error) = heard {
                tracing::debug!(%error, "changes of the state by others are not heard");
            }
            sleep(RETRY_INTERVAL).await;
            // Something may have been missed.
            self.tell_all();
        }
    }

    async fn look_at_file(&self, readers: &AnyPool) -> Result<(), Error> {
        // The number is another one in each connection, and stays while nobody else writes.
        let mut connection = readers.acquire().await?;
        let mut known = None;
        loop {
            if self.is_waited_for() {
                let version: i64 =
                    sqlx::query_scalar("PRAGMA data_version").fetch_one(&mut *connection).await?;
                // The first look comes after somebody began to wait, and perhaps after a change.
                if known.replace(version) != Some(version) {
                    self.tell_all();
                }
            }
            sleep(LOOK_INTERVAL).await;
        }
    }

    #[cfg(feature = "postgres")]
    async fn listen(&self, url: &str) -> Result<(), Error> {
        let mut listener = PgListener::connect(url).await?;
        listener.listen(POSTGRES_CHANNEL).await?;
        self.tell_all();
        loop {
            match listener.try_recv().await? {
                Some(notice) => self.tell(notice.payload()),
                // The connection was lost, and is there again.
                None => self.tell_all(),
            }
        }
    }

    #[cfg(not(feature = "postgres"))]
    async fn listen(&self, _: &str) -> Result<(), Error> {
        Err(LeftOut(BuildFeature::Postgres).into())
    }
}

/// Waits until what is watched has changed: for ever where nothing is, or the store was closed.
pub async fn until_changed(changes: Option<&mut watch::Receiver<u64>>) {
    let has_changed = match changes {
        Some(changes) => changes.changed().await.is_ok(),
        None => false,
    };
    if !has_changed {
        std::future::pending().await
    }
}
