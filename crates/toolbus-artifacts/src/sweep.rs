//! The sweep: what is over is taken away, rows first, then bytes.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::StreamExt as _;
use object_store::path::Path;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{LazyStore, Transaction};

use crate::Error;
use crate::artifact_store::Artifacts;
use crate::writing::delete;

/// Artifacts that are taken away in one transaction: others wait behind it.
const GROUP_MAX: i64 = 500;
/// How often it is swept.
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// Every so many sweeps, objects without a row are looked for.
const SWEEPS_PER_STRAYS: u64 = 24 * 60;
/// Objects that are looked at for one that no row knows.
const LISTED_MAX: usize = 100_000;
/// How old an object without a row has to be: a younger one may be about to get it.
const STRAY_GRACE: Duration = Duration::from_secs(24 * 60 * 60);

impl Artifacts {
    /// Takes away the artifacts whose time is over and that nobody pins, and says how many they
    /// were.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn sweep(&self) -> Result<u64, Error> {
        let mut swept = 0;
        loop {
            let store: &LazyStore = &self.0.store;
            let group = store
                .open()
                .await?
                .write(|transaction| Box::pin(async move { sweep_group(transaction).await }))
                .await?;
            swept += group.artifacts;
            for object in group.objects {
                delete(self, &Path::from(object)).await;
            }
            if group.artifacts < GROUP_MAX.unsigned_abs() {
                return Ok(swept);
            }
        }
    }

    async fn sweep_all(&self, with_strays: bool) {
        let swept = self.sweep().await;
        let strays = if with_strays { self.sweep_strays().await } else { Ok(0) };
        for result in [swept, strays] {
            if let Err(error) = result {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "artifacts whose time is over are still there");
            }
        }
    }

    /// Deletes objects that have no row, which a process leaves that ends in the middle of storing
    /// one, and says how many they were.
    ///
    /// # Errors
    /// When the store or the place cannot be read.
    pub async fn sweep_strays(&self) -> Result<u64, Error> {
        let rows = sqlx::query("SELECT object FROM artifacts_objects")
            .fetch_all(self.0.store.open().await?.readers())
            .await?;
        let mut known = BTreeSet::new();
        for row in &rows {
            known.insert(row.try_get::<String, _>("object")?);
        }

        let mut strays = Vec::new();
        let place = self.0.place.objects()?;
        let mut objects = place.list(None).take(LISTED_MAX);
        while let Some(object) = objects.next().await {
            let object = object?;
            let changed: std::time::SystemTime = object.last_modified.into();
            let is_old = changed.elapsed().is_ok_and(|age| age > STRAY_GRACE);
            if is_old && !known.contains(object.location.as_ref()) {
                strays.push(object.location);
            }
        }
        for stray in &strays {
            delete(self, stray).await;
        }
        Ok(strays.len() as u64)
    }
}

/// Sweeps from time to time, while the store is open.
pub struct Sweeper {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Sweeper {
    /// Begins to sweep these artifacts. Needs a tokio runtime.
    #[must_use]
    pub fn start(artifacts: Artifacts) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let stopped = stop.clone();
        tasks.spawn(async move {
            let mut sweeps = 0_u64;
            while stopped.run_until_cancelled(tokio::time::sleep(SWEEP_INTERVAL)).await.is_some() {
                if artifacts.0.store.opened().is_none() {
                    continue;
                }
                artifacts.sweep_all(sweeps.is_multiple_of(SWEEPS_PER_STRAYS)).await;
                sweeps += 1;
            }
        });
        tasks.close();
        Self { stop, tasks }
    }

    /// Ends it, and waits for the sweep that is under way.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

/// What one transaction took away.
struct Group {
    artifacts: u64,
    /// Objects that no artifact needs any more.
    objects: Vec<String>,
}

async fn sweep_group(transaction: &mut Transaction) -> Result<Group, toolbus_store::Error> {
    let now = transaction.now_ms().await?;
    let connection = transaction.connection();
    sqlx::query("DELETE FROM artifacts_pins WHERE until_ms <= $1")
        .bind(now)
        .execute(&mut *connection)
        .await?;
    let over = sqlx::query(
        "DELETE FROM artifacts WHERE id IN (
             SELECT id FROM artifacts WHERE expires_ms <= $1
             AND NOT EXISTS (SELECT 1 FROM artifacts_pins WHERE artifact = artifacts.id)
             ORDER BY expires_ms LIMIT $2)
         RETURNING owner, digest, bytes",
    )
    .bind(now)
    .bind(GROUP_MAX)
    .fetch_all(&mut *connection)
    .await?;

    let mut digests = BTreeSet::new();
    for row in &over {
        digests.insert(row.try_get::<String, _>("digest")?);
        sqlx::query(
            "UPDATE artifacts_used SET artifacts = artifacts - 1, bytes = bytes - $2
             WHERE owner = $1",
        )
        .bind(row.try_get::<String, _>("owner")?)
        .bind(row.try_get::<i64, _>("bytes")?)
        .execute(&mut *connection)
        .await?;
    }
    sqlx::query("DELETE FROM artifacts_used WHERE artifacts <= 0")
        .execute(&mut *connection)
        .await?;

    let mut objects = Vec::new();
    for digest in digests {
        let unused = sqlx::query(
            "DELETE FROM artifacts_objects WHERE digest = $1
             AND NOT EXISTS (SELECT 1 FROM artifacts WHERE digest = artifacts_objects.digest)
             RETURNING object",
        )
        .bind(digest)
        .fetch_optional(&mut *connection)
        .await?;
        if let Some(unused) = unused {
            objects.push(unused.try_get("object")?);
        }
    }
    Ok(Group { artifacts: over.len() as u64, objects })
}
