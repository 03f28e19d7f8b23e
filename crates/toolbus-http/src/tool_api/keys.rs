//! Keys of clients, kept in the store.
//!
//! A key is 32 random bytes from the system. The store has its SHA-256 and nothing that it could be
//! found from: a slow hash is for secrets that can be guessed. Every request looks its key up, so
//! one that is revoked is of no use at once, in every process at the store.
//!
//! What webhooks of a key's jobs are signed with is in the vault, and only there: without a vault,
//! no key has one.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Error, LazyStore, Transaction};
use toolbus_tools::Principal;
use toolbus_tools::scope::Proof;
use toolbus_vault::{CredentialPlace, LazyVault, VaultError};
use toolbus_wire::envelope::new_id;
use zeroize::Zeroizing;

use super::access::Role;

/// Who gives out the keys: rules know a client as `token:toolbus-keys/NAME`.
pub const KEY_ISSUER: &str = "toolbus-keys";
/// Most keys that are kept.
const KEYS_MAX: i64 = 10_000;
/// How every key begins.
const PREFIX: &str = "acx_";
/// A key is longer than this, in bytes.
const KEY_BYTES_MIN: usize = 12;
/// Longer ones are not looked up.
const KEY_BYTES_MAX: usize = 128;
/// How much of a key is shown later, in bytes.
const SHOWN_BYTES: usize = 8;
const SECRET_BYTES: usize = 32;
/// Who has the secrets of webhooks, in the vault.
const SECRET_PROVIDER: &str = "webhooks:toolbus-keys";
/// Most secrets of keys of no more use that are removed at once.
const SWEPT_MAX: i64 = 100;
/// How much of a digest a key is found by, in bytes of text.
const LOOKUP_BYTES: usize = 16;
const COLUMNS: &str =
    "id, name, kind, shown, role, plan, digest, owns_by_name, created_ms, expires_ms, revoked_ms";

/// What a key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Live,
    Test,
    Dev,
}

/// A key as it is kept.
#[derive(Debug, Clone)]
pub(crate) struct Key {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Its beginning.
    pub(crate) shown: String,
    pub(crate) role: Role,
    pub(crate) plan: String,
    digest: String,
    /// The key was issued before owners had ids.
    owns_by_name: bool,
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) revoked_ms: Option<i64>,
}

/// A reference to the key of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyOwner<'a> {
    /// The key with this id.
    Id(&'a str),
    /// The key with this name, if it owns by name.
    Name(&'a str),
}

/// A key that is to be given out.
#[derive(Debug, Clone)]
pub(crate) struct NewKey {
    pub(crate) name: String,
    pub(crate) kind: KeyKind,
    pub(crate) role: Role,
    pub(crate) plan: String,
    pub(crate) lifetime_ms: Option<i64>,
}

/// A key that was given out: the only time that anybody sees it.
pub(crate) struct IssuedKey {
    pub(crate) key: Key,
    pub(crate) token: String,
    /// What webhooks of its jobs are signed with. `None`: there is no vault for it.
    pub(crate) webhook_secret: Option<String>,
}

/// Why no key was given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotIssued {
    /// Another one has the name.
    NameTaken,
    /// There are too many.
    Full,
    /// The system gives no random bytes.
    NoRandomness,
}

/// Why the secret of a key cannot be had or kept.
#[derive(Debug)]
pub(crate) enum SecretError {
    Store(Error),
    Vault(VaultError),
}

impl From<Error> for SecretError {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<VaultError> for SecretError {
    fn from(error: VaultError) -> Self {
        match error {
            VaultError::Store(error) => Self::Store(error),
            error => Self::Vault(error),
        }
    }
}

/// The keys of a store. Clones are the same.
#[derive(Clone)]
pub(crate) struct Keys {
    store: LazyStore,
    vault: Option<LazyVault>,
}

/// A key that is to be kept, with what was made for it.
struct MadeKey {
    id: String,
    new: NewKey,
    shown: String,
    digest: String,
    has_secret: bool,
}

impl KeyKind {
    pub(crate) const ALL: [Self; 3] = [Self::Live, Self::Test, Self::Dev];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Test => "test",
            Self::Dev => "dev",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

/// Whether a text could be a key.
pub(crate) fn is_well_formed(token: &str) -> bool {
    let is_long_enough = token.len() > KEY_BYTES_MIN && token.len() <= KEY_BYTES_MAX;
    is_long_enough && token.starts_with(PREFIX)
}

impl Key {
    fn read(row: &AnyRow) -> Result<Self, sqlx::Error> {
        let role: String = row.try_get("role")?;
        Ok(Self {
            id: row.try_get("id")?,
            name: row.try_get("name")?,
            kind: row.try_get("kind")?,
            shown: row.try_get("shown")?,
            // One that a later version wrote is not trusted with more.
            role: Role::parse(&role).unwrap_or(Role::Reader),
            plan: row.try_get("plan")?,
            digest: row.try_get("digest")?,
            owns_by_name: row.try_get::<i64, _>("owns_by_name")? != 0,
            created_ms: row.try_get("created_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            revoked_ms: row.try_get("revoked_ms")?,
        })
    }

    /// Returns the principal that the key authenticates.
    pub(crate) fn principal(&self) -> Principal {
        let id = (!self.owns_by_name).then(|| self.id.as_str().into());
        let proof = Proof::Token { issuer: KEY_ISSUER.into(), id };
        Principal { name: self.name.as_str().into(), proof }
    }

    fn is_of(&self, digest: &str) -> bool {
        self.digest.as_bytes().ct_eq(digest.as_bytes()).into()
    }
}

impl<'a> KeyOwner<'a> {
    /// Returns the key that authenticated a principal. `None`: no key did.
    pub(crate) fn of(principal: &'a Principal) -> Option<Self> {
        match &principal.proof {
            Proof::Token { issuer, id } if **issuer == *KEY_ISSUER => Some(match id {
                Some(id) => Self::Id(id),
                None => Self::Name(&principal.name),
            }),
            _ => None,
        }
    }
}

impl Keys {
    pub(crate) fn new(store: LazyStore, vault: Option<LazyVault>) -> Self {
        Self { store, vault }
    }

