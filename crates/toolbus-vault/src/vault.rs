//! The vault: credentials in the store, sealed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::watch;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, FromRow, Row as _};
use toolbus_store::{Error as StoreError, Migration, Migrations, Store, Transaction};
use toolbus_tools::Credentials;

use crate::{CredentialPlace, VaultError, VaultKey, seal};

/// Longest credential, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most credentials of a vault.
pub const CREDENTIALS_MAX: i64 = 10_000;
/// The part of the state that changes are told of.
const CHANGES: &str = "vault";

/// The tables of the vault.
pub const MIGRATIONS: Migrations = Migrations {
    owner: "vault",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE vault_key (
                  id BIGINT PRIMARY KEY,
                  name TEXT NOT NULL
              );
              CREATE TABLE vault_credentials (
                  provider TEXT NOT NULL,
                  tool TEXT NOT NULL,
                  caller TEXT NOT NULL,
                  name TEXT NOT NULL,
                  sealed BLOB NOT NULL,
                  written_ms BIGINT NOT NULL,
                  PRIMARY KEY (provider, tool, caller, name)
              )",
    }],
};

/// Credentials in a store, sealed with one key. Clones are the same vault.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    key: Arc<VaultKey>,
    providers: Arc<Mutex<Providers>>,
}

/// Which providers have credentials, so that the calls of all others ask nobody.
struct Providers {
    changes: watch::Receiver<u64>,
    known: Option<BTreeSet<String>>,
}

/// A credential that is kept, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCredential {
    /// Where.
    pub place: CredentialPlace,
    /// When it was written, in milliseconds since 1970.
    pub written_ms: i64,
}

/// A row of the table.
struct Row {
    provider: String,
    tool: String,
    caller: String,
    name: String,
    sealed: Vec<u8>,
}

impl FromRow<'_, AnyRow> for Row {
    fn from_row(row: &AnyRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            provider: row.try_get("provider")?,
            tool: row.try_get("tool")?,
            caller: row.try_get("caller")?,
            name: row.try_get("name")?,
            sealed: row.try_get("sealed")?,
        })
    }
}

impl Row {
    fn place(&self) -> CredentialPlace {
        let Self { provider, tool, caller, name, .. } = self;
        place_of(provider.clone(), tool.clone(), caller.clone(), name.clone())
    }
}

/// The place that these columns name. What a place has not is empty there.
fn place_of(provider: String, tool: String, caller: String, name: String) -> CredentialPlace {
    let part = |text: String| Some(text).filter(|text| !text.is_empty());
    CredentialPlace { provider, tool: part(tool), user: part(caller), name }
}

impl Vault {
    /// The vault of a store, which knows [`MIGRATIONS`]. An empty one takes this key as its own.
    ///
    /// # Errors
    /// [`VaultError::WrongKey`], and what the store says.
    pub async fn open(store: Store, key: VaultKey) -> Result<Self, VaultError> {
        let name = key.name().to_owned();
        let stored = store
            .write(|transaction| {
                Box::pin(async move {
                    sqlx::query(
                        "INSERT INTO vault_key (id, name) VALUES (1, $1) ON CONFLICT DO NOTHING",
                    )
                    .bind(name)
                    .execute(transaction.connection())
                    .await?;
                    key_name(transaction).await
                })
            })
            .await?;
        check_key(&key, stored)?;

        let providers = Providers { changes: store.changes(CHANGES), known: None };
        Ok(Self { store, key: Arc::new(key), providers: Arc::new(Mutex::new(providers)) })
    }

    /// Puts a credential into its place, instead of the one there.
    ///
    /// # Errors
    /// When there is no such place, no room, or another key meanwhile.
    pub async fn put(&self, place: CredentialPlace, value: &str) -> Result<(), VaultError> {
        place.check()?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(VaultError::TooLong);
        }

