//! Ids of the clients that settings name.
//!
//! Settings know a client by its name alone. A name that is removed from them and given to somebody
//! else later gets an id, so that the new client owns nothing of the old one. The first client of a
//! name owns by the name, without an id: so it keeps what it owned before there were ids, and a
//! program from that time, after a rollback, finds what it owns now.

use std::collections::{BTreeMap, BTreeSet};

use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore, Transaction};
use toolbus_tools::Principal;
use toolbus_tools::scope::Proof;
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

/// The ids of these clients of an agent, by their names, without those that own by their name.
/// Clients that are not named any more are gone for good.
///
/// # Errors
/// When the state cannot be read or written.
pub async fn client_ids(
    store: &LazyStore,
    agent: &AgentName,
    names: impl IntoIterator<Item = String>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut new: BTreeSet<String> = names.into_iter().collect();
    let agent = agent.to_string();
    let known = store.open().await?.write(move |transaction| {
        Box::pin(async move {
            let now = transaction.now_ms().await?;
            let rows = sqlx::query(
                "SELECT id, name, owns_by_name FROM http_clients
                 WHERE agent = $1 AND removed_ms IS NULL",
            )
            .bind(&agent)
            .fetch_all(transaction.connection())
            .await?;

            let mut ids = BTreeMap::new();
            for row in rows {
                let (id, name): (String, String) = (row.try_get("id")?, row.try_get("name")?);
                let owns_by_name: i64 = row.try_get("owns_by_name")?;
                if new.remove(&name) {
                    if owns_by_name == 0 {
                        ids.insert(name, id);
                    }
                    continue;
                }
                sqlx::query("UPDATE http_clients SET removed_ms = $1 WHERE id = $2")
                    .bind(now)
                    .bind(id)
                    .execute(transaction.connection())
                    .await?;
            }

            for name in new {
                if let Some(id) = insert(transaction, &agent, &name, now).await? {
                    ids.insert(name, id);
                }
            }
            Ok(ids)
        })
    });
    known.await
}

/// Returns the client of an agent that has the name of this principal now, with its id. A name that
/// no client has had is that of its first client, which owns by the name. `None`: its last client
/// is gone.
pub(crate) async fn current_client(
    store: &LazyStore,
    agent: &AgentName,
    mut named: Principal,
) -> Result<Option<Principal>, Error> {
    let last = sqlx::query(
        "SELECT id, owns_by_name, removed_ms FROM http_clients WHERE agent = $1 AND name = $2
         ORDER BY CASE WHEN removed_ms IS NULL THEN 0 ELSE 1 END LIMIT 1",
    )
    .bind(agent.to_string())
    .bind(named.name.to_string())
    .fetch_optional(store.open().await?.readers())
    .await?;

    let Some(row) = last else { return Ok(Some(named)) };
    if row.try_get::<Option<i64>, _>("removed_ms")?.is_some() {
        return Ok(None);
    }
    if row.try_get::<i64, _>("owns_by_name")? == 0
        && let Proof::Token { id, .. } = &mut named.proof
    {
        *id = Some(row.try_get::<String, _>("id")?.into());
    }
    Ok(Some(named))
}

/// Writes a client down, unless another process has done so in the same moment. Returns its id.
/// `None`: it owns by its name.
async fn insert(
    transaction: &mut Transaction,
    agent: &str,
    name: &str,
    now: i64,
) -> Result<Option<String>, Error> {
    let row = sqlx::query(
        "INSERT INTO http_clients (id, agent, name, owns_by_name, created_ms)
         SELECT $1, $2, $3, CASE WHEN EXISTS
                    (SELECT 1 FROM http_clients WHERE agent = $2 AND name = $3)
                THEN 0 ELSE 1 END, $4
         WHERE TRUE
         ON CONFLICT (agent, name) WHERE removed_ms IS NULL
             DO UPDATE SET created_ms = http_clients.created_ms
         RETURNING id, owns_by_name",
    )
    .bind(new_id())
    .bind(agent)
    .bind(name)
    .bind(now)
    .fetch_one(transaction.connection())
    .await?;

    let owns_by_name: i64 = row.try_get("owns_by_name")?;
    Ok(if owns_by_name == 0 { Some(row.try_get("id")?) } else { None })
}