    /// Whether keys have secrets for webhooks.
    pub(crate) fn have_secrets(&self) -> bool {
        self.vault.is_some()
    }

    /// The key of this text, where it is one that may be used now.
    pub(crate) async fn find(&self, token: &str) -> Result<Option<Key>, Error> {
        let digest = digest_of(token);
        let store = self.store.open().await?;
        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT {COLUMNS} FROM http_keys WHERE lookup = $1 AND revoked_ms IS NULL
             AND (expires_ms IS NULL OR expires_ms > {now})"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(&digest[..LOOKUP_BYTES])
            .fetch_all(store.readers())
            .await?;
        let keys = rows.iter().map(Key::read).collect::<Result<Vec<_>, _>>()?;
        Ok(keys.into_iter().find(|key| key.is_of(&digest)))
    }

    /// Gives out a key.
    pub(crate) async fn issue(
        &self,
        new: NewKey,
    ) -> Result<Result<IssuedKey, NotIssued>, SecretError> {
        let (Some(secret), Some(webhook)) = (random_text(), random_text()) else {
            return Ok(Err(NotIssued::NoRandomness));
        };
        let token = format!("{PREFIX}{}_{secret}", new.kind.as_str());
        let id = new_id();
        // First: a key without its secret would be of no use for webhooks.
        let webhook_secret = match &self.vault {
            Some(vault) => {
                let secret = format!("whsec_{webhook}");
                vault.open().await?.put(secret_place(&id), &secret).await?;
                Some(secret)
            }
            None => None,
        };

        let made = MadeKey {
            id: id.clone(),
            new,
            shown: token[..SHOWN_BYTES].to_owned(),
            digest: digest_of(&token),
            has_secret: webhook_secret.is_some(),
        };
        let store = self.store.open().await?;
        let written = store.write(move |transaction| Box::pin(insert(transaction, made))).await;
        if let (Ok(Err(_)), Some(vault)) = (&written, &self.vault) {
            vault.open().await?.remove(secret_place(&id)).await?;
        }
        Ok(written?.map(|key| IssuedKey { key, token, webhook_secret }))
    }

    /// All keys, the newest first.
    pub(crate) async fn list(&self, limit: i64, offset: i64) -> Result<(Vec<Key>, i64), Error> {
        let store = self.store.open().await?;
        let total =
            sqlx::query_scalar("SELECT COUNT(*) FROM http_keys").fetch_one(store.readers()).await?;
        let text = format!(
            "SELECT {COLUMNS} FROM http_keys ORDER BY created_ms DESC, id LIMIT $1 OFFSET $2"
        );
        let rows = sqlx::query(AssertSqlSafe(text))
            .bind(limit)
            .bind(offset)
            .fetch_all(store.readers())
            .await?;
        let keys = rows.iter().map(Key::read).collect::<Result<Vec<_>, _>>()?;
        Ok((keys, total))
    }