        let sealed = seal::seal(&self.key, &place, value)?;
        self.write(move |transaction| Box::pin(insert(transaction, place, sealed))).await
    }

    /// Removes a credential; `false` where there was none.
    ///
    /// # Errors
    /// What the store says, or another key meanwhile.
    pub async fn remove(&self, place: CredentialPlace) -> Result<bool, VaultError> {
        self.write(move |transaction| {
            Box::pin(async move {
                let removed = sqlx::query(
                    "DELETE FROM vault_credentials
                     WHERE provider = $1 AND tool = $2 AND caller = $3 AND name = $4",
                )
                .bind(place.provider)
                .bind(place.tool.unwrap_or_default())
                .bind(place.user.unwrap_or_default())
                .bind(place.name)
                .execute(transaction.connection())
                .await?;
                Ok(Ok(removed.rows_affected() > 0))
            })
        })
        .await
    }

    /// Removes all credentials of a provider, and says how many there were.
    ///
    /// # Errors
    /// What the store says, or another key meanwhile.
    pub async fn remove_provider(&self, provider: &str) -> Result<u64, VaultError> {
        let provider = provider.to_owned();
        self.write(move |transaction| {
            Box::pin(async move {
                let removed = sqlx::query("DELETE FROM vault_credentials WHERE provider = $1")
                    .bind(provider)
                    .execute(transaction.connection())
                    .await?;
                Ok(Ok(removed.rows_affected()))
            })
        })
        .await
    }

    /// What is kept, by provider, tool, caller and name, without the values.
    ///
    /// # Errors
    /// What the store says.
    pub async fn list(&self) -> Result<Vec<StoredCredential>, VaultError> {
        // The values are left where they are: all of them may be much.
        let rows: Vec<(String, String, String, String, i64)> = sqlx::query_as(
            "SELECT provider, tool, caller, name, written_ms
             FROM vault_credentials ORDER BY provider, tool, caller, name",
        )
        .fetch_all(self.store.readers())
        .await
        .map_err(StoreError::from)?;
        let entry = |(provider, tool, caller, name, written_ms)| StoredCredential {
            place: place_of(provider, tool, caller, name),
            written_ms,
        };
        Ok(rows.into_iter().map(entry).collect())
    }

    /// The credentials that a call of this tool by this caller is made with. Of two of one name it
    /// is the caller's own, and of two of those, or of none of those, the tool's own. No other is
    /// opened.
    ///
    /// # Errors
    /// When one of them does not open, or what the store says. There are none then.
    pub async fn credentials(
        &self,
        provider: &str,
        tool: &str,
        user: &str,
    ) -> Result<Credentials, VaultError> {
        if !self.has_any(provider).await? {
            return Ok(Credentials::default());
        }

        // The least particular first: each takes the place of those before.
        let rows: Vec<Row> = sqlx::query_as(
            "SELECT * FROM vault_credentials
             WHERE provider = $1 AND tool IN ('', $2) AND caller IN ('', $3)
             ORDER BY CASE caller WHEN '' THEN 0 ELSE 1 END, CASE tool WHEN '' THEN 0 ELSE 1 END",
        )
        .bind(provider)
        .bind(tool)
        .bind(user)
        .fetch_all(self.store.readers())
        .await
        .map_err(StoreError::from)?;
        let particular: BTreeMap<String, Row> =
            rows.into_iter().map(|row| (row.name.clone(), row)).collect();

        let mut credentials = Credentials::default();
        for (name, row) in particular {
            let value = seal::open(&self.key, &row.place(), row.sealed)?;
            credentials.insert(name, value);
        }
        Ok(credentials)
    }

    /// Seals everything with another key, all of it or nothing. Other processes that have the old
    /// key read and write nothing after that.
    ///
    /// # Errors
    /// When one does not open, or what the store says; the old key stays then.
    pub async fn change_key(&self, key: VaultKey) -> Result<Self, VaultError> {
        let (old, new) = (Arc::clone(&self.key), Arc::new(key));
        let sealing = Arc::clone(&new);
        self.write(move |transaction| {
            Box::pin(async move {
                let rows: Vec<Row> = sqlx::query_as("SELECT * FROM vault_credentials")
                    .fetch_all(transaction.connection())
                    .await?;
                let sealed: Result<Vec<_>, _> =
                    rows.into_iter().map(|row| reseal(row, &old, &sealing)).collect();
                let sealed = match sealed {
                    Ok(sealed) => sealed,
                    Err(error) => return Ok(Err(error)),
                };

                for (place, sealed) in sealed {
                    sqlx::query(
                        "UPDATE vault_credentials SET sealed = $5
                         WHERE provider = $1 AND tool = $2 AND caller = $3 AND name = $4",
                    )
                    .bind(place.provider)
                    .bind(place.tool.unwrap_or_default())
                    .bind(place.user.unwrap_or_default())
                    .bind(place.name)
                    .bind(sealed)
                    .execute(transaction.connection())
                    .await?;
                }
                sqlx::query("UPDATE vault_key SET name = $1 WHERE id = 1")
                    .bind(sealing.name().to_owned())
                    .execute(transaction.connection())
                    .await?;
                Ok(Ok(()))
            })
        })
        .await?;
        Ok(Self { key: new, ..self.clone() })
    }

    /// Whether a provider has credentials at all, as far as that is known here. The calls of most
    /// have none, and cost no look at the store.
    pub(crate) fn knows_of(&self, provider: &str) -> Option<bool> {
        let providers = self.providers.lock();
        let has_changed = providers.changes.has_changed().unwrap_or(true);
        let known = providers.known.as_ref().filter(|_| !has_changed)?;
        Some(known.contains(provider))
    }

    async fn has_any(&self, provider: &str) -> Result<bool, VaultError> {
        if let Some(has_any) = self.knows_of(provider) {
            return Ok(has_any);
        }

        // A change that comes while it is looked is seen the next time.
        self.providers.lock().changes.mark_unchanged();
        let found: Vec<String> =
            sqlx::query_scalar("SELECT DISTINCT provider FROM vault_credentials")
                .fetch_all(self.store.readers())
                .await
                .map_err(StoreError::from)?;
        let found: BTreeSet<String> = found.into_iter().collect();
        let has_any = found.contains(provider);
        self.providers.lock().known = Some(found);
        Ok(has_any)
    }

    /// Writes with the key that the credentials are sealed with, or not at all. Work that gives an
    /// error of the vault has written nothing.
    async fn write<T, F>(&self, work: F) -> Result<T, VaultError>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction) -> BoxFuture<'t, Written<T>> + Send + 'static,
    {
        let key = Arc::clone(&self.key);
        let written = self.store.write(move |transaction| {
            Box::pin(async move {
                if let Err(wrong) = check_key(&key, key_name(transaction).await?) {
                    return Ok(Err(wrong));
                }
                let written = work(transaction).await?;
                transaction.notify(CHANGES);
                Ok(written)
            })
        });
        written.await?
    }
}

