//! The vault: credentials in the store, sealed.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, FromRow, Row as _};
use toolbus_store::{Error as StoreError, Migration, Migrations, Store, Transaction};
use toolbus_tools::Credentials;
use zeroize::Zeroizing;

use crate::providers::{CHANGES, Providers};
use crate::{CredentialPlace, VaultError, VaultKey, seal};

/// Longest credential, in bytes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;
/// Most credentials of a vault.
pub const CREDENTIALS_MAX: i64 = 10_000;
/// How many credentials are in memory at a time while the key is changed.
const RESEALED_AT_A_TIME: i64 = 100;

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
    additions: &[],
};

/// Credentials in a store, sealed with one key. Clones are the same vault.
#[derive(Clone)]
pub struct Vault {
    store: Store,
    key: Arc<VaultKey>,
    providers: Providers,
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
    /// The vault of a store, which knows [`MIGRATIONS`]. An empty one takes the key as its own that
    /// is there at the first write.
    ///
    /// # Errors
    /// [`VaultError::WrongKey`], and what the store says.
    pub async fn open(store: Store, key: VaultKey) -> Result<Self, VaultError> {
        let providers = Providers::of(&store);
        Self::open_with(store, key, providers).await
    }

    pub(crate) async fn open_with(
        store: Store,
        key: VaultKey,
        providers: Providers,
    ) -> Result<Self, VaultError> {
        let vault = Self { store, key: Arc::new(key), providers };
        vault.check_stored_key().await?;
        Ok(vault)
    }

    /// The name of its key.
    pub(crate) fn key_name(&self) -> &str {
        self.key.name()
    }

    /// Checks that the credentials are sealed with this key, where there are any.
    async fn check_stored_key(&self) -> Result<(), VaultError> {
        let stored: Option<String> = sqlx::query_scalar("SELECT name FROM vault_key WHERE id = 1")
            .fetch_optional(self.store.readers())
            .await
            .map_err(StoreError::from)?;
        stored.map_or(Ok(()), |stored| check_key(&self.key, stored))
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
        self.write(KeyUse::Seal, move |transaction| Box::pin(insert(transaction, place, sealed)))
            .await
    }

