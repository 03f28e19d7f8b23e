//! Keys of clients, kept in the store.
//!
//! A key is 32 random bytes from the system. The store has its SHA-256 and nothing that it could be
//! found from: a slow hash is for secrets that can be guessed. Every request looks its key up, so
//! one that is revoked is of no use at once, in every process at the store.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Error, LazyStore};
use toolbus_wire::envelope::new_id;

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
/// How much of a digest a key is found by, in bytes of text.
const LOOKUP_BYTES: usize = 16;
const COLUMNS: &str =
    "id, name, kind, shown, role, plan, digest, created_ms, expires_ms, revoked_ms";

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
    pub(crate) created_ms: i64,
    pub(crate) expires_ms: Option<i64>,
    pub(crate) revoked_ms: Option<i64>,
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
    /// What webhooks of its jobs are signed with.
    pub(crate) webhook_secret: String,
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

/// The keys of a store. Clones are the same.
#[derive(Clone)]
pub(crate) struct Keys {
    store: LazyStore,
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
            created_ms: row.try_get("created_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            revoked_ms: row.try_get("revoked_ms")?,
        })
    }

    fn is_of(&self, digest: &str) -> bool {
        self.digest.as_bytes().ct_eq(digest.as_bytes()).into()
    }
}

impl Keys {
    pub(crate) fn new(store: LazyStore) -> Self {
        Self { store }
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
    pub(crate) async fn issue(&self, new: NewKey) -> Result<Result<IssuedKey, NotIssued>, Error> {
        let (Some(secret), Some(webhook)) = (random_text(), random_text()) else {
            return Ok(Err(NotIssued::NoRandomness));
        };
        let token = format!("{PREFIX}{}_{secret}", new.kind.as_str());
        let webhook_secret = format!("whsec_{webhook}");
        let digest = digest_of(&token);
        let shown = token[..SHOWN_BYTES].to_owned();
        let kept_secret = webhook_secret.clone();

        let store = self.store.open().await?;
        let written = store.write(move |transaction| {
            Box::pin(async move {
                let now = transaction.now_ms().await?;
                // What is of no use any more makes room, and gives its name back.
                let kept: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM http_keys")
                    .fetch_one(transaction.connection())
                    .await?;
                if kept >= KEYS_MAX {
                    return Ok(Err(NotIssued::Full));
                }
                sqlx::query(
                    "UPDATE http_keys SET revoked_ms = $1
                     WHERE name = $2 AND revoked_ms IS NULL AND expires_ms <= $1",
                )
                .bind(now)
                .bind(&*new.name)
                .execute(transaction.connection())
                .await?;
                let key = Key {
                    id: new_id(),
                    name: new.name,
                    kind: new.kind.as_str().to_owned(),
                    shown,
                    role: new.role,
                    plan: new.plan,
                    digest,
                    created_ms: now,
                    expires_ms: new.lifetime_ms.map(|lifetime| now.saturating_add(lifetime)),
                    revoked_ms: None,
                };
                let inserted = sqlx::query(
                    "INSERT INTO http_keys (id, name, kind, shown, role, plan, lookup, digest,
                         webhook_secret, created_ms, expires_ms)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
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
                .bind(&*kept_secret)
                .bind(key.created_ms)
                .bind(key.expires_ms)
                .execute(transaction.connection())
                .await?;
                Ok(if inserted.rows_affected() == 0 { Err(NotIssued::NameTaken) } else { Ok(key) })
            })
        });
        Ok(written.await?.map(|key| IssuedKey { key, token, webhook_secret }))
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
                        "UPDATE http_keys SET revoked_ms = COALESCE(revoked_ms, $1),
                         webhook_secret = '' WHERE id = $2 RETURNING {COLUMNS}"
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

    /// What the webhooks of the key of this name are signed with, while it may be used.
    pub(crate) async fn webhook_secret(&self, name: &str) -> Result<Option<String>, Error> {
        let store = self.store.open().await?;
        let now = store.location().now_ms_sql();
        let text = format!(
            "SELECT webhook_secret FROM http_keys WHERE name = $1 AND revoked_ms IS NULL
             AND (expires_ms IS NULL OR expires_ms > {now})"
        );
        let secret = sqlx::query_scalar(AssertSqlSafe(text)).bind(name);
        Ok(secret.fetch_optional(store.readers()).await?)
    }
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