    /// Revokes a key, and gives it as it is then. `None`: there is none of this id.
    pub(crate) async fn revoke(&self, id: &str) -> Result<Option<Key>, Error> {
        let id = id.to_owned();
        let store = self.store.open().await?;
        store
            .write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let text = format!(
                        "UPDATE http_keys SET revoked_ms = COALESCE(revoked_ms, $1)
                         WHERE id = $2 RETURNING {COLUMNS}"
                    );
                    let row = sqlx::query(AssertSqlSafe(text))
                        .bind(now)
                        .bind(id)
                        .fetch_optional(transaction.connection())
                        .await?;
                    Ok(row.as_ref().map(Key::read).transpose()?)
                })
            })
            .await
    }

    /// Returns the principal of the key with this name, if the key is active.
    pub(crate) async fn principal_of(&self, name: &str) -> Result<Option<Principal>, Error> {
        let store = self.store.open().await?;
        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT {COLUMNS} FROM http_keys WHERE name = $1 AND revoked_ms IS NULL
             AND (expires_ms IS NULL OR expires_ms > {now})"
        );
        let row = sqlx::query(AssertSqlSafe(text)).bind(name);
        let row = row.fetch_optional(store.readers()).await?;
        Ok(row.as_ref().map(Key::read).transpose()?.map(|key| key.principal()))
    }

    /// Returns the id of an owner's key, if the key is active.
    pub(crate) async fn active_id(&self, owner: KeyOwner<'_>) -> Result<Option<String>, Error> {
        let store = self.store.open().await?;
        let now = store.location().now_ms_sql();
        let (condition, value) = match owner {
            KeyOwner::Id(id) => ("id = $1", id),
            KeyOwner::Name(name) => ("name = $1 AND owns_by_name = 1", name),
        };
        let text = format!(
            "SELECT id FROM http_keys WHERE {condition} AND revoked_ms IS NULL
             AND (expires_ms IS NULL OR expires_ms > {now})"
        );
        let id = sqlx::query_scalar(AssertSqlSafe(text)).bind(value);
        Ok(id.fetch_optional(store.readers()).await?)
    }

    /// Returns the secret that signs the webhooks of an owner's key, if the key is active.
    pub(crate) async fn webhook_secret(
        &self,
        owner: KeyOwner<'_>,
    ) -> Result<Option<Zeroizing<String>>, SecretError> {
        let Some(vault) = &self.vault else { return Ok(None) };
        let Some(id) = self.active_id(owner).await? else { return Ok(None) };
        Ok(vault.find(&secret_place(&id)).await?)
    }

    /// Removes the secrets of keys that are of no more use. Those that are left are removed the
    /// next time.
    pub(crate) async fn sweep_secrets(&self) {
        if let Some(vault) = &self.vault
            && let Err(error) = self.sweep(vault).await
        {
            tracing::warn!(?error, "secrets of keys of no more use are not removed yet");
        }
    }

    async fn sweep(&self, vault: &LazyVault) -> Result<(), SecretError> {
        let store = self.store.open().await?;
        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT id FROM http_keys WHERE has_secret = 1
             AND (revoked_ms IS NOT NULL OR expires_ms <= {now}) LIMIT $1"
        );
        let ids: Vec<String> = sqlx::query_scalar(AssertSqlSafe(text))
            .bind(SWEPT_MAX)
            .fetch_all(store.readers())
            .await
            .map_err(Error::from)?;

        for id in ids {
            vault.open().await?.remove(secret_place(&id)).await?;
            let swept = store.write(move |transaction| {
                Box::pin(async move {
                    sqlx::query("UPDATE http_keys SET has_secret = 0 WHERE id = $1")
                        .bind(id)
                        .execute(transaction.connection())
                        .await?;
                    Ok(())
                })
            });
            swept.await?;
        }
        Ok(())
    }
}

/// Keeps a key, unless another one has its name.
async fn insert(
    transaction: &mut Transaction,
    made: MadeKey,
) -> Result<Result<Key, NotIssued>, Error> {
    let now = transaction.now_ms().await?;
    let kept: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM http_keys")
        .fetch_one(transaction.connection())
        .await?;
    if kept >= KEYS_MAX {
        return Ok(Err(NotIssued::Full));
    }
    let MadeKey { id, new, shown, digest, has_secret } = made;
    // One that has expired gives its name back.
    sqlx::query(
        "UPDATE http_keys SET revoked_ms = $1
         WHERE name = $2 AND revoked_ms IS NULL AND expires_ms <= $1",
    )
    .bind(now)
    .bind(&*new.name)
    .execute(transaction.connection())
    .await?;

    let key = Key {
        id,
        name: new.name,
        kind: new.kind.as_str().to_owned(),
        shown,
        role: new.role,
        plan: new.plan,
        digest,
        owns_by_name: false,
        created_ms: now,
        expires_ms: new.lifetime_ms.map(|lifetime| now.saturating_add(lifetime)),
        revoked_ms: None,
    };
    let inserted = sqlx::query(
        "INSERT INTO http_keys (id, name, kind, shown, role, plan, lookup, digest, has_secret,
             owns_by_name, created_ms, expires_ms)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
         ON CONFLICT DO NOTHING",
    )
    .bind(&*key.id)
    .bind(&*key.name)
    .bind(&*key.kind)
    .bind(&*key.shown)
    .bind(key.role.as_str())
    .bind(&*key.plan)
    .bind(&key.digest[..LOOKUP_BYTES])
    .bind(&*key.digest)
    .bind(i64::from(has_secret))
    .bind(i64::from(key.owns_by_name))
    .bind(key.created_ms)
    .bind(key.expires_ms)
    .execute(transaction.connection())
    .await?;
    Ok(if inserted.rows_affected() == 0 { Err(NotIssued::NameTaken) } else { Ok(key) })
}

fn secret_place(id: &str) -> CredentialPlace {
    CredentialPlace::new(SECRET_PROVIDER, id)
}

fn digest_of(token: &str) -> String {
    format!("{:x}", Sha256::digest(token))
}

/// Random bytes of the system, as a text. `None`: there are none.
fn random_text() -> Option<String> {
    let mut secret = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut secret).ok()?;
    Some(URL_SAFE_NO_PAD.encode(secret))
}

#[cfg(test)]
mod tests;