    /// Removes a credential; `false` where there was none.
    ///
    /// # Errors
    /// What the store says, or another key meanwhile.
    pub async fn remove(&self, place: CredentialPlace) -> Result<bool, VaultError> {
        self.write(KeyUse::Show, move |transaction| {
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
        self.write(KeyUse::Show, move |transaction| {
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

    /// The credentials that a call of this tool by this owner is made with. Of two of one name it
    /// is the owner's own, and of two of those, or of none of those, the tool's own. No other is
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
        if !self.providers.has_any(provider).await? {
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
            credentials.insert(name, self.unseal(row).await?);
        }
        Ok(credentials)
    }

    /// The value of one place, and of no other that may fit as well.
    ///
    /// # Errors
    /// When it does not open, or what the store says.
    pub async fn find(
        &self,
        place: &CredentialPlace,
    ) -> Result<Option<Zeroizing<String>>, VaultError> {
        let row: Option<Row> = sqlx::query_as(
            "SELECT * FROM vault_credentials
             WHERE provider = $1 AND tool = $2 AND caller = $3 AND name = $4",
        )
        .bind(&place.provider)
        .bind(place.tool.as_deref().unwrap_or_default())
        .bind(place.user.as_deref().unwrap_or_default())
        .bind(&place.name)
        .fetch_optional(self.store.readers())
        .await
        .map_err(StoreError::from)?;

        match row {
            Some(row) => self.unseal(row).await.map(Some),
            None => Ok(None),
        }
    }

    async fn unseal(&self, row: Row) -> Result<Zeroizing<String>, VaultError> {
        let damaged = match seal::open(&self.key, &row.place(), row.sealed) {
            Err(error @ VaultError::Damaged { .. }) => error,
            opened => return opened,
        };
        // It may be whole, and its key another one since this was opened.
        self.check_stored_key().await?;
        Err(damaged)
    }

    /// Seals everything with another key, all of it or nothing. Other processes that have the old
    /// key read and write nothing after that.
    ///
    /// # Errors
    /// When one does not open, or what the store says; the old key stays then.
    pub async fn change_key(&self, key: VaultKey) -> Result<Self, VaultError> {
        let (old, new) = (Arc::clone(&self.key), Arc::new(key));
        let sealing = Arc::clone(&new);
        self.write(KeyUse::Show, move |transaction| {
            Box::pin(reseal_all(transaction, old, sealing))
        })
        .await?;
        Ok(Self { key: new, ..self.clone() })
    }

    /// Writes with the key that the credentials are sealed with, or not at all. An error of the
    /// vault undoes what the work has written.
    async fn write<T, F>(&self, key_use: KeyUse, work: F) -> Result<T, VaultError>
    where
        T: Send + 'static,
        F: for<'t> FnOnce(&'t mut Transaction) -> BoxFuture<'t, Written<T>> + Send + 'static,
    {
        let key = Arc::clone(&self.key);
        let failure: Arc<Mutex<Option<VaultError>>> = Arc::default();
        let failing = Arc::clone(&failure);

        let written = self.store.write(move |transaction| {
            Box::pin(async move {
                let written = match key_use.check(&key, transaction).await? {
                    Ok(()) => work(transaction).await?,
                    Err(wrong) => Err(wrong),
                };
                match written {
                    Ok(written) => {
                        transaction.notify(CHANGES);
                        Ok(written)
                    }
                    Err(error) => {
                        *failing.lock() = Some(error);
                        // What is undone is what fails by a rule of the tables.
                        Err(StoreError::Conflict("the vault refuses".to_owned()))
                    }
                }
            })
        });
        let written = written.await;
        match failure.lock().take() {
            Some(error) => Err(error),
            None => Ok(written?),
        }
    }
}

/// What a write makes of it, where the store did its part.
type Written<T> = Result<Result<T, VaultError>, StoreError>;

/// What a write needs the key for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyUse {
    /// To seal something: an empty vault takes the key as its own.
    Seal,
    /// To show that whoever writes has it.
    Show,
}

impl KeyUse {
    /// Checks the key, and keeps others from changing it before the write is committed.
    async fn check(self, key: &VaultKey, transaction: &mut Transaction) -> Written<()> {
        // An update of nothing is what locks the row in both databases.
        let stored: Option<String> = match self {
            Self::Seal => {
                let claim = sqlx::query_scalar(
                    "INSERT INTO vault_key (id, name) VALUES (1, $1)
                     ON CONFLICT (id) DO UPDATE SET name = vault_key.name RETURNING name",
                );
                claim.bind(key.name().to_owned()).fetch_optional(transaction.connection()).await?
            }
            Self::Show => {
                let lock = sqlx::query_scalar(
                    "UPDATE vault_key SET name = name WHERE id = 1 RETURNING name",
                );
                lock.fetch_optional(transaction.connection()).await?
            }
        };
        Ok(stored.map_or(Ok(()), |stored| check_key(key, stored)))
    }
}

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

/// Seals everything with another key, a few credentials at a time.
async fn reseal_all(
    transaction: &mut Transaction,
    old: Arc<VaultKey>,
    new: Arc<VaultKey>,
) -> Written<()> {
    let mut last = CredentialPlace::new("", "");
    loop {
        let rows = rows_after(transaction, &last).await?;
        let Some(row) = rows.last() else { break };
        last = row.place();

        for row in rows {
            let place = row.place();
            let resealed = seal::open(&old, &place, row.sealed)
                .and_then(|value| seal::seal(&new, &place, &value));
            match resealed {
                Ok(sealed) => replace_sealed(transaction, place, sealed).await?,
                Err(error) => return Ok(Err(error)),
            }
        }
    }

    sqlx::query("UPDATE vault_key SET name = $1 WHERE id = 1")
        .bind(new.name().to_owned())
        .execute(transaction.connection())
        .await?;
    Ok(Ok(()))
}

/// The next rows by their places.
async fn rows_after(
    transaction: &mut Transaction,
    last: &CredentialPlace,
) -> Result<Vec<Row>, StoreError> {
    let rows = sqlx::query_as(
        "SELECT * FROM vault_credentials
         WHERE (provider, tool, caller, name) > ($1, $2, $3, $4)
         ORDER BY provider, tool, caller, name LIMIT $5",
    )
    .bind(last.provider.clone())
    .bind(last.tool.clone().unwrap_or_default())
    .bind(last.user.clone().unwrap_or_default())
    .bind(last.name.clone())
    .bind(RESEALED_AT_A_TIME);
    Ok(rows.fetch_all(transaction.connection()).await?)
}

async fn replace_sealed(
    transaction: &mut Transaction,
    place: CredentialPlace,
    sealed: Vec<u8>,
) -> Result<(), StoreError> {
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
    Ok(())
}

fn check_key(key: &VaultKey, stored: String) -> Result<(), VaultError> {
    if stored == key.name() {
        return Ok(());
    }
    Err(VaultError::WrongKey { stored, given: key.name().to_owned() })
}