/// What a write makes of it, where the store did its part.
type Written<T> = Result<Result<T, VaultError>, StoreError>;

async fn insert(
    transaction: &mut Transaction,
    place: CredentialPlace,
    sealed: Vec<u8>,
) -> Written<()> {
    let now = transaction.now_ms().await?;
    let CredentialPlace { provider, tool, user, name } = place;
    let (tool, user) = (tool.unwrap_or_default(), user.unwrap_or_default());
    let others: i64 = sqlx::query_scalar(
        "SELECT COUNT(*) FROM vault_credentials
         WHERE NOT (provider = $1 AND tool = $2 AND caller = $3 AND name = $4)",
    )
    .bind(&provider)
    .bind(&tool)
    .bind(&user)
    .bind(&name)
    .fetch_one(transaction.connection())
    .await?;
    if others >= CREDENTIALS_MAX {
        return Ok(Err(VaultError::TooMany));
    }

    sqlx::query(
        "INSERT INTO vault_credentials (provider, tool, caller, name, sealed, written_ms)
         VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (provider, tool, caller, name)
         DO UPDATE SET sealed = excluded.sealed, written_ms = excluded.written_ms",
    )
    .bind(provider)
    .bind(tool)
    .bind(user)
    .bind(name)
    .bind(sealed)
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(Ok(()))
}

/// A credential sealed with another key.
fn reseal(
    row: Row,
    old: &VaultKey,
    new: &VaultKey,
) -> Result<(CredentialPlace, Vec<u8>), VaultError> {
    let place = row.place();
    let value = seal::open(old, &place, row.sealed)?;
    let sealed = seal::seal(new, &place, &value)?;
    Ok((place, sealed))
}

async fn key_name(transaction: &mut Transaction) -> Result<String, StoreError> {
    let name = sqlx::query_scalar("SELECT name FROM vault_key WHERE id = 1");
    Ok(name.fetch_one(transaction.connection()).await?)
}

fn check_key(key: &VaultKey, stored: String) -> Result<(), VaultError> {
    if stored == key.name() {
        return Ok(());
    }
    Err(VaultError::WrongKey { stored, given: key.name().to_owned() })
}
